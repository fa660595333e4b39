import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';

import { createHome, type Home, jsonLines, startServe } from './program.js';

let home: Home;
afterEach(() => home?.dispose());

interface Line {
  readonly type: string;
  readonly sequence?: number;
  readonly payload?: { readonly content?: string };
  readonly after?: number;
  readonly from?: number;
}

const contentsOf = (lines: readonly Line[]): unknown[] =>
  lines.filter(({ type }) => type === 'session.message').map(({ payload }) => payload?.content);

/** Starts a service restored to a state in which its session had four of eight delivered events. */
async function startRestored(url: string): Promise<Awaited<ReturnType<typeof startServe>>> {
  renameSync(join(home.directory, 'serve-data'), join(home.directory, 'before'));
  const restored = await home.asp(['serve', 'restore', 'backup.tar', '--data', join(home.directory, 'serve-data')]);
  expect(restored).toMatchObject({ status: 0 });
  return startServe(home, ['--seed', 'me.one'], url);
}

describe('a service restored from a backup', () => {
  it('a tail with a cursor file misses no message with a reused number, and says what is gone', async () => {
    home = createHome();
    const service = await startServe(home, ['--seed', 'me.one']);
    await home.run(['login', '@me.one', '--yes']);
    const sid = (await home.run(['session', 'create'])).stdout.trim();
    const send = async (...texts: string[]): Promise<void> => {
      for (const text of texts) expect(await home.run(['send', sid, text])).toMatchObject({ status: 0 });
    };
    const tail = (): ReturnType<Home['asp']> =>
      home.asp(['tail', sid, '--no-follow', '--cursor-file', 'cursors.json', '--control', '--after', '0']);
    await send('1', '2', '3', '4');
    expect(await home.asp(['serve', 'backup', 'backup.tar', '--with-keys'])).toMatchObject({ status: 0 });
    await send('lost 5', 'lost 6', 'lost 7', 'lost 8');
    expect(contentsOf(jsonLines((await tail()).stdout))).toEqual([
      '1',
      '2',
      '3',
      '4',
      'lost 5',
      'lost 6',
      'lost 7',
      'lost 8',
    ]);
    await service.stop();

    const again = await startRestored(service.url);
    await send('new 5', 'new 6');
    const after = await tail();
    expect(after.status).toBe(0);
    const lines = jsonLines<Line>(after.stdout);
    expect(lines[0]).toEqual({ type: 'asp.restored', session_id: sid, after: 4, from: 8 });
    expect(contentsOf(lines)).toEqual(['new 5', 'new 6']);
    expect(after.stderr).toContain(`${sid}: the service was restored to an earlier state. Events 5 to 8 are gone`);

    await send('new 7');
    const last = await tail();
    expect(contentsOf(jsonLines(last.stdout))).toEqual(['new 7']);
    expect(last.stderr).not.toContain('are gone');
    expect(await again.stop()).toMatchObject({ status: 0 });
  });

  it('a running tail continues with the events since then, and says so', async () => {
    home = createHome();
    const service = await startServe(home, ['--seed', 'me.one,you.two']);
    for (const handle of ['@me.one', '@you.two']) await home.run(['login', handle, '--yes']);
    const sid = (await home.run(['session', 'create', '@you.two', '--as', '@me.one'])).stdout.trim();
    await home.run(['session', 'join', sid, '--as', '@you.two']);
    const send = (text: string) => home.run(['send', sid, text, '--as', '@me.one']);
    await send('kept');
    expect(await home.asp(['serve', 'backup', 'backup.tar', '--with-keys'])).toMatchObject({ status: 0 });
    const tail = home.start(['tail', '--control', '--as', '@you.two']);
    await tail.until('stdout', /asp\.ready/);
    for (const text of ['lost 1', 'lost 2', 'lost 3']) await send(text);
    await tail.until('stdout', /lost 3/);
    await service.stop();

    const again = await startRestored(service.url);
    for (const text of ['new 1', 'new 2']) expect(await send(text)).toMatchObject({ status: 0 });
    await tail.until('stdout', /new 2.*\n/);
    const given = ['kept', 'lost 1', 'lost 2', 'lost 3', 'new 1', 'new 2'];
    expect(contentsOf(jsonLines(tail.stdout()))).toEqual(given);
    expect(tail.stdout()).toContain('"asp.restored"');
    await tail.until('stderr', /was restored to an earlier state/);
    tail.kill('SIGINT');
    await tail.ended;
    expect(await again.stop()).toMatchObject({ status: 0 });
  });

  it('an agent of asp run answers messages with reused numbers', async () => {
    home = createHome();
    const service = await startServe(home, ['--seed', 'me.one,you.bot']);
    for (const handle of ['@me.one', '@you.bot']) await home.run(['login', handle, '--yes']);
    const sid = (await home.run(['session', 'create', '@you.bot', '--as', '@me.one'])).stdout.trim();
    await home.run(['session', 'join', sid, '--as', '@you.bot']);
    const run = () =>
      home.start(['run', '--exec', 'cat > /dev/null; echo answered', '--from', 'me.one', '--as', '@you.bot']);
    const replies = async (): Promise<number> => {
      const events = await home.run(['session', 'events', sid, '--after', '0', '--type', 'message', '--as', '@me.one']);
      return contentsOf(jsonLines<Line>(events.stdout)).filter((content) => String(content).includes('answered'))
        .length;
    };
    const first = run();
    await first.until('stderr', /Answering as/);
    expect(await home.asp(['serve', 'backup', 'backup.tar', '--with-keys'])).toMatchObject({ status: 0 });
    for (const text of ['a', 'b', 'c']) await home.run(['send', sid, text, '--as', '@me.one']);
    await first.until('stdout', /(.*"replied".*\n){3}/);
    expect(await replies()).toBe(3);
    first.kill('SIGINT');
    await first.ended;
    await service.stop();

    const again = await startRestored(service.url);
    await home.run(['send', sid, 'd', '--as', '@me.one']);
    expect(await replies()).toBe(0);
    const second = run();
    await second.until('stdout', /"replied".*\n/);
    expect(await replies()).toBe(1);
    await second.until('stderr', /was restored to an earlier state/);
    second.kill('SIGINT');
    await second.ended;
    expect(await again.stop()).toMatchObject({ status: 0 });
  });
});
