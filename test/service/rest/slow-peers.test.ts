import { randomUUID } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import {
  AGENT_BURST_BYTES,
  MESSAGE_BODY_MAX_BYTES,
  REQUEST_WAIT_MAX_MS,
  REQUESTS_PER_ACCOUNT_MAX,
  REQUESTS_PER_AGENT_MAX,
  SMALL_BODY_MAX_BYTES,
  UPLOADS_PER_AGENT_MAX,
} from '../../../src/wire/limit.js';
import type { Actor } from '../../support/actors.js';
import { mustSucceed } from '../../support/answers.js';
import { createTestClock, type TestClock } from '../../support/clock.js';
import { field, list } from '../../support/json.js';
import { startTestService, type TestService } from '../../support/service.js';
import { until } from '../../support/until.js';

let clock: TestClock;
let service: TestService;
let alice: Actor;
const open = new Set<Socket>();
beforeEach(async () => {
  clock = createTestClock();
  service = await startTestService({ clock });
  alice = await service.createAgent('alice');
});
afterEach(async () => {
  for (const socket of open) socket.destroy();
  open.clear();
  await service.stop();
});

/** Advances time in steps of five seconds, so that the service notices each. */
async function passSeconds(seconds: number): Promise<void> {
  for (let passed = 0; passed < seconds; passed += 5) {
    clock.advance(5_000);
    await pause(5);
  }
}

/** Opens a connection that reads only on demand. */
function openSilent(
  head: readonly string[],
  body = '',
): { socket: Socket; isClosed: () => boolean; text: () => string } {
  const socket = connect({ host: '127.0.0.1', port: service.port });
  open.add(socket.pause());
  let isClosed = false;
  const chunks: Buffer[] = [];
  socket.on('error', () => {});
  socket.on('close', () => {
    isClosed = true;
  });
  socket.on('data', (chunk) => chunks.push(chunk)).pause();
  const { port } = service;
  socket.write(`${[...head, `host: 127.0.0.1:${port}`].join('\r\n')}\r\n\r\n${body}`);
  return { socket, isClosed: () => isClosed, text: () => Buffer.concat(chunks).toString('latin1') };
}

async function replayHead(actor: Actor, sessionId: string): Promise<string[]> {
  return [`GET /v1/sessions/${sessionId}/events?limit=1000 HTTP/1.1`, `authorization: Bearer ${await actor.token()}`];
}

async function postHead(actor: Actor, path: string, length: number): Promise<string[]> {
  return [
    `POST /v1${path} HTTP/1.1`,
    `authorization: Bearer ${await actor.token()}`,
    `idempotency-key: ${randomUUID()}`,
    'content-type: application/json',
    `content-length: ${length}`,
  ];
}

/** Creates a session whose replay is larger than all buffers between two programs. */
async function createLargeSession(...invite: string[]): Promise<string> {
  const id = await alice.mustCreate(invite.length === 0 ? {} : { invite });
  for (let count = 0; count < 24; count += 1) await alice.mustSend(id, 'x'.repeat(255 * 1024));
  return id;
}

