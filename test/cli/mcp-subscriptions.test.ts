import { Client } from '@modelcontextprotocol/client';
import { InMemoryTransport, Server } from '@modelcontextprotocol/server';
import { describe, expect, it, vi } from 'vitest';

import { createSubscriptions, type Subscriptions } from '../../src/cli/commands/mcp/server.js';
import { INBOX_URI, sessionUri } from '../../src/wire/mcp.js';
import { startCannedService } from '../support/canned-service.js';
import { captureStreams } from '../support/captured-streams.js';
import { createTestClock, type TestClock } from '../support/clock.js';
import { until } from '../support/until.js';
import { runWords } from './captured-run.js';

const SESSION = 'sess_01M7Y9G2R8BA6EEBGWJC9J4TKX';
const OTHER = 'sess_01M7Y9G2R8BA6EEBGWJC9J4TKY';

interface Scene {
  readonly subscriptions: Subscriptions;
  readonly clock: TestClock;
  /** The resources to which the client subscribed. */
  readonly own: Set<string>;
  readonly told: string[];
  /** Holds back what is written to the client. The returned function releases it. */
  hold(): () => void;
}

/** Connects a real server of an older revision with its client. */
async function open(): Promise<Scene> {
  const clock = createTestClock();
  let written = Promise.resolve();
  const subscriptions = createSubscriptions({ clock }, '@me.bot', () => written);
  const server = new Server({ name: 'asp', version: '1' }, { capabilities: { resources: { subscribe: true } } });
  const own = subscriptions.attach(server);
  const client = new Client({ name: 'test', version: '1' });
  const told: string[] = [];
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => void told.push(params.uri));
  const [one, other] = InMemoryTransport.createLinkedPair();
  await Promise.all([server.connect(one), client.connect(other)]);
  return {
    subscriptions,
    clock,
    own,
    told,
    hold() {
      let release = (): void => {};
      written = new Promise((resolve) => {
        release = resolve;
      });
      return release;
    },
  };
}

