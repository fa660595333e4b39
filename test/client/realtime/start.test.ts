import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { WebSocketServer } from 'ws';
import {
  type Client,
  connect,
  createTokenCredential,
  createTransport,
  systemClock,
  type TailItem,
  type TransportOptions,
} from '../../../src/library/library.js';
import { freePort } from '../../support/free-port.js';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

const EVENT = {
  ...{ type: 'session.joined', session_id: 'sess_1', event_id: 'evt_1', sequence: 1, created_at: Date.now() + 60_000 },
  payload: { agent: '@a.b' },
};

interface Away {
  /** The path of the WebSocket, if there is one. */
  readonly path?: string;
  readonly refusal?: (request: IncomingMessage, response: ServerResponse) => boolean;
}

/** Starts a service without metadata: sessions, and a WebSocket at `path` that sends one event. Returns its port. */
async function startBareService({ path = '/v1/connect', refusal }: Away = {}, port = 0): Promise<number> {
  const tokens: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    if (refusal?.(request, response) === true) return;
    const isList = request.url?.startsWith('/v1/sessions') === true;
    response.writeHead(isList ? 200 : 404, { 'content-type': 'application/json' });
    response.end(isList ? '{"sessions":[]}' : '');
  });
  const sockets = new WebSocketServer({ noServer: true });
  server.on('upgrade', (request, socket, head) => {
    tokens.push(request.headers.authorization);
    if (request.url !== path) return void socket.end('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n');
    sockets.handleUpgrade(request, socket, head, (live) => live.send(JSON.stringify(EVENT)));
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  closers.push(() => {
    for (const live of sockets.clients) live.terminate();
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

function clientOf(
  port: number,
  { retries, ...options }: Partial<TransportOptions> & { retries?: number } = {},
): Client {
  const transport = createTransport({ clock: systemClock, ...options });
  closers.push(() => transport.close());
  const credential = createTokenCredential({ api: 'one-token', ws: undefined });
  return connect({ service: { baseUrl: `http://127.0.0.1:${port}/v1` }, credential, transport, retries });
}

/** Returns the items up to the first event. */
async function readUntilEvent(client: Client, onItem: (item: TailItem) => void = () => {}): Promise<TailItem[]> {
  const items: TailItem[] = [];
  for await (const item of client.tail()) {
    items.push(item);
    onItem(item);
    if (item.kind === 'event') return items;
  }
  return items;
}

describe('a service without metadata', () => {
  it('is followed with one token, at the usual address of the WebSocket', async () => {
    const items = await readUntilEvent(clientOf(await startBareService()));
    expect(items.at(-1)).toMatchObject({ kind: 'event', event: { event_id: 'evt_1' } });
  });

  it('whose WebSocket is elsewhere is reported with the setting that names it', async () => {
    const reading = readUntilEvent(clientOf(await startBareService({ path: '/socket' })));
    await expect(reading).rejects.toMatchObject({
      code: 'ASP_DISCOVERY',
      message: expect.stringMatching(/not at ws:\/\/127\.0\.0\.1:\d+\/v1\/connect\..*asp profile add --ws-url/),
    });
  });

  it('that needs a different token for its WebSocket is reported with that token', async () => {
    const server = createServer((_, response) => void response.writeHead(404).end());
    server.on('upgrade', (_, socket) => {
      socket.end('HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    closers.push(() => server.close());
    const reading = readUntilEvent(clientOf((server.address() as AddressInfo).port));
    await expect(reading).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
      message: expect.stringContaining('ASP_WS_TOKEN'),
    });
  });
});

describe('a tail that begins while the service is down', () => {
  it('waits for it, and says so', async () => {
    const port = await freePort();
    let isStarted = false;
    const items = await readUntilEvent(clientOf(port), (item) => {
      if (item.kind !== 'reconnecting' || isStarted) return;
      isStarted = true;
      void startBareService({}, port);
    });
    expect(items[0]).toMatchObject({ kind: 'reconnecting', attempt: 1, reason: 'ASP_UNREACHABLE' });
    expect(items.at(-1)).toMatchObject({ kind: 'event' });
  });

  it('does not wait, but fails, with a deadline or without retries', async () => {
    const deadline = systemClock.monotonic() + 60_000;
    const port = await freePort();
    await expect(readUntilEvent(clientOf(port, { deadline }))).rejects.toMatchObject({ code: 'ASP_UNREACHABLE' });
    const once = readUntilEvent(clientOf(port, { retries: 0 }));
    await expect(once).rejects.toMatchObject({ code: 'ASP_UNREACHABLE' });
  });

  it('waits as long as the service asks if it is rate limited while it catches up', async () => {
    let asked = 0;
    const port = await startBareService({
      refusal: (request, response) => {
        if (request.url?.startsWith('/v1/sessions/sess_1') !== true) return false;
        if (request.url.includes('/events')) {
          asked += 1;
          response.writeHead(429, { 'retry-after': '200' }).end();
        } else response.end('{"id":"sess_1","state":"active","participants":[],"created_at":1}');
        return true;
      },
    });
    for await (const item of clientOf(port).tail({ sessions: [{ sessionId: 'sess_1' }] })) {
      expect(item).toMatchObject({ kind: 'reconnecting', reason: 'RATE_LIMITED', delayMs: 200_000 });
      break;
    }
    expect(asked).toBe(1);
  });
});

describe('a service whose pages of events are small, with opaque cursors', () => {
  /** Starts a service with one event on each page. Its cursors are not sequences. */
  const startService = (count: () => number): Promise<number> =>
    startBareService({
      refusal: (request, response) => {
        const url = new URL(request.url ?? '', 'http://127.0.0.1');
        if (!url.pathname.startsWith('/v1/sessions/sess_1')) return false;
        const sequence = Number(url.searchParams.get('after_sequence')) + 1;
        const events = sequence > count() ? [] : [{ ...EVENT, sequence }];
        const page = { events, next_cursor: sequence < count() ? `page~${sequence}` : null };
        const session = { id: 'sess_1', state: 'active', participants: [], created_at: 1 };
        response.end(JSON.stringify(url.pathname.endsWith('/events') ? page : session));
        return true;
      },
    });
  const read = async (client: Client, last?: number): Promise<number[]> => {
    const sequences: number[] = [];
    for await (const item of client.tail({ sessions: [{ sessionId: 'sess_1', last }], isFollowing: false }))
      if (item.kind === 'event') sequences.push(item.event.sequence);
    return sequences;
  };

  it('is read to the end', async () => {
    const client = clientOf(await startService(() => 7));
    expect(await read(client)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });

  it('is read to the end by pages of the client', async () => {
    const client = clientOf(await startService(() => 3));
    const sequences: number[] = [];
    for await (const { events } of client.pages('replayEvents', { path: { session_id: 'sess_1' } }))
      sequences.push(...events.map(({ sequence }) => sequence));
    expect(sequences).toEqual([1, 2, 3]);
  });

  it('does not start again after a page without events', async () => {
    let page = 0;
    const port = await startBareService({
      refusal: ({ url = '' }, response) => {
        if (!url.includes('/events')) return false;
        page += 1;
        response.end(JSON.stringify({ events: page % 2 === 1 ? [EVENT] : [], next_cursor: `page~${page}` }));
        return true;
      },
    });
    let pages = 0;
    for await (const _ of clientOf(port).pages('replayEvents', { path: { session_id: 'sess_1' } })) {
      pages += 1;
      expect(pages).toBeLessThan(4);
    }
    expect(pages).toBe(2);
  });

  it('gives exactly the last events that were requested, no matter how many there are', async () => {
    let count = 3;
    const client = clientOf(await startService(() => count));
    for (; count < 16; count += 1) expect(await read(client, 2)).toEqual([count - 1, count]);
  });
});

describe('a tail that continues from cursors', () => {
  it('delivers a session that began after they were read, and before it was connected, and reads no older one', async () => {
    const asked: string[] = [];
    const port = await startBareService({
      refusal: ({ url = '' }, response) => {
        asked.push(url);
        const session = { id: 'sess_2', state: 'active', participants: [], created_at: 5 };
        const old = { ...session, id: 'sess_3', created_at: 1, last_activity_at: 4 };
        const event = { ...EVENT, type: 'session.invited', session_id: 'sess_2', event_id: 'evt_2', created_at: 5 };
        if (url.startsWith('/v1/sessions/sess_2/events'))
          response.end(
            JSON.stringify({ events: [event, { ...event, created_at: 6, sequence: 2 }], next_cursor: null }),
          );
        else if (url.startsWith('/v1/sessions')) response.end(JSON.stringify({ sessions: [old, session] }));
        return url.startsWith('/v1/sessions');
      },
    });
    const events: [string, number][] = [];
    for await (const item of clientOf(port).tail({ cursors: {}, sinceMs: 6 })) {
      if (item.kind === 'event') events.push([item.event.session_id, item.event.sequence]);
      if (events.length === 2) break;
    }
    expect(events).toEqual([
      ['sess_2', 2],
      ['sess_1', 1],
    ]);
    expect(asked.filter((url) => url.includes('sess_3'))).toEqual([]);
  });

  it('reads no other session if its sessions are named', async () => {
    const asked: string[] = [];
    const session = { state: 'active', participants: [], created_at: 5 };
    const port = await startBareService({
      refusal: ({ url = '' }, response) => {
        asked.push(url);
        const list = { sessions: [{ ...session, id: 'sess_2' }] };
        if (url.includes('/events')) response.end(JSON.stringify({ events: [], next_cursor: null }));
        else response.end(JSON.stringify(url.includes('sess_1') ? { ...session, id: 'sess_1' } : list));
        return true;
      },
    });
    for await (const item of clientOf(port).tail({ sessions: [{ sessionId: 'sess_1' }], sinceMs: 6 }))
      if (item.kind === 'event') break;
    expect(asked.filter((url) => url.includes('sess_2'))).toEqual([]);
  });
});

describe('a backlog', () => {
  const PAGE = 200;
  const COUNT = 3 * PAGE;
  /** Starts a service whose large pages have more than 65 MiB. */
  const startService = (asked: number[]): Promise<number> =>
    startBareService({
      refusal: (request, response) => {
        const url = new URL(request.url ?? '', 'http://127.0.0.1');
        if (!url.pathname.startsWith('/v1/sessions/sess_1')) return false;
        if (!url.pathname.endsWith('/events')) {
          response.end('{"id":"sess_1","state":"active","participants":[],"created_at":1}');
          return true;
        }
        const limit = Number(url.searchParams.get('limit'));
        const after = Number(url.searchParams.get('after_sequence'));
        asked.push(limit);
        const last = Math.min(COUNT, after + limit);
        const events = Array.from({ length: last - after }, (_, index) => ({ ...EVENT, sequence: after + index + 1 }));
        const page = JSON.stringify({ events, next_cursor: last === COUNT ? null : String(last) });
        response.write(page.slice(0, -1));
        if (limit > PAGE) for (let count = 0; count < 65; count += 1) response.write(' '.repeat(1024 * 1024));
        response.end('}');
        return true;
      },
    });

  it('is read in small pages if large ones are too large', async () => {
    const asked: number[] = [];
    const client = clientOf(await startService(asked), { retries: 0 });
    const sequences: number[] = [];
    for await (const item of client.tail({ sessions: [{ sessionId: 'sess_1' }], isFollowing: false }))
      if (item.kind === 'event') sequences.push(item.event.sequence);
    expect(sequences).toEqual(Array.from({ length: COUNT }, (_, index) => index + 1));
    expect(asked).toEqual([PAGE, 1_000, PAGE, PAGE]);
  });
});
