import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createHome, type Home, json, type ServiceProcess, startServe } from './program.js';

const DAY_MS = 86_400_000;

describe('asp serve --clock', () => {
  let home: Home;
  let service: ServiceProcess | undefined;
  beforeEach(() => {
    home = createHome();
  });
  afterEach(async () => {
    await service?.stop();
    service = undefined;
    await home.dispose();
  });
  const start = async (...words: readonly string[]): Promise<void> => {
    service = await startServe(home, ['--seed', 'alice.bot,bob.bot', '--data', 'memory', ...words]);
    expect((await home.asp(['login', '@alice.bot', '--yes'])).status).toBe(0);
  };
  const succeed = async (...words: readonly string[]): Promise<string> => {
    const { status, stdout, stderr } = await home.asp(words);
    expect(status, stderr).toBe(0);
    return stdout.trim();
  };
  const advance = async (by: string): Promise<number> => Date.parse(await succeed('serve', 'clock', 'advance', by));
  const sentAt = async (): Promise<number> => {
    const session = await succeed('send', '@bob.bot', 'hi');
    const { items } = json<{ items: { created_at: number }[] }>(await succeed('message', 'list', session, '--json'));
    return items[0]?.created_at ?? 0;
  };

  it('jumps on demand: tokens expire, streams are cut and come back, and messages have the new time', async () => {
    await start('--clock', 'controlled');
    const tail = home.start(['tail', '-v', '--json']);
    const before = await sentAt();
    await tail.until('stdout', /"session.message"/);
    await advance('16m');
    await tail.until('stderr', /closed 1008: token expired/);
    // The access token has expired, and the refresh token has not.
    expect((await sentAt()) - before).toBeGreaterThanOrEqual(16 * 60_000);
    await tail.until('stdout', /"session.message"[\s\S]*"session.message"/);
    tail.kill('SIGINT');
    await tail.ended;
    await advance('300d');
    const late = await home.asp(['send', '@bob.bot', 'hi']);
    expect([late.status, late.stderr]).toEqual([4, expect.stringContaining('asp login')]);
    await succeed('login', '@alice.bot', '--yes');
    expect((await sentAt()) - before).toBeGreaterThan(300 * DAY_MS);
  });

  it('begins at a time or an offset, in the log too', async () => {
    await start('--clock', '2031-02-03T04:05:06Z', '--log', 'json');
    expect(new Date(await sentAt()).toISOString()).toMatch(/^2031-02-03T04:0/);
    await service?.running.until('stderr', /"time":"2031-02-03T04:0/);
    await service?.stop();
    await start('--clock=-1d');
    const now = await advance('0s');
    expect(Math.round((Date.now() - now) / DAY_MS)).toBe(1);
    await service?.running.until('stderr', /To turn its clock: asp serve clock advance/);
  });

  it('is refused for data that stay, and turns no other clock', async () => {
    const refused = async (...words: readonly string[]): Promise<string> => {
      const { status, stderr } = await home.asp(['serve', '--port', '0', ...words]);
      expect(status).toBe(2);
      return stderr;
    };
    expect(await refused('--clock', 'controlled')).toMatch(/--clock needs --data memory/);
    expect(await refused('--clock', 'controlled', '--data', 'folder')).toMatch(/--clock needs --data memory/);
    const database = 'postgres://asp@127.0.0.1:1/asp';
    expect(await refused('--clock', 'controlled', '--database', database)).toMatch(/--clock needs --data memory/);
    for (const clock of ['soon', '2h', '+', '+999999d', '1900-01-01'])
      expect(await refused('--data', 'memory', '--clock', clock)).toMatch(/--clock '.*' is not/);
    expect(home.exists('folder')).toBe(false);
    await start();
    const { status, stderr } = await home.asp(['serve', 'clock', 'advance', '1h']);
    expect([status, stderr]).toEqual([5, expect.stringContaining('--clock controlled')]);
  });
});
