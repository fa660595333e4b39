import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import {
  type Client,
  connect,
  createTokenCredential,
  createTransport,
  systemClock,
} from '../../../src/library/library.js';
import { type Scene, type ScriptedServer, startScriptedServer } from '../../support/scripted-server.js';

let server: ScriptedServer;
let client: Client;
beforeEach(async () => {
  server = await startScriptedServer();
  client = connect({
    service: { baseUrl: `${server.origin}/v1` },
    credential: createTokenCredential({ api: 'a-token', ws: undefined }),
    transport: createTransport({ clock: systemClock }),
    retries: 0,
  });
});
afterEach(() => server.finish());

const SESSION = 'sess_01ARZ3NDEKTSV4RRFFQ69G5FAV';
const path = { session_id: SESSION };
const noRoute = (method: string, at: string): Scene => ({
  method,
  path: `/v1${at}`,
  status: 404,
  body: 'no such page',
});
const ME = { canonical_handle: '@me.bot', display_name: 'Me', visibility: 'public', inbound_policy: 'open' };
const me: Scene = {
  method: 'GET',
  path: '/v1/agents/me',
  body: {
    ...{ ...ME, inactive: false, is_online: true, owner_label: 'me', owner_display_name: 'me', id: 'agt_1' },
    ...{ local_name: 'bot', namespace: 'me', owner_type: 'account', owner_id: 'acct_1', scope: 'personal' },
    ...{ can_initiate_sessions: true, paused: false, skills: null, created_at: 1, updated_at: 1 },
  },
};

describe('an answer that says only that a write was done', () => {
  const bodies: [title: string, scene: Partial<Scene>][] = [
    ['204 without a body', { status: 204 }],
    ['200 without a body', { status: 200 }],
    ['200 and another object', { status: 200, body: { status: 'joined' } }],
    ['202 and text', { status: 202, body: 'accepted' }],
    ['200 and a refusal in words', { status: 200, body: { ok: false } }],
  ];
  for (const [title, scene] of bodies)
    it(`succeeds whatever its body: ${title}`, async () => {
      for (const [operation, verb] of [
        ['joinSession', 'join'],
        ['leaveSession', 'leave'],
        ['endSession', 'end'],
        ['reopenSession', 'reopen'],
      ] as const) {
        server.expect({ method: 'POST', path: `/v1/sessions/${SESSION}/${verb}`, ...scene });
        expect((await client.call(operation, { path })).reply).toEqual({ ok: true });
      }
      server.expect({ method: 'DELETE', path: '/v1/blocks/%40a.b', ...scene });
      expect((await client.call('unblockAgent', { path: { blocked: '@a.b' } })).reply).toEqual({ unblocked: true });
    });

  it('reports what is known if the answer cannot be read', async () => {
    server.expect({ method: 'POST', path: '/v1/sessions', status: 201, body: 'created' });
    await expect(client.call('createSession', { body: {} })).rejects.toMatchObject({
      code: 'ASP_BAD_ANSWER',
      outcome: 'applied',
    });
  });
});

describe('a service that leaves optional members out', () => {
  it('is read as if it had sent null', async () => {
    server.expect({ method: 'POST', path: '/v1/sessions', status: 201, body: { session_id: SESSION } });
    expect((await client.call('createSession', { body: {} })).reply).toEqual({
      session_id: SESSION,
      message_id: null,
      sequence: null,
    });
    const participant = { handle: '@me.bot', status: 'joined' };
    const session = { id: SESSION, state: 'active', participants: [participant], created_at: 1 };
    server.expect({ method: 'GET', path: '/v1/sessions', body: { sessions: [session] } });
    expect((await client.call('listSessions', {})).reply).toEqual({
      sessions: [
        { ...session, topic: null, ended_at: null, participants: [{ ...participant, joined_at: null, left_at: null }] },
      ],
      next_cursor: null,
    });
    server.expect(me);
    expect((await client.call('getActingAgent', {})).reply).toMatchObject({ skills: [], description: null });
  });
});

describe('a service with the newer addresses only', () => {
  it('is asked for blocks under the acting agent', async () => {
    server.expect(noRoute('GET', '/blocks'), { method: 'GET', path: '/v1/agents/me/blocks', body: { blocks: [] } });
    expect((await client.call('listBlocks', {})).reply).toEqual({ blocks: [], next_cursor: null });
    server.expect(noRoute('DELETE', '/blocks/%40a.b'), {
      method: 'DELETE',
      path: '/v1/agents/me/blocks/%40a.b',
      status: 204,
    });
    await client.call('unblockAgent', { path: { blocked: '@a.b' } });
  });

  it('is asked for the allowlist of the acting agent there, with the same key', async () => {
    const input = { path: { owner: 'me', name: 'bot' }, body: { entries: ['@a.b' as const] } };
    server.expect(noRoute('POST', '/agents/me/bot/allowlist'), me, {
      method: 'POST',
      path: '/v1/agents/me/allowlist',
      body: { entries: ['@a.b'] },
    });
    const { reply, idempotencyKey } = await client.call('addToAllowlist', input);
    expect(reply.entries).toEqual(['@a.b']);
    expect(server.received.at(-1)?.headers['idempotency-key']).toBe(idempotencyKey);
  });

  it('is never asked for the list of another agent there', async () => {
    server.expect(noRoute('GET', '/agents/other/bot/allowlist'), me);
    await expect(client.call('listAllowlist', { path: { owner: 'other', name: 'bot' } })).rejects.toMatchObject({
      status: 404,
    });
  });

  it('has its first answer reported if neither address exists', async () => {
    server.expect(
      {
        method: 'DELETE',
        path: '/v1/blocks/%40a.b',
        status: 404,
        body: { error: { code: 'NOT_FOUND', message: 'no' } },
      },
      noRoute('DELETE', '/agents/me/blocks/%40a.b'),
    );
    await expect(client.call('unblockAgent', { path: { blocked: '@a.b' } })).rejects.toMatchObject({
      code: 'NOT_FOUND',
    });
  });
});