const eventOf = (sender: string, session_id = SESSION) =>
  ({
    type: 'session.message',
    session_id,
    event_id: 'evt_1',
    sequence: 1,
    created_at: 1,
    payload: { id: 'msg_1', session_id, sender, sequence: 1, content: 'hi', created_at: 1 },
  }) as never;

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('A subscriber of asp mcp', () => {
  it('is notified of its inbox only when someone else did something', async () => {
    const { subscriptions, clock, own, told } = await open();
    own.add(INBOX_URI).add(sessionUri(SESSION));
    subscriptions.noteEvent(eventOf('@me.bot'));
    await settle();
    expect(told).toEqual([sessionUri(SESSION)]);
    subscriptions.noteEvent(eventOf('@you.bot', OTHER));
    clock.advance(1_000);
    await settle();
    expect(told).toEqual([sessionUri(SESSION), INBOX_URI]);
  });

  it('is notified at once, and then at most once per second', async () => {
    const { subscriptions, clock, own, told } = await open();
    own.add(INBOX_URI);
    for (let second = 1; second <= 3; second += 1) {
      for (let count = 0; count < 1_000; count += 1) subscriptions.noteEvent(eventOf('@you.bot'));
      await settle();
      expect(told).toHaveLength(second);
      for (let count = 0; count < 1_000; count += 1) subscriptions.noteEvent(eventOf('@you.bot'));
      await settle();
      expect(told).toHaveLength(second);
      clock.advance(1_000);
      await settle();
      expect(told).toHaveLength(second + 1);
      clock.advance(1_000);
      told.pop();
      await settle();
    }
    subscriptions.end();
    subscriptions.noteEvent(eventOf('@you.bot'));
    await settle();
    expect(told).toHaveLength(3);
  });

  it('gets everything once if it stops and resumes reading', async () => {
    const { subscriptions, clock, own, told, hold } = await open();
    own.add(INBOX_URI).add(sessionUri(SESSION));
    const release = hold();
    for (let second = 0; second < 10; second += 1) {
      for (let count = 0; count < 100; count += 1) subscriptions.noteEvent(eventOf('@you.bot'));
      clock.advance(1_000);
      await settle();
    }
    expect(told).toEqual([]);
    release();
    await settle();
    clock.advance(1_000);
    await settle();
    expect(told).toEqual([INBOX_URI, sessionUri(SESSION), INBOX_URI, sessionUri(SESSION)]);
  });

  it('is forgotten once its connection is closed', async () => {
    const clock = createTestClock();
    const subscriptions = createSubscriptions({ clock }, '@me.bot', async () => {});
    const server = new Server({ name: 'asp', version: '1' }, { capabilities: { resources: { subscribe: true } } });
    subscriptions.attach(server).add(INBOX_URI);
    const [one] = InMemoryTransport.createLinkedPair();
    await server.connect(one);
    let sent = 0;
    server.sendResourceUpdated = async () => {
      sent += 1;
    };
    await server.close();
    subscriptions.noteEvent(eventOf('@you.bot'));
    await settle();
    expect(sent).toBe(0);
  });

  it('does not delay the exit if it leaves without ending its subscription', async () => {
    const service = await startCannedService();
    const params = {
      _meta: {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
        'io.modelcontextprotocol/clientCapabilities': {},
      },
      notifications: { resourceSubscriptions: [INBOX_URI] },
    };
    const streams = captureStreams();
    async function* read(): AsyncGenerator<Uint8Array> {
      yield Buffer.from(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params })}\n`);
      await until('the acknowledgment', async () => streams.out().includes('subscriptions/acknowledged'));
    }
    // The clock does not move, so anything that waits for it would wait forever.
    const ran = await runWords('mcp', {
      streams: { ...streams, stdin: { isTerminal: false, read } },
      clock: createTestClock(),
      environment: { ASP_PROFILE: service.baseUrl, ASP_TOKEN: 'canned-token', ASP_WS_TOKEN: 'canned-socket-token' },
    });
    await service.close();
    expect(ran.code).toBe(0);
    expect(JSON.parse(ran.out.trimEnd().split('\n').at(-1) ?? '')).toMatchObject({ id: 1, result: {} });
  });
});

describe('The input of asp mcp', () => {
  it.each([
    ['', ''],
    ['', '\n'],
    ['\ufeff', ''],
  ])('gets an answer for each line: after a byte order mark (%j), and at the end (%j)', async (mark, end) => {
    const service = await startCannedService();
    const send = (id: number, method: string, params: object) => JSON.stringify({ jsonrpc: '2.0', id, method, params });
    const clientInfo = { name: 'test', version: '1' };
    const begin = send(1, 'initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo });
    const ran = await runWords('mcp', {
      stdin: `${mark}${begin}\n${send(2, 'tools/list', {})}${end}`,
      environment: { ASP_PROFILE: service.baseUrl, ASP_TOKEN: 'canned-token', ASP_WS_TOKEN: 'canned-socket-token' },
    });
    await service.close();
    expect(ran.err).not.toContain('Skipped a line');
    expect(
      ran.out
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).id),
    ).toEqual([1, 2]);
  });
});

describe('A call of asp mcp', () => {
  it('leaves nothing behind in the signal of the server', async () => {
    const service = await startCannedService();
    const streams = captureStreams();
    const joined = vi.spyOn(AbortSignal, 'any');
    const counts: number[] = [];
    let id = 0;
    const send = (method: string, params: object): Uint8Array => {
      id += 1;
      return Buffer.from(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    };
    const answered = (): Promise<true> =>
      until('an answer', async () => streams.out().includes(`"id":${id}`) || undefined);
    async function* read(): AsyncGenerator<Uint8Array> {
      const clientInfo = { name: 'test', version: '1' };
      yield send('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo });
      await answered();
      for (let round = 0; round < 3; round += 1) {
        counts.push(joined.mock.calls.length);
        yield send('tools/call', { name: 'attachment_list', arguments: { session_id: SESSION } });
        await answered();
        yield send('tools/call', { name: 'read', arguments: { session_id: SESSION } });
        await answered();
        yield send('resources/read', { uri: INBOX_URI });
        await answered();
      }
    }
    const ran = await runWords('mcp', {
      streams: { ...streams, stdin: { isTerminal: false, read } },
      environment: { ASP_PROFILE: service.baseUrl, ASP_TOKEN: 'canned-token', ASP_WS_TOKEN: 'canned-socket-token' },
    });
    await service.close();
    expect(ran.code).toBe(0);
    // On Node.js 20, each signal that AbortSignal.any makes stays in memory as long as those that it joins.
    expect(new Set(counts)).toEqual(new Set([counts[0]]));
  });
});
