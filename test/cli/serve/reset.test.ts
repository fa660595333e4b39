import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createHome, type Home, json, missing, startServe } from '../../acceptance/program.js';

interface Failure {
  error: { code: string; message: string; next?: string[] };
}

const isTerminalMissing = missing('python3') !== undefined;

describe('asp serve reset', () => {
  let home: Home;
  let data: string;
  beforeEach(() => {
    home = createHome();
    data = join(home.directory, 'serve-data');
  });
  afterEach(() => home.dispose());

  /** Creates a stopped service with an agent, a session, and an attachment. */
  const leaveData = async (): Promise<void> => {
    const service = await startServe(home, ['--seed', 'alice.bot,bob.bot']);
    await home.run(['login', '@alice.bot', '--yes']);
    writeFileSync(join(home.directory, 'note.txt'), 'a note');
    const sent = await home.asp(['send', '@bob.bot', 'look', '--file', 'note.txt']);
    expect(sent.status, sent.stderr).toBe(0);
    await service.stop();
    expect(readdirSync(join(data, 'attachments')).filter((name) => name !== 'identity')).toHaveLength(1);
  };
  const reset = (...words: string[]) => home.asp(['serve', 'reset', '--data', data, ...words]);
  const refusal = (stderr: string) => json<Failure>(stderr.trim().split('\n').at(-1) ?? '').error;

  it('deletes the database, its journals and the attachments, and says what it deleted', async () => {
    await leaveData();
    const { status, stdout, stderr } = await reset('--yes');
    expect({ status, stdout }).toEqual({ status: 0, stdout: `${data}\n` });
    expect(stderr).toMatch(/Deleted: the database and 1 attachment in .*serve-data \(\d+ KB\)/);
    expect(readdirSync(data)).toEqual(['asp.lock']);
    const service = await startServe(home);
    expect(json((await home.asp(['serve', 'status', '--json'])).stdout)).toMatchObject({ agents: 0, sessions: 0 });
    await service.stop();
  });

  it('prints JSON with --json; deleting a second time succeeds', async () => {
    await leaveData();
    expect(json((await reset('--yes', '--json')).stdout)).toEqual({
      data,
      deleted: true,
      attachments: 1,
      bytes: expect.any(Number),
    });
    const again = await reset('--yes', '--json');
    expect(again.status).toBe(0);
    expect(json(again.stdout)).toEqual({ data, deleted: false, attachments: 0, bytes: 0 });
  });

  it('is refused while the service runs, found by its record or by its lock', async () => {
    const service = await startServe(home, ['--seed', 'alice.bot']);
    const before = readdirSync(data);
    const known = await reset('--yes', '--json');
    expect(known).toMatchObject({ status: 6, stdout: '' });
    expect(refusal(known.stderr)).toMatchObject({ code: 'ASP_PORT_IN_USE', next: ['asp', 'serve', 'stop'] });
    const stranger = createHome();
    const locked = await stranger.asp(['serve', 'reset', '--data', data, '--yes', '--json']);
    expect(locked).toMatchObject({ status: 6, stdout: '' });
    await stranger.dispose();
    expect(readdirSync(data)).toEqual(before);
    await service.stop();
  });

  it('also removes the record after a crash', async () => {
    const service = await startServe(home);
    service.running.kill('SIGKILL');
    await service.running.ended;
    const record = join(home.directory, 'run/asp-cli/serve/default.json');
    expect(existsSync(record)).toBe(true);
    expect((await reset('--yes')).status).toBe(0);
    expect(existsSync(record)).toBe(false);
  });

  it('needs --yes without a terminal (exit 2)', async () => {
    await leaveData();
    expect(await reset()).toMatchObject({ status: 2, stdout: '', stderr: expect.stringContaining('--yes') });
    expect(existsSync(join(data, 'asp.sqlite'))).toBe(true);
  });

  it.skipIf(isTerminalMissing)('asks on a terminal; Enter deletes nothing, y deletes', async () => {
    await leaveData();
    const answer = async (key: string): Promise<number | null> => {
      const asked = home.terminal(['serve', 'reset', '--data', data]);
      // The terminal of a test has no width, so words are broken. Once the circle appears, the prompt reads keys.
      await asked.until('stdout', /○/);
      asked.child.stdin?.write(key);
      return (await asked.ended).status;
    };
    expect(await answer('\r')).toBe(1);
    expect(existsSync(join(data, 'asp.sqlite'))).toBe(true);
    expect(await answer('y')).toBe(0);
    expect(existsSync(join(data, 'asp.sqlite'))).toBe(false);
  });

  it('keeps files that are not the service’s, and follows no link out of the folder', async () => {
    await leaveData();
    const outside = join(home.directory, 'outside.txt');
    writeFileSync(outside, 'mine');
    writeFileSync(join(data, 'notes.txt'), 'mine');
    symlinkSync(outside, join(data, 'attachments', 'att_01HZZZZZZZZZZZZZZZZZZZZZZZ'));
    expect((await reset('--yes')).status).toBe(0);
    expect(readFileSync(outside, 'utf8')).toBe('mine');
    expect(readdirSync(data).sort()).toEqual(['asp.lock', 'attachments', 'notes.txt']);
  });

  it('is refused if the folder, its database or its attachments are links', async () => {
    await leaveData();
    const real = join(home.directory, 'real');
    renameSync(join(data, 'attachments'), real);
    symlinkSync(real, join(data, 'attachments'));
    const linked = await reset('--yes', '--json');
    expect({ status: linked.status, error: refusal(linked.stderr) }).toMatchObject({
      status: 2,
      error: { code: 'ASP_CONFIG', message: expect.stringContaining('attachments in it is a link') },
    });
    symlinkSync(data, join(home.directory, 'link'));
    expect((await home.asp(['serve', 'reset', '--data', 'link', '--yes'])).status).toBe(2);
    expect(readdirSync(real).filter((name) => name !== 'identity')).toHaveLength(1);
    expect(existsSync(join(data, 'asp.sqlite'))).toBe(true);
  });

  for (const [title, plant] of [
    ['holds something else', (folder: string) => writeFileSync(join(folder, 'thesis.txt'), 'years of work')],
    ['holds attachments alone, as with PostgreSQL', (folder: string) => mkdirSync(join(folder, 'attachments'))],
    ['holds a file of that name', (folder: string) => writeFileSync(join(folder, 'asp.sqlite'), 'no database')],
  ] as const)
    it(`is refused if the folder ${title}`, async () => {
      mkdirSync(data);
      plant(data);
      const before = readdirSync(data);
      const ended = await reset('--yes', '--json');
      expect({ status: ended.status, code: refusal(ended.stderr).code }).toEqual({ status: 2, code: 'ASP_CONFIG' });
      expect(readdirSync(data)).toEqual(expect.arrayContaining(before));
    });

  it('is refused for data in PostgreSQL and in memory', async () => {
    const environment = { ASP_DATABASE: 'postgres://asp@localhost/asp' };
    const stored = await home.asp(['serve', 'reset', '--yes'], { environment });
    expect(stored).toMatchObject({ status: 2, stderr: expect.stringContaining('PostgreSQL') });
    expect((await home.asp(['serve', 'reset', '--data', 'memory', '--yes'])).status).toBe(2);
  });
});
