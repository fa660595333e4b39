import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { AGENT_SCOPES } from '../../../src/wire/scope.js';
import { operate } from '../../support/actors.js';
import { mustDeny } from '../../support/answers.js';
import { type Answer, request } from '../../support/http.js';
import { field, list, text } from '../../support/json.js';
import { askClientToken, claimsOf } from '../../support/oauth.js';
import { startTestService, type TestService } from '../../support/service.js';

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ areLimitsOn: false, version: '1.2.3' });
});
afterAll(() => service.stop());

const ask = (method: string, path: string, body?: unknown, secret = service.operatorSecret): Promise<Answer> =>
  request(`${service.operatorUrl}${path}`, {
    method,
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
const agentPath = (handle: string): string => `/agents/${encodeURIComponent(handle)}`;

describe('the operator endpoints', () => {
  it('open only with the secret of the record', async () => {
    const alice = await service.createAgent('alice');
    for (const path of ['/status', '/agents']) {
      for (const secret of [
        '',
        'x',
        service.operatorSecret.slice(1),
        `${service.operatorSecret}x`,
        await alice.token(),
      ])
        mustDeny(await ask('GET', path, undefined, secret), 401, 'UNAUTHORIZED');
      mustDeny(await request(`${service.operatorUrl}${path}`), 401, 'UNAUTHORIZED');
    }
    mustDeny(await ask('POST', '/stop', undefined, 'x'), 401, 'UNAUTHORIZED');
  });

  it('list every agent, account and client, no matter how long the list is', async () => {
    const own = await startTestService({ areLimitsOn: false });
    const headers = { authorization: `Bearer ${own.operatorSecret}`, 'content-type': 'application/json' };
    const send = (path: string, handle: string): Promise<Answer> =>
      request(`${own.operatorUrl}${path}`, { method: 'POST', headers, body: JSON.stringify({ handle }) });
    const read = async (path: string): Promise<readonly unknown[]> =>
      list((await request(`${own.operatorUrl}${path}`, { headers })).json, path.slice(1));
    expect(await Promise.all(['/agents', '/accounts', '/clients'].map(read))).toEqual([[], [], []]);
    const handles = Array.from({ length: 1_002 }, (_, index) => `@owner${index}.bot`).sort();
    for (let at = 0; at < handles.length; at += 20)
      await Promise.all(handles.slice(at, at + 20).map((handle) => send('/agents', handle)));
    // The first part has none.
    for (const index of [600, 600, 1_001]) await send('/clients', handles[index] ?? '');
    expect((await read('/agents')).map((agent) => field(agent, 'handle'))).toEqual(handles);
    expect((await read('/accounts')).map((account) => `@${field(account, 'username')}.bot`)).toEqual(handles);
    expect((await read('/clients')).map((client) => field(client, 'handle'))).toEqual([
      ...[handles[600], handles[600], handles[1_001]],
    ]);
    await own.stop();
  });

  it('have a separate port behind a proxy, where every peer appears to be on this machine', async () => {
    const proxied = await startTestService({ isBehindProxy: true });
    const headers = { authorization: `Bearer ${proxied.operatorSecret}` };
    mustDeny(await request(`${proxied.authUrl}/operator/status`, { headers }), 404, 'NOT_FOUND');
    expect(proxied.operatorUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/operator$/);
    expect(new URL(proxied.operatorUrl).port).not.toBe(new URL(proxied.authUrl).port);
    expect((await request(`${proxied.operatorUrl}/status`, { headers })).status).toBe(200);
    mustDeny(await request(`${proxied.operatorUrl}/status`), 401, 'UNAUTHORIZED');
    mustDeny(
      await request(`${proxied.operatorUrl}/status`, { headers: { ...headers, host: 'evil.example' } }),
      403,
      'FORBIDDEN',
    );
    await proxied.stop();
    await expect(request(`${proxied.operatorUrl}/status`, { headers })).rejects.toThrow();
  });

  it('do not exist for a request through a proxy on this machine', async () => {
    const authorization = `Bearer ${service.operatorSecret}`;
    for (const [name, value] of [
      ['forwarded', 'for=192.0.2.7'],
      ['x-forwarded-for', '192.0.2.7'],
      ['x-real-ip', '192.0.2.7'],
      ['via', '1.1 proxy'],
    ] as const)
      mustDeny(
        await request(`${service.operatorUrl}/status`, { headers: { authorization, [name]: value } }),
        404,
        'NOT_FOUND',
      );
  });

  it('return the state of the service', async () => {
    const alice = await service.createAgent('alice');
    const socket = await alice.mustConnect();
    const status = await operate(service.operator, 'GET', '/status');
    expect(status).toMatchObject({
      version: '1.2.3',
      pid: process.pid,
      started_at: service.startedAt,
      not_ready: null,
    });
    expect(field(status, 'agents')).toBeGreaterThan(0);
    expect(field(status, 'sockets')).toBe(1);
    await socket.close();
  });

  it('add agents of local accounts: open by default, each handle once', async () => {
    expect((await ask('POST', '/agents', { handle: '@carol.one' })).json).toMatchObject({
      handle: '@carol.one',
      inbound_policy: 'open',
      paused: false,
      is_online: false,
    });
    const two = { handle: '@carol.two', inbound_policy: 'allowlist', display_name: 'Two' };
    expect(field((await ask('POST', '/agents', two)).json, 'inbound_policy')).toBe('allowlist');
    mustDeny(await ask('POST', '/agents', { handle: '@carol.one' }), 409, 'DUPLICATE_HANDLE');
    mustDeny(await ask('POST', '/agents', { handle: 'carol' }), 400, 'INVALID_HANDLE');
    mustDeny(await ask('POST', '/agents', { handle: '@carol.x', more: 1 }), 400, 'VALIDATION_ERROR');
    const listed = list((await ask('GET', '/agents')).json, 'agents').map((agent) => text(agent, 'handle'));
    expect(listed).toEqual([...listed].sort());
    expect(listed).toEqual(expect.arrayContaining(['@carol.one', '@carol.two']));
  });

  it('pause, resume and remove an agent', async () => {
    await ask('POST', '/agents', { handle: '@dave.bot' });
    expect(field((await ask('PATCH', agentPath('@dave.bot'), { paused: true })).json, 'paused')).toBe(true);
    expect(field((await ask('PATCH', agentPath('@dave.bot'), { paused: false })).json, 'paused')).toBe(false);
    expect((await ask('DELETE', agentPath('@dave.bot'))).json).toEqual({ ok: true });
    mustDeny(await ask('DELETE', agentPath('@dave.bot')), 404, 'AGENT_NOT_FOUND');
    mustDeny(await ask('PATCH', agentPath('dave'), { paused: true }), 400, 'INVALID_HANDLE');
    mustDeny(await ask('POST', '/agents', { handle: '@dave.bot' }), 409, 'DUPLICATE_HANDLE');
  });

  it('add clients that act as one agent, which is added when it is new', async () => {
    const first = (await ask('POST', '/clients', { handle: '@erin.bot' })).json;
    expect(first).toMatchObject({ handle: '@erin.bot', scope: AGENT_SCOPES.join(' '), created_agent: true });
    const narrow = (await ask('POST', '/clients', { handle: '@erin.bot', scopes: ['sessions:read'] })).json;
    expect(narrow).toMatchObject({ scope: 'sessions:read', created_agent: false });
    const credentials = { clientId: text(narrow, 'client_id'), clientSecret: text(narrow, 'client_secret') };
    const granted = await askClientToken(service.place, credentials, service.baseUrl);
    expect(field(claimsOf(text(granted.json, 'access_token')), 'scope')).toBe('sessions:read');
    for (const scopes of [[], ['account:read'], ['sessions:write', 'account:read'], ['nonsense']])
      mustDeny(await ask('POST', '/clients', { handle: '@erin.bot', scopes }), 400, 'VALIDATION_ERROR');
  });

  it('list the clients with a secret, and revoke one: it gets no token and its socket closes, and no other', async () => {
    const [leaked, kept] = [await service.createAgent('leaky'), await service.createAgent('tight')];
    const sockets = [await leaked.mustConnect(), await kept.mustConnect()];
    const listed = async () =>
      list(await operate(service.operator, 'GET', '/clients'), 'clients').map((client) => field(client, 'handle'));
    expect(await listed()).toEqual(expect.arrayContaining([leaked.handle, kept.handle]));
    const { clients } = (await operate(service.operator, 'GET', '/clients')) as { clients: { client_id: string }[] };
    expect(clients.map(({ client_id }) => client_id)).toContain(leaked.credentials.clientId);
    expect(JSON.stringify(clients)).not.toMatch(/secret|hash/);
    const path = `/clients/${leaked.credentials.clientId}`;
    expect(await operate(service.operator, 'DELETE', path)).toEqual({ ok: true });
    expect(await sockets[0]?.mustBeClosed()).toBe(1008);
    const refused = await askClientToken(service.place, leaked.credentials, service.baseUrl);
    expect([refused.status, field(refused.json, 'error')]).toEqual([401, 'invalid_client']);
    await sockets[1]?.mustPing();
    expect((await askClientToken(service.place, kept.credentials, service.baseUrl)).status).toBe(200);
    expect(await listed()).not.toContain(leaked.handle);
    await expect(operate(service.operator, 'DELETE', path)).rejects.toThrow(/404/);
    await expect(operate(service.operator, 'DELETE', '/clients/oac_nobody')).rejects.toThrow(/404/);
  });

  it('ask the service to stop', async () => {
    const other = await startTestService();
    await operate(other.operator, 'POST', '/stop');
    await other.stopRequested;
    await other.stop();
  });
});
