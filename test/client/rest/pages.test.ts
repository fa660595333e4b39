import { afterEach, describe, expect, expectTypeOf, it } from 'vitest';

import { type Client, connect, type PagedOperation, type TailStart } from '../../../src/client/client.js';
import { createTokenCredential } from '../../../src/client/credentials/credential.js';
import { startService, type TestService } from '../../../src/testing/testing.js';
import { type ScriptedService, startScript } from '../../cli/scripted-service.js';

const open: (TestService | ScriptedService | Client)[] = [];
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close();
});

async function startWithSessions(count: number): Promise<{ service: TestService; alice: Client; ids: string[] }> {
  const service = await startService({ agents: ['alice.bot'] });
  open.push(service);
  const alice = service.client('@alice.bot', { retries: 0 });
  const ids: string[] = [];
  for (let made = 0; made < count; made += 1)
    ids.push((await alice.call('createSession', { body: {} })).reply.session_id);
  return { service, alice, ids };
}

describe('the pages of a list', () => {
  it('cover the whole list, in any size, and from any cursor', async () => {
    const { alice, ids } = await startWithSessions(7);
    const read = async (query: { limit: number; cursor?: string }): Promise<string[][]> => {
      const pages: string[][] = [];
      for await (const { sessions } of alice.pages('listSessions', { query })) pages.push(sessions.map(({ id }) => id));
      return pages;
    };
    const newestFirst = ids.toReversed();
    expect(await read({ limit: 3 })).toEqual([newestFirst.slice(0, 3), newestFirst.slice(3, 6), newestFirst.slice(6)]);
    expect(await read({ limit: 50 })).toEqual([newestFirst]);
    const { reply } = await alice.call('listSessions', { query: { limit: 5 } });
    expect(await read({ limit: 50, cursor: reply.next_cursor ?? '' })).toEqual([newestFirst.slice(5)]);
  });

  it('cover the events of a session', async () => {
    const { alice, ids } = await startWithSessions(1);
    const path = { session_id: ids[0] ?? '' };
    for (const content of ['one', 'two', 'three']) await alice.call('sendMessage', { path, body: { content } });
    const sequences: number[] = [];
    for await (const { events } of alice.pages('replayEvents', { path, query: { limit: 2 } }))
      sequences.push(...events.map(({ sequence }) => sequence));
    expect(sequences).toEqual(sequences.map((_, index) => (sequences[0] ?? 0) + index));
    expect(sequences).toHaveLength(3);
  });

  it('have every session once, even one that moves to the front while they are read', async () => {
    const { alice, ids } = await startWithSessions(9);
    const touch = (id = ''): Promise<unknown> =>
      alice.call('sendMessage', { path: { session_id: id }, body: { content: 'again' } });
    const pages: string[][] = [];
    for await (const { sessions } of alice.pages('listSessions', { query: { limit: 2 } })) {
      pages.push(sessions.map(({ id }) => id));
      // The oldest three move past the reader, and the last of these once more while they are read.
      if (pages.length === 1) for (const id of ids.slice(0, 3)) await touch(id);
      if (sessions.some(({ id }) => id === ids[2])) await touch(ids[0]);
    }
    expect(pages.slice(-2)).toEqual([[ids[2], ids[1]], [ids[0]]]);
    expect(pages.flat().toSorted()).toEqual(ids.toSorted());
  });

  it('are read on demand, and a failure ends them', async () => {
    const { service, alice } = await startWithSessions(4);
    const query = { limit: 2 };
    for await (const _ of alice.pages('listSessions', { query })) {
      service.inject({ kind: 503, on: 'listSessions' });
      break;
    }
    const seen: number[] = [];
    const readOn = async (): Promise<void> => {
      for await (const { sessions } of alice.pages('listSessions', { query })) seen.push(sessions.length);
    };
    await expect(readOn()).rejects.toMatchObject({ code: 'INTERNAL_ERROR' });
    expect(seen).toEqual([]);
  });

  it('never loop', async () => {
    const page = { status: 200, reply: { sessions: [], next_cursor: 'again' } };
    const script = await startScript([
      { call: 'GET /sessions', ...page },
      { call: 'GET /sessions?cursor=again', ...page },
    ]);
    const client = connect({
      service: { baseUrl: script.baseUrl },
      credential: createTokenCredential({ api: 'a-token', ws: undefined }),
    });
    open.push(script, client);
    const pages: unknown[] = [];
    const readAll = async (): Promise<void> => {
      for await (const each of client.pages('listSessions', {})) pages.push(each);
    };
    await expect(readAll()).rejects.toMatchObject({ code: 'ASP_BAD_ANSWER' });
    expect(pages).toHaveLength(2);
  });

  it('never loop in a tail', async () => {
    const list = { status: 200, reply: { sessions: [], next_cursor: 'again' } };
    const first = { type: 'session.ended', session_id: 'sess_1', event_id: 'evt_1', sequence: 1, created_at: 1 };
    const events = { status: 200, reply: { events: [{ ...first, payload: {} }], next_cursor: '1' } };
    const script = await startScript([
      { call: 'GET /sessions?limit=100', ...list },
      { call: 'GET /sessions?limit=100&cursor=again', ...list },
      { call: 'GET /sessions/sess_1', reply: { id: 'sess_1', state: 'ended', participants: [], created_at: 1 } },
      { call: 'GET /sessions/sess_1/events?after_sequence=0&limit=200', ...events },
      { call: 'GET /sessions/sess_1/events?after_sequence=1&limit=1000', ...events },
    ]);
    const client = connect({
      service: { baseUrl: script.baseUrl },
      credential: createTokenCredential({ api: 'a-token', ws: undefined }),
      retries: 0,
    });
    open.push(script, client);
    const read = async (sessions?: readonly TailStart[]): Promise<string[]> => {
      const kinds: string[] = [];
      for await (const { kind } of client.tail({ sessions, isFollowing: false })) kinds.push(kind);
      return kinds;
    };
    await expect(read()).rejects.toMatchObject({ code: 'ASP_BAD_ANSWER' });
    expect(await read([{ sessionId: 'sess_1' }])).toEqual(['event', 'end']);
  });

  it('are available for exactly the operations with a next page', () => {
    expectTypeOf<PagedOperation>().toEqualTypeOf<
      | 'listAgents'
      | 'listBlocks'
      | 'listSessions'
      | 'listAccountSessions'
      | 'replayEvents'
      | 'searchAgents'
      | 'searchMessages'
    >();
  });
});
