import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { Actor } from '../../support/actors.js';
import { createTestClock, type TestClock } from '../../support/clock.js';
import { request } from '../../support/http.js';
import { field, text } from '../../support/json.js';
import { startTestService, type TestService } from '../../support/service.js';
import { until } from '../../support/until.js';

const GRACE_MS = 30_000;

let directory: string;
let clock: TestClock;
/** How far the time is ahead of the clock's. */
let aheadMs = 0;
let service: TestService;
const start = ({ presenceGraceMs = GRACE_MS } = {}) =>
  startTestService({ clock, data: { directory }, areLimitsOn: false, presenceGraceMs, port: service?.port ?? 0 });
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'asp-presence-'));
  const steady = createTestClock();
  clock = { ...steady, now: () => steady.now() + aheadMs };
  aheadMs = 0;
  service = await start();
});
afterEach(async () => {
  await service.stop();
  await rm(directory, { recursive: true, force: true });
});

async function talk(alice: Actor, ...others: Actor[]): Promise<string> {
  const id = await alice.mustCreate({ invite: others.map(({ handle }) => handle) });
  for (const other of others) await other.mustJoin(id);
  return id;
}

const typesOf = async (actor: Actor, id: string): Promise<string[]> =>
  (await actor.mustReplay(id)).map((event) => text(event, 'type'));
const untilType = (actor: Actor, id: string, type: string, count = 1) =>
  until(`${count} ${type}`, async () => (await typesOf(actor, id)).filter((found) => found === type).length === count);

/** Time for what the clock has started. */
const settled = () => new Promise((resolve) => setTimeout(resolve, 20));

