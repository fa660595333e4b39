import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { type Credential, createClientCredential } from '../../../src/client/credentials/credential.js';
import { type ConnectionItem, keepConnected } from '../../../src/client/realtime/socket.js';
import { type Clock, systemClock } from '../../../src/kit/clock.js';
import { systemRandom } from '../../../src/kit/random.js';
import {
  type Client,
  connect,
  createTransport,
  type TailItem,
  type TailOptions,
} from '../../../src/library/library.js';
import { type RunningService, startService } from '../../../src/service/service.js';
import { SOCKETS_PER_AGENT_MAX } from '../../../src/wire/limit.js';
import { type Actor, createActor } from '../../support/actors.js';
import { createTestClock } from '../../support/clock.js';
import { discover } from '../../support/oauth.js';
import { type SocketCutter, startSocketCutter } from '../../support/socket-cutter.js';
import { until } from '../../support/until.js';

let service: RunningService;
let cutter: SocketCutter;
let alice: Actor;
let bob: Actor;

/** Real time, except that reconnecting takes a hundredth of it. */
const quickClock: Clock = {
  ...systemClock,
  schedule: (delayMs, action, isBackground) =>
    systemClock.schedule(delayMs <= 8_000 ? delayMs / 100 : delayMs, action, isBackground),
};

beforeAll(async () => {
  cutter = await startSocketCutter();
  const publicUrl = `http://127.0.0.1:${cutter.port}`;
  service = await startService({ host: '127.0.0.1', port: 0, data: 'memory', areLimitsOn: false, publicUrl });
  cutter.targetPort = service.port;
  const operator = { url: service.operatorUrl, secret: service.operatorSecret };
  const place = await discover(service.baseUrl);
  alice = await createActor(place, operator, 'alice');
  bob = await createActor(place, operator, 'bob');
});
afterAll(async () => {
  await cutter.stop();
  await service.stop();
});

/** Creates a client whose socket the cutter can break. */
function createClient(actor: Actor, clock: Clock = quickClock): Client {
  const transport = createTransport({ clock });
  const { baseUrl } = service;
  const credential = createClientCredential({
    transport,
    random: systemRandom,
    service: { baseUrl },
    ...actor.credentials,
  });
  return connect({ service: { baseUrl }, credential, transport });
}

const startSession = async (client: Client, invite: string[]): Promise<string> =>
  (await client.call('createSession', { body: { invite } })).reply.session_id;
const say = (client: Client, id: string, content: string) =>
  client.call('sendMessage', { path: { session_id: id }, body: { content } });

describe('a tail that continues many sessions', () => {
  it('requests only those in which something happened', async () => {
    const asked: string[] = [];
    const transport = createTransport({ clock: quickClock, trace: ({ text }) => void asked.push(text) });
    const { baseUrl } = service;
    const credential = createClientCredential({
      transport,
      random: systemRandom,
      service: { baseUrl },
      ...alice.credentials,
    });
    const client = connect({ service: { baseUrl }, credential, transport });
    const ids: string[] = [];
    for (let count = 0; count < 30; count += 1) ids.push(await startSession(client, []));
    for (const id of ids) await say(client, id, 'read');
    const first = listen(client, { cursors: Object.fromEntries(ids.map((id) => [id, 0])) });
    await first.ready();
    expect(new Set(first.events().map(({ session_id: id }) => id)).size).toBe(30);
    const epoch = first.items.flatMap((item) => (item.kind === 'event' ? [item.epoch] : []))[0];
    await first.stop();
    for (const id of ids.slice(0, 2)) await say(client, id, 'news');
    asked.length = 0;
    const second = listen(client, { cursors: Object.fromEntries(ids.map((id) => [id, { after: 1, epoch }])) });
    await second.ready();
    expect(second.events().map(({ payload }) => payload['content'])).toEqual(['news', 'news']);
    await second.stop();
    const replays = asked.filter((text) => /GET \S*\/events/.test(text));
    expect(replays.length, replays.join('\n')).toBe(2);
  });

  it('learns the last event only if its agent is joined', async () => {
    const id = await startSession(createClient(alice), [bob.handle]);
    await say(createClient(alice), id, 'not for the invited');
    const lastOf = async (actor: Actor): Promise<number | undefined> => {
      const { sessions } = (await createClient(actor).call('listSessions', {})).reply;
      return sessions.find((session) => session.id === id)?.last_sequence;
    };
    expect([await lastOf(alice), await lastOf(bob)]).toEqual([2, undefined]);
    await createClient(bob).call('joinSession', { path: { session_id: id } });
    expect(await lastOf(bob)).toBe(3);
  });
});