describe('An unread answer', () => {
  it('is cut off after 30 seconds without progress', async () => {
    const id = await createLargeSession();
    const silent = openSilent(await replayHead(alice, id));
    await pause(300);
    await passSeconds(25);
    expect(silent.isClosed()).toBe(false);
    await passSeconds(20);
    silent.socket.resume();
    await until('the connection has ended', async () => silent.isClosed());
    expect(silent.text()).not.toContain('next_cursor');
  });

  it('continues as long as its reader makes progress, and is complete', async () => {
    const id = await createLargeSession();
    const slow = openSilent(await replayHead(alice, id));
    for (let step = 0; step < 40 && !slow.text().includes('"next_cursor"'); step += 1) {
      const before = slow.text().length;
      slow.socket.resume();
      await until('some of it has arrived', async () => slow.text().length > before);
      slow.socket.pause();
      await passSeconds(25);
    }
    slow.socket.resume();
    await until('all of it has arrived', async () => slow.text().includes('"next_cursor"'));
    const { json } = await alice.get(`/sessions/${id}/events?limit=1000`);
    expect(list(json, 'events')).toHaveLength(17);
    expect(field(json, 'next_cursor')).toBe('17');
  });

  /** Makes a call of alice's that waits behind an unread answer. */
  async function waitBehindUnread(sessionId: string): Promise<{ asked: Promise<number> }> {
    // The kernel accepts several MiB from a connection before it blocks.
    const [line = '', authorization = ''] = await replayHead(alice, sessionId);
    const once = `${line}\r\n${authorization}`;
    const often = [once, once, once, once].join(`\r\nhost: 127.0.0.1:${service.port}\r\n\r\n`);
    for (let count = 0; count < REQUESTS_PER_AGENT_MAX; count += 1) openSilent([often]);
    // An answer that the kernel still accepts may end, and let the next request in.
    await until('no answer makes progress', async () => {
      const before = performance.eventLoopUtilization();
      await pause(300);
      return performance.eventLoopUtilization(before).utilization < 0.1;
    });
    return until('a request waits', async () => {
      const asked = alice.get('/agents/me').then(({ status }) => status);
      const outcome = await Promise.race([asked, pause(2_000, 'waits')]);
      return outcome === 'waits' ? { asked } : undefined;
    });
  }

  it(`keeps other requests of its agent waiting beyond ${REQUESTS_PER_AGENT_MAX}, and no one else’s`, async () => {
    const bob = await service.createAgent('bob');
    const id = await createLargeSession(bob.handle);
    await bob.mustJoin(id);
    const late = await waitBehindUnread(id);
    mustSucceed(await bob.get(`/sessions/${id}/events`));
    expect(await Promise.race([late.asked, pause(50, 'waits')])).toBe('waits');
    for (const socket of open) socket.destroy();
    expect(await late.asked).toBe(200);
  });

  it(`causes requests behind it to be refused after ${REQUEST_WAIT_MAX_MS / 1000} seconds, and not before`, async () => {
    const late = await waitBehindUnread(await createLargeSession());
    await passSeconds(REQUEST_WAIT_MAX_MS / 1000 - 5);
    expect(await Promise.race([late.asked, pause(50, 'waits')])).toBe('waits');
    await passSeconds(5);
    expect(await late.asked).toBe(429);
  });
});

describe('A slow body', () => {
  it('is answered with 408 once it falls below 1 KiB per second', async () => {
    const id = await alice.mustCreate();
    const slow = openSilent(await postHead(alice, `/sessions/${id}/messages`, 100_000), '{"content":"');
    slow.socket.resume();
    await pause(20);
    for (let second = 0; second < 20; second += 5) {
      slow.socket.write('x'.repeat(5 * 1024));
      await pause(20);
      await passSeconds(5);
    }
    expect(slow.text()).toBe('');
    slow.socket.write('x'.repeat(4 * 1024));
    await pause(20);
    await passSeconds(5);
    await until('the connection has ended', async () => slow.isClosed());
    expect(slow.text()).toMatch(/^HTTP\/1\.1 408 [\s\S]*\r\nconnection: close\r\n[\s\S]*"VALIDATION_ERROR"/);
  });

  it('does not include one that waits for its turn', async () => {
    const id = await alice.mustCreate();
    const waiting = openSilent(await postHead(alice, `/sessions/${id}/messages`, 15), '');
    waiting.socket.resume();
    const held = await Promise.all(
      Array.from({ length: REQUESTS_PER_AGENT_MAX }, async () => openSilent(await postHead(alice, '/sessions', 2))),
    );
    await pause(50);
    const late = openSilent(await postHead(alice, `/sessions/${id}/messages`, 15), '{"content":"x"}');
    late.socket.resume();
    await pause(50);
    for (const { socket } of held) socket.write('{}');
    await until('the late one is answered', async () => late.text().startsWith('HTTP/1.1 201'));
  });
});