describe('with a grace, an agent whose last socket is gone', () => {
  it('is disconnected, and leaves when it is not back in time', async () => {
    const alice = await service.createAgent('alice');
    const bob = await service.createAgent('bob');
    const id = await talk(alice, bob);
    const sockets = [await bob.mustConnect(), await bob.mustConnect()];
    await sockets[0]?.close();
    await sockets[1]?.mustPing();
    expect(await typesOf(alice, id)).not.toContain('session.disconnected');
    await sockets[1]?.close();
    await untilType(alice, id, 'session.disconnected');
    clock.advance(GRACE_MS);
    await untilType(alice, id, 'session.left');
    const left = (await alice.mustReplay(id)).at(-1);
    expect(field(left, 'payload')).toEqual({ agent: bob.handle, reason: 'grace_expired' });
  });

  it('is reconnected when it is back in time, and stays', async () => {
    const alice = await service.createAgent('alice');
    const bob = await service.createAgent('bob');
    const id = await talk(alice, bob);
    await (await bob.mustConnect()).close();
    await untilType(alice, id, 'session.disconnected');
    clock.advance(GRACE_MS - 1);
    const socket = await bob.mustConnect();
    await untilType(alice, id, 'session.reconnected');
    clock.advance(10 * GRACE_MS);
    await socket.mustPing();
    expect((await typesOf(alice, id)).slice(-2)).toEqual(['session.disconnected', 'session.reconnected']);
    await socket.close();
  });

  it('is announced as back at most every ten seconds if it comes and goes, and gets the whole grace each time', async () => {
    const alice = await service.createAgent('alice');
    const bob = await service.createAgent('bob');
    const ids = [await talk(alice, bob), await talk(alice, bob)];
    const [id = ''] = ids;
    const comings = async (): Promise<string[]> =>
      (await typesOf(alice, id)).filter((type) => /connected|left/.test(type)).map((type) => type.slice(8));
    const isOnline = async () => (await alice.get(`/agents/${bob.handle.slice(1).replace('.', '/')}`)).json;
    const comeAndGo = async (): Promise<void> => {
      await (await bob.mustConnect()).close();
      await until('it is gone', async () => field(await isOnline(), 'agent.is_online') === false);
    };
    await comeAndGo();
    await untilType(alice, id, 'session.disconnected');
    const socket = await bob.mustConnect();
    await untilType(alice, id, 'session.reconnected');
    await socket.close();
    await untilType(alice, id, 'session.disconnected', 2);
    for (let times = 0; times < 20; times += 1) await comeAndGo();
    clock.advance(9_000);
    await comeAndGo();
    const once = ['disconnected', 'reconnected', 'disconnected'];
    for (const each of ids)
      expect((await typesOf(alice, each)).filter((type) => type.endsWith('connected'))).toHaveLength(3);
    clock.advance(GRACE_MS - 1);
    const back = await bob.mustConnect();
    await untilType(alice, id, 'session.reconnected', 2);
    await back.close();
    await untilType(alice, id, 'session.disconnected', 3);
    expect(await comings()).toEqual([...once, 'reconnected', 'disconnected']);
    // Back again, too soon for an announcement; it follows while the agent stays.
    const last = await bob.mustConnect();
    clock.advance(10_000);
    await untilType(alice, id, 'session.reconnected', 3);
    await last.close();
    await untilType(alice, id, 'session.disconnected', 4);
    clock.advance(GRACE_MS);
    await untilType(alice, id, 'session.left');
  });

  it('is announced in a session that it left and joined again, although its return waits for an announcement', async () => {
    const alice = await service.createAgent('alice');
    const bob = await service.createAgent('bob');
    const id = await talk(alice, bob);
    await (await bob.mustConnect()).close();
    await untilType(alice, id, 'session.disconnected');
    const announced = await bob.mustConnect();
    await untilType(alice, id, 'session.reconnected');
    await announced.close();
    await untilType(alice, id, 'session.disconnected', 2);
    const waiting = await bob.mustConnect();
    await bob.mustLeave(id);
    clock.advance(1);
    await alice.mustInvite(id, bob.handle);
    await bob.mustJoin(id);
    await waiting.close();
    await untilType(alice, id, 'session.disconnected', 3);
    clock.advance(GRACE_MS);
    await untilType(alice, id, 'session.left', 2);
  });

  it('is announced as back at most every ten seconds, even if its grace is shorter', async () => {
    await service.stop();
    service = await start({ presenceGraceMs: 1_000 });
    const alice = await service.createAgent('alice');
    const bob = await service.createAgent('bob');
    const id = await talk(alice, bob);
    await (await bob.mustConnect()).close();
    await untilType(alice, id, 'session.disconnected');
    const first = await bob.mustConnect();
    await untilType(alice, id, 'session.reconnected');
    await first.close();
    await untilType(alice, id, 'session.disconnected', 2);
    const second = await bob.mustConnect();
    for (let seconds = 0; seconds < 8; seconds += 1) {
      clock.advance(1_000);
      await second.mustPing();
      await settled();
    }
    const presence = async () => (await typesOf(alice, id)).filter((type) => type.endsWith('connected'));
    expect(await presence()).toHaveLength(3);
    clock.advance(2_000);
    await untilType(alice, id, 'session.reconnected', 2);
    await second.close();
    await untilType(alice, id, 'session.disconnected', 3);
    clock.advance(1_000);
    await untilType(alice, id, 'session.left');
  });

  it('is disconnected in every active session it has joined, and in no other', async () => {
    const alice = await service.createAgent('alice');
    const bob = await service.createAgent('bob');
    const joined = await talk(alice, bob);
    const ended = await talk(alice, bob);
    await alice.mustEnd(ended);
    const invited = await alice.mustCreate({ invite: [bob.handle] });
    const left = await talk(alice, bob);
    await bob.mustLeave(left);
    await (await bob.mustConnect()).close();
    await untilType(alice, joined, 'session.disconnected');
    for (const id of [ended, invited, left]) expect(await typesOf(alice, id)).not.toContain('session.disconnected');
  });

  it('has a new participation if it joined again in the meantime', async () => {
    const alice = await service.createAgent('alice');
    const bob = await service.createAgent('bob');
    const id = await talk(alice, bob);
    await (await bob.mustConnect()).close();
    await untilType(alice, id, 'session.disconnected');
    await bob.mustLeave(id);
    clock.advance(1);
    await alice.mustInvite(id, bob.handle);
    await bob.mustJoin(id);
    clock.advance(GRACE_MS);
    await untilType(alice, id, 'session.left');
    expect((await typesOf(alice, id)).at(-1)).toBe('session.joined');
  });

  it('is never disconnected if it never had a socket', async () => {
    const alice = await service.createAgent('alice');
    const bob = await service.createAgent('bob');
    const id = await talk(alice, bob);
    clock.advance(10 * GRACE_MS);
    expect(await typesOf(alice, id)).toEqual(['session.invited', 'session.joined']);
  });

  it('gets the grace period from the next start if the service stopped', async () => {
    const alice = await service.createAgent('alice');
    const bob = await service.createAgent('bob');
    const id = await talk(alice, bob);
    await bob.mustConnect();
    await service.stop();
    service = await start();
    await untilType(alice, id, 'session.disconnected');
    clock.advance(GRACE_MS - 1);
    expect((await typesOf(alice, id)).at(-1)).toBe('session.disconnected');
    await service.stop();
    service = await start();
    clock.advance(1);
    await untilType(alice, id, 'session.left');
  });

  it('leaves after another grace period if the clock was set back in the meantime', async () => {
    const alice = await service.createAgent('alice');
    const bob = await service.createAgent('bob');
    aheadMs = 24 * 60 * 60_000;
    const id = await talk(alice, bob);
    await (await bob.mustConnect()).close();
    await untilType(alice, id, 'session.disconnected');
    aheadMs = 0;
    clock.advance(GRACE_MS);
    await settled();
    expect((await typesOf(alice, id)).at(-1)).toBe('session.disconnected');
    await until('it leaves', async () => {
      clock.advance(GRACE_MS);
      return (await typesOf(alice, id)).at(-1) === 'session.left';
    });
    expect(clock.now()).toBeLessThan(createTestClock().now() + 24 * 60 * 60_000);
  });

  it('may be one of a hundred that disconnect at once, without delaying others', async () => {
    const alice = await service.createAgent('alice');
    const agents = await Promise.all(Array.from({ length: 100 }, (_, index) => service.createAgent(`many${index}`)));
    const ids: string[] = [];
    for (let from = 0; from < 100; from += 20) ids.push(await talk(alice, ...agents.slice(from, from + 20)));
    const sockets = await Promise.all(agents.map((agent) => agent.mustConnect()));
    await Promise.all(sockets.map((socket) => socket.close()));
    const waits: number[] = [];
    await until('all are disconnected', async () => {
      const from = performance.now();
      await request(`${service.authUrl}/health`);
      waits.push(performance.now() - from);
      const counts = await Promise.all(
        ids.map(async (id) => (await typesOf(alice, id)).filter((type) => type === 'session.disconnected').length),
      );
      return counts.every((count) => count === 20);
    });
    expect(Math.max(...waits)).toBeLessThan(500);
  });
});