/** Collects the items of a tail until it is stopped. */
function listen(client: Client, options: TailOptions) {
  const controller = new AbortController();
  const items: TailItem[] = [];
  const done = (async () => {
    for await (const item of client.tail({ ...options, signal: controller.signal })) items.push(item);
  })();
  done.catch(() => undefined);
  const until = async (what: string, fits: () => boolean, deadlineMs = 30_000): Promise<void> => {
    const deadline = performance.now() + deadlineMs;
    while (!fits()) {
      if (performance.now() > deadline) throw new Error(`not in ${deadlineMs} ms: ${what}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  return {
    items,
    events: () => items.flatMap((item) => (item.kind === 'event' ? [item.event] : [])),
    until,
    ready: () => until('ready', () => items.some((item) => item.kind === 'ready')),
    stop: async () => {
      controller.abort();
      await done;
    },
  };
}

const sequencesOf = (tail: ReturnType<typeof listen>, id: string): number[] =>
  tail
    .events()
    .filter((event) => event.session_id === id)
    .map((event) => event.sequence);
const upTo = (last: number): number[] => Array.from({ length: last }, (_, index) => index + 1);

describe('a pong', () => {
  it('waits for the reader, but not longer than 10 s, and never comes after the end', async () => {
    const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
    await once(server, 'listening');
    const clock = createTestClock();
    const stop = new AbortController();
    const credential = { accessToken: async () => ({ token: 'x', expiresAtMs: Number.MAX_SAFE_INTEGER }) };
    const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const connections = keepConnected({
      ...{ transport: createTransport({ clock }), random: systemRandom, signal: stop.signal, retriesAtStart: 0 },
      credential: credential as unknown as Credential,
      prepare: async () => ({ url, isGuessed: false }),
    });
    const [{ value: item }, [peer]] = await Promise.all([
      connections.next(),
      once(server, 'connection') as Promise<[WebSocket]>,
    ]);
    const { socket } = item as Extract<ConnectionItem, { kind: 'open' }>;
    const pongs: string[] = [];
    peer.on('pong', (data) => void pongs.push(String(data)));
    /** Sends an event, and a ping after it. */
    const send = (name: string): void => {
      const event = {
        type: 'session.left',
        session_id: 'sess_1',
        event_id: name,
        sequence: 1,
        created_at: 1,
        payload: {},
      };
      peer.send(JSON.stringify(event));
      peer.ping(name);
    };
    const events = socket.events[Symbol.asyncIterator]();
    peer.ping('nothing before it');
    await until('the first pong', async () => pongs.length === 1);

    send('read');
    expect((await events.next()).value).toMatchObject({ event_id: 'read' });
    const next = events.next();
    await until('the pong after the event', async () => pongs.at(-1) === 'read');

    send('slow');
    expect((await next).value).toMatchObject({ event_id: 'slow' });
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(pongs).toEqual(['nothing before it', 'read']);
    clock.advance(10_000);
    await until('the pong after the limit', async () => pongs.at(-1) === 'slow');

    send('lost');
    await new Promise((resolve) => setTimeout(resolve, 100));
    stop.abort();
    clock.advance(10_000);
    await once(peer, 'close');
    expect(pongs).toEqual(['nothing before it', 'read', 'slow']);
    server.close();
  });
});

describe('a tail that ends', () => {
  it('gets the event again that its reader had not finished, and everything after it', async () => {
    const [sender, reader] = [createClient(alice), createClient(bob)];
    const id = await startSession(sender, [bob.handle]);
    await reader.call('joinSession', { path: { session_id: id } });
    const all = listen(reader, {});
    await all.ready();
    await say(sender, id, 'read');
    await all.until('read', () => all.events().at(-1)?.payload['content'] === 'read');
    await all.stop();

    const controller = new AbortController();
    const stuck = reader.tail({ signal: controller.signal })[Symbol.asyncIterator]();
    /** Takes items up to this one, and does not come back after it. */
    const takeUpTo = async (isIt: (item: TailItem) => boolean): Promise<void> => {
      for (let { value } = await stuck.next(); !isIt(value as TailItem); ) ({ value } = await stuck.next());
    };
    await takeUpTo(({ kind }) => kind === 'ready');
    await say(sender, id, 'stuck');
    await takeUpTo((item) => item.kind === 'event' && item.event.payload['content'] === 'stuck');
    await say(sender, id, 'waiting');
    // Longer than the service takes to ask, and to note an answer.
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    controller.abort();

    const next = listen(createClient(bob), {});
    await next.until('both', () => next.events().at(-1)?.payload['content'] === 'waiting');
    const here = next.events().filter(({ session_id }) => session_id === id);
    expect(here.map(({ payload }) => payload['content']).slice(-2)).toEqual(['stuck', 'waiting']);
    await next.stop();
  });
});

describe('Events › a tail of named sessions', () => {
  it('yields existing events, then new ones, each once and in order', async () => {
    const client = createClient(alice);
    const id = await startSession(client, [bob.handle]);
    await say(client, id, 'one');
    const tail = listen(client, { sessions: [{ sessionId: id }] });
    await tail.ready();
    const { reply } = await say(client, id, 'two');
    await tail.until('the message', () => sequencesOf(tail, id).includes(reply.sequence));
    await tail.stop();
    expect(sequencesOf(tail, id)).toEqual(upTo(reply.sequence));
  });

  it('starts with the last events when asked, and after a sequence when asked', async () => {
    const client = createClient(alice);
    const id = await startSession(client, [bob.handle]);
    for (const text of ['a', 'b', 'c', 'd']) await say(client, id, text);
    const read = async (start: { last?: number; after?: number }) => {
      const tail = listen(client, { sessions: [{ sessionId: id, ...start }], isFollowing: false });
      await tail.until('the end', () => tail.items.some((item) => item.kind === 'end'));
      return sequencesOf(tail, id);
    };
    const all = await read({});
    expect(await read({ last: 2 })).toEqual(all.slice(-2));
    expect(await read({ after: 3 })).toEqual(all.filter((sequence) => sequence > 3));
    expect(await read({ last: 0 })).toEqual([]);
  });

  it('reports the end of a session', async () => {
    const client = createClient(alice);
    const id = await startSession(client, [bob.handle]);
    const tail = listen(client, { sessions: [{ sessionId: id }] });
    await tail.ready();
    await client.call('endSession', { path: { session_id: id } });
    await tail.until('the end', () => tail.items.some((item) => item.kind === 'end'));
    await tail.stop();
    expect(tail.items.at(-1)).toEqual({ kind: 'end', sessionId: id, reason: 'ended' });
  });

  it('ends at once if the session has ended or its own agent has left, and not if another agent has', async () => {
    const [client, other] = [createClient(alice), createClient(bob)];
    const ids = [];
    for (let count = 0; count < 3; count += 1) ids.push(await startSession(client, [bob.handle]));
    const [mine = '', theirs = '', over = ''] = ids;
    for (const id of ids) await other.call('joinSession', { path: { session_id: id } });
    await client.call('leaveSession', { path: { session_id: mine } });
    await other.call('leaveSession', { path: { session_id: theirs } });
    await client.call('endSession', { path: { session_id: over } });
    for (const [id, reasons] of [
      [mine, ['left']],
      [theirs, []],
      [over, ['ended']],
    ] as const) {
      const tail = listen(client, { sessions: [{ sessionId: id, last: 0 }], handle: alice.handle });
      await tail.ready();
      await tail.stop();
      expect(tail.items.flatMap((item) => (item.kind === 'end' ? [item.reason] : []))).toEqual(reasons);
    }
  });

  it('fails at once for a session that the agent may not see', async () => {
    const id = await startSession(createClient(bob), []);
    const tail = createClient(alice).tail({ sessions: [{ sessionId: id }] });
    await expect((async () => tail[Symbol.asyncIterator]().next())()).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('reads a named session even if its agent has as many event streams as the service allows', async () => {
    const client = createClient(alice);
    const id = await startSession(client, [bob.handle]);
    const streams = Array.from({ length: SOCKETS_PER_AGENT_MAX }, () => client.tail()[Symbol.asyncIterator]());
    for (const stream of streams) expect((await stream.next()).value).toMatchObject({ kind: 'ready' });
    const seen: string[] = [];
    for await (const item of client.tail({ sessions: [{ sessionId: id }] })) {
      seen.push(item.kind === 'event' ? item.event.type : item.kind);
      if (item.kind === 'end') break;
      if (item.kind === 'event' && item.event.type === 'session.invited') await say(client, id, 'more');
      if (item.kind === 'event' && item.event.type === 'session.message')
        await client.call('endSession', { path: { session_id: id } });
    }
    expect(seen).not.toContain('ready');
    expect(seen.filter((one) => one.startsWith('session.'))).toEqual([
      'session.invited',
      'session.message',
      'session.ended',
    ]);
    await client.close();
  });

  it('shares one event stream with others, more than the service allows, across a cut and until the last one stops', async () => {
    const client = createClient(alice);
    const follow = async () => {
      const id = await startSession(client, []);
      const tail = listen(client, { sessions: [{ sessionId: id }], sharesStream: true });
      const hears = async (text: string): Promise<void> => {
        const { reply } = await say(client, id, text);
        await tail.until(text, () => sequencesOf(tail, id).includes(reply.sequence));
        expect(sequencesOf(tail, id)).toEqual(upTo(reply.sequence));
      };
      return { ...tail, hears };
    };
    const tails = await Promise.all(Array.from({ length: SOCKETS_PER_AGENT_MAX + 4 }, follow));
    const [first, second, ...others] = tails;
    await Promise.all(tails.map((tail) => tail.ready()));
    await first?.stop();
    await Promise.all(tails.slice(1).map((tail) => tail.hears('live')));
    expect(tails.flatMap(({ items }) => items).filter(({ kind }) => kind === 'reconnecting')).toEqual([]);
    cutter.cutAll('reset');
    await Promise.all(tails.slice(1).map((tail) => tail.hears('after the cut')));
    await Promise.all(others.map((tail) => tail.stop()));
    await second?.hears('alone');
    await second?.stop();
    const next = await follow();
    await next.ready();
    await next.hears('later');
    await next.stop();
    await client.close();
  });

  it('yields events that became visible by joining', async () => {
    const [from, to] = [createClient(alice), createClient(bob)];
    const id = await startSession(from, [bob.handle]);
    const tail = listen(to, { sessions: [{ sessionId: id }] });
    await tail.ready();
    for (const text of ['one', 'two']) await say(from, id, text);
    await to.call('joinSession', { path: { session_id: id } });
    const { reply } = await say(from, id, 'three');
    await tail.until('the last', () => sequencesOf(tail, id).includes(reply.sequence));
    await tail.stop();
    const seen = sequencesOf(tail, id);
    expect(seen).toEqual([...seen].sort((left, right) => left - right));
    expect(seen.length).toBe(new Set(seen).size);
    expect(seen).toEqual(upTo(reply.sequence).slice(upTo(reply.sequence).length - seen.length));
  });
});

describe('Events › every event once, in order, whatever breaks', () => {
  it('across 50 cuts at random bytes', async () => {
    const client = createClient(alice);
    const ids = await Promise.all([startSession(client, []), startSession(client, [])]);
    const tail = listen(client, { sessions: ids.map((sessionId) => ({ sessionId })) });
    await tail.ready();
    const before = cutter.cuts;
    const last = new Map<string, number>();
    let isOver = false;
    const writing = Promise.all(
      ids.map(async (id) => {
        while (!isOver)
          last.set(id, (await say(client, id, 'x'.repeat(Math.ceil(Math.random() * 300)))).reply.sequence);
      }),
    );
    const ways = ['reset', 'end'] as const;
    while (cutter.cuts - before < 50) {
      cutter.cutAfter(Math.ceil(400 + Math.random() * 6000), ways[cutter.cuts % 2]);
      if (Math.random() < 0.3) cutter.cutAll('reset');
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
    cutter.cutAfter(undefined);
    cutter.cutAll('reset');
    isOver = true;
    await writing;
    for (const id of ids) {
      const expected = last.get(id) ?? 0;
      await tail.until(`${expected} in ${id}`, () => sequencesOf(tail, id).includes(expected));
    }
    await tail.stop();
    for (const id of ids) expect(sequencesOf(tail, id)).toEqual(upTo(last.get(id) ?? 0));
    expect(tail.items.filter((item) => item.kind === 'gap')).toEqual([]);
    expect(cutter.cuts - before).toBeGreaterThanOrEqual(50);
  });

  it('of every session, including those that began while it was disconnected', async () => {
    const [from, to] = [createClient(alice), createClient(bob)];
    const known = await startSession(from, [bob.handle]);
    await to.call('joinSession', { path: { session_id: known } });
    const tail = listen(to, { handle: bob.handle });
    await tail.ready();
    await say(from, known, 'seen');
    await tail.until('the first', () => sequencesOf(tail, known).length > 0);
    cutter.cutAfter(0);
    cutter.cutAll('reset');
    const { reply } = await say(from, known, 'missed');
    const fresh = await startSession(from, [bob.handle]);
    await to.call('joinSession', { path: { session_id: fresh } });
    cutter.cutAfter(undefined);
    await tail.until('the missed', () => sequencesOf(tail, known).includes(reply.sequence));
    await tail.until('the fresh', () => sequencesOf(tail, fresh).length >= 2);
    await tail.until('ready again', () => tail.items.some((item) => item.kind === 'ready' && item.isReconnect));
    await tail.stop();
    for (const id of [known, fresh]) expect(new Set(sequencesOf(tail, id)).size).toBe(sequencesOf(tail, id).length);
  });

  it('a connection that fell silent counts as dead', async () => {
    const hasty: Clock = {
      ...systemClock,
      schedule: (delayMs, action, isBackground) => systemClock.schedule(delayMs / 100, action, isBackground),
    };
    const client = createClient(alice, hasty);
    const id = await startSession(client, []);
    const tail = listen(client, { sessions: [{ sessionId: id }] });
    await tail.ready();
    cutter.cutAll('silence');
    const { reply } = await say(client, id, 'after');
    await tail.until('the message', () => sequencesOf(tail, id).includes(reply.sequence));
    await tail.stop();
    expect(tail.items.some((item) => item.kind === 'reconnecting')).toBe(true);
  });

  it.each([false, true])(
    'a reader that stops reading loses no events and does not fill the memory (shared stream: %s)',
    async (sharesStream) => {
      const client = createClient(alice);
      const id = await startSession(client, []);
      const controller = new AbortController();
      const seen: number[] = [];
      let sent = 0;
      let isCutOff = false;
      for await (const item of client.tail({
        sessions: [{ sessionId: id }],
        sharesStream,
        signal: controller.signal,
      })) {
        if (item.kind === 'ready' && sent === 0)
          for (let count = 0; count < 600; count += 1) sent = (await say(client, id, 'y'.repeat(2000))).reply.sequence;
        if (item.kind === 'event') seen.push(item.event.sequence);
        if (item.kind === 'reconnecting') isCutOff = true;
        if (sent > 0 && seen.includes(sent)) break;
      }
      expect(seen).toEqual(upTo(sent));
      // Its own connection waits for it. One that others read, too, must neither wait nor keep everything.
      if (sharesStream) expect(isCutOff).toBe(true);
    },
  );
});