describe('A body that is too large', () => {
  const MEGABYTE = Buffer.alloc(1024 * 1024, 'x');

  it('gets a 413 at once, which its sender can still read after sending everything', async () => {
    const id = await alice.mustCreate();
    const eager = openSilent(await postHead(alice, `/sessions/${id}/messages`, 8 * MEGABYTE.length));
    for (let count = 0; count < 8; count += 1) {
      // Without an answer from the other side, each takes a moment.
      await pause(20);
      await new Promise((resolve) => eager.socket.write(MEGABYTE, resolve));
    }
    eager.socket.resume();
    await until('the connection has ended', async () => eager.isClosed());
    expect(eager.text()).toMatch(/^HTTP\/1\.1 413 [\s\S]*\r\nconnection: close\r\n[\s\S]*"VALIDATION_ERROR"/);
  });

  it('is received only up to 16 MiB, and only while data keeps coming', async () => {
    const id = await alice.mustCreate();
    const [endless, silent] = [
      openSilent(await postHead(alice, `/sessions/${id}/messages`, 1_000 * MEGABYTE.length)),
      openSilent(await postHead(alice, `/sessions/${id}/messages`, 1_000 * MEGABYTE.length)),
    ];
    const isTaken = (): Promise<boolean> =>
      new Promise((resolve) => endless.socket.write(MEGABYTE, (error) => resolve(error == null)));
    let sent = 0;
    while (sent < 200 && (await isTaken())) sent += 1;
    // The kernel's buffers come on top.
    expect(sent).toBeLessThan(100);
    await passSeconds(10);
    silent.socket.resume();
    await until('the silent one has ended', async () => silent.isClosed());
  });
});

describe('Slow uploads', () => {
  it('do not block their agent’s other requests', async () => {
    const id = await alice.mustCreate();
    const head = async (): Promise<string[]> =>
      (await postHead(alice, '/attachments', 10_000)).map((line) =>
        line.startsWith('content-type') ? 'content-type: multipart/form-data; boundary=b' : line,
      );
    const part = '--b\r\ncontent-disposition: form-data; name="file"; filename="f.txt"\r\n\r\n';
    const heads = await Promise.all(Array.from({ length: REQUESTS_PER_AGENT_MAX + UPLOADS_PER_AGENT_MAX }, head));
    const slow = heads.map((lines) => openSilent(lines, part));
    await pause(300);
    const bob = await service.createAgent('bob', { owner: alice.owner });
    const calls = Array.from({ length: REQUESTS_PER_AGENT_MAX }, (_, index) =>
      index % 2 === 0 ? alice.get('/agents/me') : alice.post(`/sessions/${id}/messages`, { content: 'meanwhile' }),
    );
    for (const answer of await Promise.all(calls)) mustSucceed(answer, answer.status === 201 ? 201 : 200);
    mustSucceed(await bob.get('/agents/me'));
    expect(slow.every(({ isClosed, text }) => !isClosed() && text() === '')).toBe(true);
  });
});

