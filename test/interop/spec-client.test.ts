import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';

import { startTestService, type TestService } from '../support/service.js';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());

type Json = Readonly<Record<string, unknown>>;

/** Posts a form as the specification describes it: with its parameters and no others. */
async function form(url: string, parameters: Readonly<Record<string, string>>): Promise<Json> {
  const answer = await fetch(url, { method: 'POST', body: new URLSearchParams(parameters) });
  const text = await answer.text();
  expect(answer.status, text).toBe(200);
  return text === '' ? {} : (JSON.parse(text) as Json);
}

/** A REST client that sends only what the specification says, and needs only that. */
function restOf(baseUrl: string, token: unknown) {
  return async (method: 'GET' | 'POST', path: string, body?: Json): Promise<Json> => {
    const headers: Record<string, string> = { authorization: `Bearer ${String(token)}` };
    if (method === 'POST') headers['idempotency-key'] = randomUUID();
    if (body !== undefined) headers['content-type'] = 'application/json';
    const answer = await fetch(`${baseUrl}${path}`, {
      ...{ method, headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    expect(answer.status, `${method} ${path}: ${text}`).toBeLessThan(300);
    return JSON.parse(text) as Json;
  };
}

const read = async (url: string): Promise<Json> => (await (await fetch(url)).json()) as Json;

describe('a client that knows nothing but the specification', () => {
  it('finds the server, signs a person in, talks, listens, renews and revokes', async () => {
    const [alice, bob] = await Promise.all([service.createAgent('alice'), service.createAgent('bob')]);
    const { baseUrl, authUrl, wsUrl } = { ...service, authUrl: service.place.issuer, wsUrl: service.place.wsUrl };
    const server = await read(`${authUrl}/.well-known/oauth-authorization-server`);
    expect(server['grant_types_supported']).toEqual(
      expect.arrayContaining(['client_credentials', 'authorization_code', 'refresh_token']),
    );
    expect(server['code_challenge_methods_supported']).toContain('S256');
    expect(Array.isArray((await read(String(server['jwks_uri'])))['keys'])).toBe(true);

    const scope = 'agents:read sessions:read sessions:write realtime:read';
    const redirectUri = 'http://127.0.0.1:49155/done';
    const registered = await fetch(String(server['registration_endpoint']), {
      ...{ method: 'POST', headers: { 'content-type': 'application/json' } },
      body: JSON.stringify({
        ...{ client_name: 'spec', redirect_uris: [redirectUri], token_endpoint_auth_method: 'none', scope },
        grant_types: ['authorization_code', 'refresh_token'],
      }),
    });
    const { client_id: clientId } = (await registered.json()) as { client_id: string };
    const verifier = randomBytes(48).toString('base64url');
    const state = randomUUID();
    const url = new URL(String(server['authorization_endpoint']));
    for (const [name, value] of Object.entries({
      ...{ response_type: 'code', client_id: clientId, redirect_uri: redirectUri, scope, state },
      ...{ code_challenge: createHash('sha256').update(verifier).digest('base64url'), code_challenge_method: 'S256' },
    }))
      url.searchParams.set(name, value);
    // The person, who selects an agent on the page.
    const chosen = new URL(url);
    chosen.searchParams.set('agent_handle', alice.handle);
    const approved = await fetch(chosen, {
      ...{ method: 'POST', redirect: 'manual', headers: { authorization: `Bearer ${service.operatorSecret}` } },
    });
    const back = new URL(approved.headers.get('location') ?? '');
    expect(back.searchParams.get('state')).toBe(state);
    const tokenUrl = String(server['token_endpoint']);
    const tokens = await form(tokenUrl, {
      ...{ grant_type: 'authorization_code', client_id: clientId, redirect_uri: redirectUri, resource: baseUrl },
      ...{ code: back.searchParams.get('code') ?? '', code_verifier: verifier },
    });
    expect(tokens).toMatchObject({ token_type: 'Bearer', expires_in: 900, scope });

    const live = await form(tokenUrl, {
      ...{ grant_type: 'refresh_token', client_id: clientId, resource: wsUrl },
      refresh_token: String(tokens['refresh_token']),
    });
    const events: Json[] = [];
    const socket = new WebSocket(wsUrl, { headers: { authorization: `Bearer ${String(live['access_token'])}` } });
    socket.on('message', (data) => events.push(JSON.parse(String(data)) as Json));
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));

    const rest = restOf(baseUrl, tokens['access_token']);
    expect(await rest('GET', '/agents/me')).toMatchObject({ canonical_handle: alice.handle });
    const created = await rest('POST', '/sessions', {
      ...{ invite: [bob.handle], topic: 'plans', initial_message: { content: 'hello' } },
    });
    const id = String(created['session_id']);
    await bob.mustJoin(id);
    const sent = await rest('POST', `/sessions/${id}/messages`, { content: [{ type: 'text', text: 'well?' }] });
    const reply = await bob.mustSend(id, 'fine');
    const page = await rest('GET', `/sessions/${id}/events?after_sequence=${Number(sent['sequence']) - 1}&limit=10`);
    expect((page['events'] as Json[]).map((event) => event['sequence'])).toEqual([sent['sequence'], reply.sequence]);
    await rest('POST', `/sessions/${id}/end`);
    await rest('POST', `/sessions/${id}/reopen`);
    expect(await rest('GET', `/sessions/${id}`)).toMatchObject({ id, state: 'active', topic: 'plans' });
    await rest('POST', `/sessions/${id}/leave`);

    await expect.poll(() => events.filter((event) => event['type'] === 'session.left').length).toBe(1);
    const sequences = events.map((event) => Number(event['sequence']));
    expect(sequences).toEqual(sequences.map((_, index) => index + 1));
    for (const event of events)
      expect(Object.keys(event).sort()).toEqual(
        ['created_at', 'event_id', 'payload', 'sequence', 'session_id', 'type'].sort(),
      );

    const closed = new Promise<number>((resolve) => socket.once('close', resolve));
    await form(String(server['revocation_endpoint']), {
      ...{ client_id: clientId, token: String(live['refresh_token']), token_type_hint: 'refresh_token' },
    });
    expect(await closed).toBe(1008);
  });
});
