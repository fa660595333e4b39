import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { ACCESS_TOKEN_LIFETIME_S, SOCKET_BUFFER_MAX_BYTES, SOCKET_FRAMES_MAX } from '../../../src/wire/limit.js';
import { type Actor, operate } from '../../support/actors.js';
import { mustSucceed } from '../../support/answers.js';
import { createTestClock, type TestClock } from '../../support/clock.js';
import { mustGrant } from '../../support/grants.js';
import { postForm } from '../../support/http.js';
import { field } from '../../support/json.js';
import { startTestService, type TestService } from '../../support/service.js';
import type { LiveSocket } from '../../support/socket.js';
import { until } from '../../support/until.js';

let clock: TestClock;
let service: TestService;
let alice: Actor;
beforeEach(async () => {
  clock = createTestClock();
  service = await startTestService({ clock, areLimitsOn: false });
  alice = await service.createAgent('alice');
});
afterEach(() => service.stop());

/** One that opened together with the others, and shares their timers. */
async function closeAnother(): Promise<void> {
  const before = await count();
  const another = await alice.mustConnect();
  await another.close();
  await until('it is gone', async () => (await count()) === before);
}

describe('a socket is closed', () => {
  it('with 1008 when its token expires, neither before nor later', async () => {
    const socket = await alice.mustConnect();
    await closeAnother();
    clock.advance(ACCESS_TOKEN_LIFETIME_S * 1000 - 1001);
    await socket.mustPing();
    expect(socket.isOpen).toBe(true);
    clock.advance(1001);
    expect(await socket.mustBeClosed()).toBe(1008);
  });

  it('with 1008 when its grant is revoked, but no other socket is', async () => {
    const { place, operator } = service;
    const grants = [
      await mustGrant(place, operator, alice.handle, { resource: place.wsUrl }),
      await mustGrant(place, operator, alice.handle, { resource: place.wsUrl }),
    ];
    const sockets = await Promise.all(grants.map((grant) => alice.mustConnect(grant.accessToken)));
    const [revoked] = grants;
    await postForm(place.revokeUrl, {
      client_id: revoked?.clientId,
      token: revoked?.refreshToken,
      token_type_hint: 'refresh_token',
    });
    expect(await sockets[0]?.mustBeClosed()).toBe(1008);
    await sockets[1]?.mustPing();
    expect(sockets[1]?.isOpen).toBe(true);
  });

  it.each(['text', 'ping'] as const)('with 1013 when it sends a flood of frames: %s', async (kind) => {
    const bob = await alice.mustConnect();
    const socket = await alice.mustConnect();
    const sendMany = async (count: number): Promise<void> => {
      for (let sent = 0; sent < count && socket.isOpen; sent += 1) {
        if (kind === 'text') socket.send('{"type":"ping"}');
        else socket.ping();
        if (sent % 20 === 0) await pause(2);
      }
    };
    await sendMany(SOCKET_FRAMES_MAX - 2);
    await socket.mustPing();
    expect(socket.isOpen).toBe(true);
    clock.advance(20_000);
    await socket.mustPing();
    await sendMany(10 * SOCKET_FRAMES_MAX);
    expect(await socket.mustBeClosed()).toBe(1013);
    expect(socket.frames.length).toBeLessThan(2 * SOCKET_FRAMES_MAX + 10);
    await bob.mustPing();
    expect(bob.isOpen).toBe(true);
  });

  it('with 1008 when its agent is removed', async () => {
    const socket = await alice.mustConnect();
    await operate(service.operator, 'DELETE', `/agents/${encodeURIComponent(alice.handle)}`);
    expect(await socket.mustBeClosed()).toBe(1008);
  });

  it('with 1001 when the service stops', async () => {
    const socket = await alice.mustConnect();
    const stopped = service.stop();
    expect(await socket.mustBeClosed()).toBe(1001);
    await stopped;
  });

  it('when it lets two pings pass without an answer', async () => {
    const token = await alice.token('ws');
    const dead = connect({ host: '127.0.0.1', port: service.port });
    const isClosed = new Promise<void>((resolve) => dead.once('close', () => resolve()));
    const head = [
      'GET /connect HTTP/1.1',
      `host: 127.0.0.1:${service.port}`,
      `authorization: Bearer ${token}`,
      'connection: upgrade',
      'upgrade: websocket',
      'sec-websocket-version: 13',
      'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==',
    ];
    dead.on('data', () => {});
    dead.write(`${head.join('\r\n')}\r\n\r\n`);
    const live = await alice.mustConnect();
    await closeAnother();
    await until('both are open', async () => (await count()) === 2);
    for (let beat = 0; beat < 4; beat += 1) {
      clock.advance(20_000);
      await live.mustPing();
    }
    await isClosed;
    expect(live.isOpen).toBe(true);
  });
});