describe('A flood of large bodies', () => {
  it('continues at the pace of its agent, without affecting others', async () => {
    const bob = await service.createAgent('bob');
    const sessions = [await alice.mustCreate(), await alice.mustCreate()];
    const own = await bob.mustCreate();
    const content = 'x'.repeat(MESSAGE_BODY_MAX_BYTES - 100);
    let answered = 0;
    const burst = Math.floor(AGENT_BURST_BYTES / MESSAGE_BODY_MAX_BYTES);
    const sending = Array.from({ length: 2 * burst }, async (_, index) => {
      mustSucceed(await alice.post(`/sessions/${sessions[index % 2]}/messages`, { content }), 201);
      answered += 1;
    });
    await until('the burst is through', async () => answered >= burst - 1);
    await pause(100);
    expect(answered).toBeLessThanOrEqual(burst + 1);
    await bob.mustSend(own, 'in between');
    clock.advance(1_000);
    await pause(100);
    expect(answered).toBeLessThanOrEqual(burst + 10);
    clock.advance(10_000);
    await Promise.all(sending);
  });

  it(`from many agents of one account is limited to ${REQUESTS_PER_ACCOUNT_MAX} requests at once`, async () => {
    const siblings = [alice];
    for (let count = 0; count < 3; count += 1)
      siblings.push(await service.createAgent(`sibling${count}`, { owner: alice.owner }));
    const idle = await service.createAgent('idle', { owner: alice.owner });
    expect(new Set([...siblings, idle].map(({ owner }) => owner)).size).toBe(1);
    for (const sibling of siblings)
      for (let count = 0; count < REQUESTS_PER_AGENT_MAX; count += 1)
        openSilent(await postHead(sibling, '/sessions', 2));
    let isAnswered = false;
    // The service reads the heads when it gets to them: one request waits as soon as it has read all.
    await until('a request waits', async () => {
      isAnswered = false;
      void idle.get('/agents/me').then(() => {
        isAnswered = true;
      });
      await pause(100);
      return !isAnswered;
    });
    for (const socket of open) socket.write('{}');
    await until('all that waited is answered', async () => isAnswered);
  });

  it('includes the answers of writes, which are stored', async () => {
    const path = `/agents/${alice.owner}/${alice.handle.split('.')[1]}/allowlist`;
    const add = async (...entries: string[]) => mustSucceed(await alice.post(path, { entries }));
    for (let part = 0; part < 8; part += 1) {
      await add(...Array.from({ length: 1_000 }, (_, index) => `@${'o'.repeat(60)}.${'n'.repeat(56)}${part}${index}`));
      clock.advance(60_000);
    }
    for (let count = 0; count < 9; count += 1) await add(`@a.b${count}`);
    let isAnswered = false;
    const last = add('@a.last').then(() => {
      isAnswered = true;
    });
    mustSucceed(await alice.get('/agents/me'));
    await pause(100);
    expect(isAnswered).toBe(false);
    clock.advance(5_000);
    await last;
    clock.advance(60_000);
    let answered = 0;
    const many = Array.from({ length: 20 }, async (_, index) => {
      await add(`@a.c${index}`);
      answered += 1;
    });
    await until('the burst is through', async () => answered >= 8);
    mustSucceed(await alice.get('/agents/me'));
    await pause(100);
    expect(answered).toBeLessThan(11);
    clock.advance(20_000);
    await Promise.all(many);
  });

  it('from two accounts, however slow it is, does not keep others from sending', async () => {
    const carol = await service.createAgent('carol');
    const own = await carol.mustCreate();
    for (const owner of ['slow', 'slower'])
      for (const name of ['one', 'two']) {
        const agent = await service.createAgent(name, { owner });
        for (let count = 0; count < REQUESTS_PER_AGENT_MAX; count += 1)
          openSilent(await postHead(agent, '/sessions', 2 * SMALL_BODY_MAX_BYTES));
      }
    await pause(200);
    await carol.mustSend(own, 'x'.repeat(2 * SMALL_BODY_MAX_BYTES));
  });

  it('is limited, whatever type the bodies claim to have', async () => {
    for (let count = 0; count < REQUESTS_PER_AGENT_MAX; count += 1) {
      const head = await postHead(alice, '/sessions', 2);
      openSilent(head.map((line) => (line.startsWith('content-type') ? 'content-type: multipart/form-data' : line)));
    }
    await pause(1_000);
    let isAnswered = false;
    void alice.get('/agents/me').then(() => {
      isAnswered = true;
    });
    await pause(100);
    expect(isAnswered).toBe(false);
    for (const socket of open) socket.write('{}');
    await until('the one that waited is answered', async () => isAnswered);
  });
});
