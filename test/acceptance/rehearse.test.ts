import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { actorOf } from '../support/actors.js';
import { discover } from '../support/oauth.js';
import { until } from '../support/until.js';
import { createHome, type Home, json, jsonLines, type Running, type ServiceProcess, startServe } from './program.js';

const DAY_MS = 86_400_000;

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
  expect((await home.run(['login', '@alice.bot', '--yes'])).status).toBe(0);
};
const succeed = async (...words: readonly string[]): Promise<string> => {
  const { status, stdout, stderr } = await home.run(words);
  expect(status, stderr).toBe(0);
  return stdout.trim();
};

describe('asp serve --clock', () => {
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
    // By now, the access token has expired, but the refresh token has not.
    expect((await sentAt()) - before).toBeGreaterThanOrEqual(16 * 60_000);
    await tail.until('stdout', /"session.message"[\s\S]*"session.message"/);
    tail.kill('SIGINT');
    await tail.ended;
    await advance('300d');
    const late = await home.run(['send', '@bob.bot', 'hi']);
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
    await service?.running.until('stderr', /To move its clock: asp serve clock advance/);
  });

  it('is refused for persistent data, and moves no other clock', async () => {
    const refused = async (...words: readonly string[]): Promise<string> => {
      const { status, stderr } = await home.run(['serve', '--port', '0', ...words]);
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
    const { status, stderr } = await home.run(['serve', 'clock', 'advance', '1h']);
    expect([status, stderr]).toEqual([5, expect.stringContaining('--clock controlled')]);
  });
});