it('a socket that sends nothing but its answers to pings stays open', async () => {
  const id = await alice.mustCreate();
  const bob = await service.createAgent('bob');
  mustSucceed(await alice.post(`/sessions/${id}/invite`, { invite: [bob.handle] }));
  await bob.mustJoin(id);
  const quiet = await bob.mustConnect();
  await closeAnother();
  for (let beat = 0; beat < 4; beat += 1) {
    clock.advance(20_000);
    const sent = mustSucceed(await alice.post(`/sessions/${id}/messages`, { content: 'x' }), 201);
    // Its answers come in order: once this one is here, so is the one to the ping.
    await until('the message is delivered', async () => {
      clock.advance(100);
      const delivery = await alice.get(`/sessions/${id}/delivery?sequence=${field(sent, 'sequence')}`);
      return field(mustSucceed(delivery), 'recipients.0.state') === 'delivered';
    });
  }
  expect(quiet.isOpen).toBe(true);
});

const count = async (): Promise<unknown> => field(await operate(service.operator, 'GET', '/status'), 'sockets');

describe('a reader that does not read', () => {
  const MESSAGE = 'x'.repeat(200_000);
  const MESSAGES = 60;

  it('is closed with 1013 while its buffer stays bounded, and affects no one else; nothing is lost', async () => {
    const bob = await service.createAgent('bob');
    const slowAgents = await Promise.all(Array.from({ length: 6 }, (_, index) => service.createAgent(`slow${index}`)));
    const readers = [bob, ...slowAgents];
    const id = await alice.mustCreate({ invite: readers.map(({ handle }) => handle) });
    for (const reader of readers) await reader.mustJoin(id);
    const healthy = await bob.mustConnect();
    const slow: LiveSocket[] = [];
    for (const agent of slowAgents) {
      const socket = await agent.mustConnect();
      await socket.mustReceiveEvent('session.invited', id);
      socket.stopReading();
      slow.push(socket);
    }

    const before = process.memoryUsage().rss;
    for (let index = 0; index < MESSAGES; index += 1) await alice.mustSend(id, MESSAGE);
    const total = 2 * readers.length + MESSAGES;
    await until(
      'the healthy one has all',
      async () => healthy.frames.filter((frame) => field(frame, 'session_id') === id).length === total,
      30_000,
    );
    const grown = process.memoryUsage().rss - before;
    // The healthy reader's copy and each slow reader's buffer. Without a bound, it would be 72 MB more.
    expect(grown).toBeLessThan(
      MESSAGES * MESSAGE.length * 4 + slow.length * SOCKET_BUFFER_MAX_BYTES + 64 * 1024 * 1024,
    );

    clock.advance(5_000);
    slow[0]?.startReading();
    expect(await slow[0]?.mustBeClosed()).toBe(1013);
    await until('they are closed', async () => (await count()) === 1);
    await healthy.mustPing();
    expect(healthy.isOpen).toBe(true);

    const [again] = slowAgents;
    const socket = await again?.mustConnect();
    // The slow reader confirmed some of them when it resumed reading.
    await until('nothing is lost', async () => {
      const frames = [...(slow[0]?.frames ?? []), ...(socket?.frames ?? [])];
      const seen = frames.filter((frame) => field(frame, 'type') === 'session.message');
      return new Set(seen.map((frame) => field(frame, 'sequence'))).size === MESSAGES;
    });
  });
});

describe('a reader that reads slowly', () => {
  const MESSAGE = 'x'.repeat(200_000);
  /** More than the buffers on the way take in. */
  const MESSAGES = 100;
  /** Its keep-alive and its bounded buffer would end a reader that stops for this long. */
  const STEPS = 10;
  const STEP_MS = 4_000;

  it('stays open while it reads on, and what it has read is confirmed', async () => {
    const bob = await service.createAgent('bob');
    const id = await alice.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(id);
    for (let index = 0; index < MESSAGES; index += 1) await alice.mustSend(id, MESSAGE);
    const slow = await bob.mustConnect();
    slow.stopReading();
    const readOne = async (): Promise<void> => {
      const before = slow.frames.length;
      slow.startReading();
      await slow.mustReceive('one more', () => slow.frames.length > before);
      slow.stopReading();
    };
    await readOne();
    for (let step = 0; step < STEPS; step += 1) {
      await readOne();
      await readOne();
      // The frame after a question is here, so the question was read, too.
      const sequence = field(slow.frames.at(-2), 'sequence');
      const isMessage = field(slow.frames.at(-2), 'type') === 'session.message';
      await until('what was read is confirmed', async () => {
        clock.advance(100);
        if (!isMessage) return true;
        const delivery = await alice.get(`/sessions/${id}/delivery?sequence=${sequence}`);
        return field(mustSucceed(delivery), 'recipients.0.state') === 'delivered';
      });
      clock.advance(STEP_MS);
    }
    slow.startReading();
    const total = 2 + MESSAGES;
    await slow.mustReceive('everything', () => slow.frames.length >= total);
    const sequences = slow.frames.map((frame) => field(frame, 'sequence'));
    expect(sequences).toEqual(Array.from({ length: total }, (_, index) => index + 1));
    expect(slow.isOpen).toBe(true);
  });
});