describe('asp serve trigger', () => {
  interface Triggered {
    readonly session_id: string;
    readonly message_id: string;
    readonly count: number;
  }
  const trigger = async (...words: readonly string[]): Promise<Triggered> =>
    json<Triggered>(await succeed('serve', 'trigger', ...words, '--json'));
  const toAlice = (event: string, ...words: readonly string[]) => trigger(event, '--to', '@alice.bot', ...words);
  /** Starts a tail of everything that Alice's program receives. */
  const follow = async (): Promise<Running> => {
    const tail = home.start(['tail', '-v', '--json', '--retries', '20']);
    const { session_id: id } = await toAlice('invitation');
    await tail.until('stdout', new RegExp(`"session.invited".*${id}`));
    return tail;
  };
  const stop = async (tail: Running): Promise<void> => {
    tail.kill('SIGINT');
    await tail.ended;
  };

  it('message, invitation and end come from an invented agent, and reach a program as from any other', async () => {
    await start();
    const tail = await follow();
    const invited = await toAlice('message');
    await tail.until('stdout', new RegExp(`"session.invited".*${invited.session_id}.*"@trigger.agent"`));
    await succeed('session', 'join', invited.session_id);
    const told = await toAlice('message');
    expect(told.session_id).toBe(invited.session_id);
    await tail.until('stdout', new RegExp(`"session.message".*${told.message_id}`));
    expect((await toAlice('end')).session_id).toBe(invited.session_id);
    await tail.until('stdout', new RegExp(`"session.ended".*${invited.session_id}`));
    await stop(tail);
    expect((await toAlice('invitation', '--from', '@bob.bot')).session_id).toMatch(/^sess_/);
    const { items } = json<{ items: { handle: string }[] }>(await succeed('serve', 'client', 'list', '--json'));
    expect(items).toEqual([]);
  });

  it('end creates a session to end if there is none, and reports an agent that refuses strangers', async () => {
    await start();
    const { session_id: id } = await toAlice('end');
    expect(await succeed('session', 'show', id, '--json')).toMatch(/"state":"ended"/);
    await succeed('serve', 'agent', 'add', 'shy.bot', '--policy', 'allowlist');
    const { status, stderr } = await home.run(['serve', 'trigger', 'message', '--to', '@shy.bot']);
    expect([status, stderr]).toEqual([3, expect.stringContaining('@shy.bot could not be reached by @trigger.agent.')]);
    expect(json<{ items: unknown[] }>(await succeed('serve', 'client', 'list', '--json')).items).toEqual([]);
  });

  it('drop ends the agent’s sockets with the requested code, and the program misses nothing', async () => {
    await start();
    const tail = await follow();
    await toAlice('drop', '--code', '1001');
    await tail.until('stderr', /closed 1001/);
    // The program chooses when to reconnect.
    const dropped = async () => (await home.run(['serve', 'trigger', 'drop', '--to', '@alice.bot'])).status === 0;
    await until('there is a socket to drop', dropped);
    await tail.until('stderr', /closed 1006/);
    const { session_id: id } = await toAlice('invitation');
    await tail.until('stdout', new RegExp(id));
    await stop(tail);
    const ids = jsonLines<{ event_id: string }>(tail.stdout()).map(({ event_id: eventId }) => eventId);
    expect(new Set(ids).size).toBe(ids.length);
    const { status, stderr } = await home.run(['serve', 'trigger', 'drop', '--to', '@alice.bot']);
    expect([status, stderr]).toEqual([3, expect.stringContaining('@alice.bot has no open socket. Nothing happened.')]);
    const created = json<{ client_id: string; client_secret: string }>(
      await succeed('serve', 'client', 'add', 'alice.bot'),
    );
    const credentials = { clientId: created.client_id, clientSecret: created.client_secret };
    const alice = actorOf(await discover(service?.url ?? ''), '@alice.bot', credentials);
    for (const code of [1001, 1008, 1009, 1011, 1013]) {
      const sockets = [await alice.mustConnect(), await alice.mustConnect()];
      expect((await toAlice('drop', '--code', String(code))).count).toBe(2);
      expect(await Promise.all(sockets.map((socket) => socket.mustBeClosed()))).toEqual([code, code]);
    }
  });

  it('expire ends the agent’s tokens: its program gets new ones and continues', async () => {
    await start();
    const tail = await follow();
    await succeed('send', '@bob.bot', 'before');
    expect((await toAlice('expire')).count).toBeGreaterThanOrEqual(2);
    await tail.until('stderr', /closed 1008/);
    const { attempts } = json<{ attempts: number }>(await succeed('send', '@bob.bot', 'after', '--json'));
    expect(attempts).toBe(2);
    const { session_id: id } = await toAlice('invitation');
    await tail.until('stdout', new RegExp(id));
    await stop(tail);
    const idle = await home.run(['serve', 'trigger', 'expire', '--to', '@bob.bot']);
    expect([idle.status, idle.stderr]).toEqual([3, expect.stringContaining('no access token that is still valid')]);
  });

  it('a failing call fails only the next one, before or after its effect', async () => {
    await start();
    const session = await succeed('send', '@bob.bot', 'first');
    for (const fault of ['429', '500', '502', '503', '504', 'lost', 'cut']) {
      expect((await trigger(fault)).count).toBe(1);
      const [failed, fine] = [
        await home.run(['send', session, fault, '--json', '--retries', '0']),
        await succeed('send', session, 'x', '--json'),
      ];
      expect(failed.status, fault).not.toBe(0);
      const outcome = fault === 'lost' || fault === 'cut' ? /"outcome":"unknown"/ : /"outcome":"(not_applied|unknown)"/;
      expect(failed.stderr).toMatch(outcome);
      expect(json<{ attempts: number }>(fine).attempts).toBe(1);
    }
    const { items } = json<{ items: { content: string }[] }>(await succeed('message', 'list', session, '--json'));
    expect(items.map(({ content }) => content).filter((content) => content !== 'x')).toEqual(['first', 'lost', 'cut']);
    // The second fault replaces what is left of the first.
    await trigger('503', '--times', '5');
    await trigger('503', '--times', '2');
    const { attempts } = json<{ attempts: number }>(await succeed('send', session, 'again', '--json'));
    expect(attempts).toBe(3);
  });

  it('harms no service that others rely on', async () => {
    service = await startServe(home, ['--seed', 'alice.bot']);
    for (const words of [['503'], ['drop', '--to', '@alice.bot'], ['expire', '--to', '@alice.bot']]) {
      const { status, stderr } = await home.run(['serve', 'trigger', ...words]);
      expect([status, stderr]).toEqual([5, expect.stringContaining('It is not a service for tests.')]);
    }
    expect((await toAlice('message')).session_id).toMatch(/^sess_/);
    await service.stop();
    service = await startServe(home, ['--demo']);
    expect((await trigger('503')).count).toBe(1);
  });

  it.each([
    ['explode', /'explode' is not an event/],
    ['message', /message needs an agent/],
    ['503 --to alice.bot', /--to has no meaning with 503/],
    ['drop --to alice.bot --code 4000', /--code 4000 is not a code that the service closes sockets with/],
    ['drop --to alice.bot --times 2', /--times has no meaning with drop/],
    ['expire --to alice.bot --from bob.bot', /--from has no meaning with expire/],
    ['503 --times 0', /times/],
  ])('%s is refused before anything happens', async (words, message) => {
    const { status, stderr } = await home.run(['serve', 'trigger', ...words.split(' ')]);
    expect(status).toBe(2);
    expect(stderr).toMatch(message);
  });
});
