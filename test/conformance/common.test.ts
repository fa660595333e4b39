import { expect } from 'vitest';

import { callApi } from '../support/actors.js';
import { mustDeny, mustSucceed } from '../support/answers.js';
import { request } from '../support/http.js';
import { field } from '../support/json.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// docs/contract.md "Common rules" and The specification, "Endpoints": the rules for every request.

const service = useService();

rule('wire/Common/health', 'GET /health at the service root needs no token and reveals only ok', async () => {
  const answer = await request(`${service.place.baseUrl.replace(/\/v1$/, '')}/health`);
  expect(answer.status).toBe(200);
  expect(answer.text).toBe('{"ok":true}');
});

rule('wire/Common/request-ids', 'every answer has an id, which is the caller’s if that is well-formed', async () => {
  const alice = await service.actor('alice');
  const ids = [
    await alice.get('/agents/me'),
    await alice.get('/agents/me'),
    await request(`${service.place.baseUrl}/agents/me`),
    await request(`${service.place.baseUrl}/nothing`),
  ].map(({ headers }) => headers['x-request-id'] ?? '');
  for (const id of ids) expect(id).toMatch(/^[A-Za-z0-9][A-Za-z0-9._-]{7,63}$/);
  expect(new Set(ids).size).toBe(ids.length);
  const named = async (id: string): Promise<string | undefined> =>
    (await request(`${service.place.baseUrl}/agents/me`, { headers: { 'x-request-id': id } })).headers['x-request-id'];
  expect(await named('0af7651916cd43dd8448eb211c80319c')).toBe('0af7651916cd43dd8448eb211c80319c');
  expect(await named('not plain, at all')).not.toBe('not plain, at all');
});

rule('wire/Common/routing', '/agents/me is not an owner’s agent', async () => {
  const alice = await service.actor('alice');
  expect(field(mustSucceed(await alice.get('/agents/me')), 'canonical_handle')).toBe(alice.handle);
  mustSucceed(await alice.get('/agents/me/allowlist'));
  mustSucceed(await alice.get('/agents/me/blocks'));
  mustDeny(await alice.get('/agents/me/nobody'), 404, 'AGENT_NOT_FOUND');
});

rule('wire/Common/unknown-fields', 'an unknown field in any request object is 400', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate();
  const calls: readonly (readonly [string, string, unknown])[] = [
    ['POST', '/sessions', { x: 1 }],
    ['POST', '/sessions', { initial_message: { content: 'x', x: 1 } }],
    ['POST', `/sessions/${id}/messages`, { content: 'x', x: 1 }],
    ['POST', `/sessions/${id}/invite`, { invite: [bob.handle], x: 1 }],
    ['POST', `/sessions/${id}/leave`, { x: 1 }],
    ['POST', `/sessions/${id}/end`, { x: 1 }],
    ['POST', `/sessions/${id}/reopen`, { x: 1 }],
    ['PATCH', '/agents/me', { x: 1 }],
    ['POST', '/agents/me/allowlist', { entries: [bob.handle], x: 1 }],
    ['POST', '/blocks', { handle: bob.handle, x: 1 }],
    ['GET', '/sessions?x=1', undefined],
    ['GET', `/sessions/${id}/events?x=1`, undefined],
    ['GET', '/search/agents?q=alice&x=1', undefined],
  ];
  for (const [method, path, body] of calls) mustDeny(await alice.call(method, path, body), 400, 'VALIDATION_ERROR');
});

rule('spec/Endpoints/json', 'a body that is not JSON, or not declared as JSON, is refused', async () => {
  const alice = await service.actor('alice');
  for (const body of ['{', '[]', '"text"', '1', 'null', 'true', '{"topic":"x"', "{'topic':'x'}", '\u0000'])
    mustDeny(await alice.post('/sessions', body), 400, 'VALIDATION_ERROR');
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/xml']) {
    const answer = await alice.post('/sessions', '{"topic":"x"}', { headers: { 'content-type': type } });
    expect([400, 415]).toContain(answer.status);
    expect(field(answer.json, 'error.code')).toBe('VALIDATION_ERROR');
  }
  mustSucceed(
    await alice.post('/sessions', '{"topic":"x"}', { headers: { 'content-type': 'application/json; charset=utf-8' } }),
    201,
  );
});

rule(
  ['spec/Endpoints/bearer', 'spec/Using/header'],
  'only a bearer token in the Authorization header counts',
  async () => {
    const alice = await service.actor('alice');
    const { baseUrl } = service.place;
    const token = await alice.token();
    mustDeny(await callApi(baseUrl, undefined, 'GET', '/sessions'), 401, 'UNAUTHORIZED');
    mustDeny(await callApi(baseUrl, undefined, 'GET', `/sessions?access_token=${token}`), 401, 'UNAUTHORIZED');
    for (const authorization of [
      token,
      `Basic ${token}`,
      'Bearer',
      'Bearer ',
      `Bearer ${token} x`,
      'Bearer a.b.c',
      `Bearer ${token}x`,
    ])
      mustDeny(
        await callApi(baseUrl, undefined, 'GET', '/sessions', undefined, { headers: { authorization } }),
        401,
        'UNAUTHORIZED',
      );
    const lower = { headers: { authorization: `bearer ${token}` } };
    mustSucceed(await callApi(baseUrl, undefined, 'GET', '/sessions', undefined, lower));
  },
);

rule('spec/Errors/envelope', 'addresses and methods that do not exist answer with the envelope too', async () => {
  const alice = await service.actor('alice');
  mustDeny(await alice.get('/nothing/here'), 404, 'NOT_FOUND');
  const answer = await alice.call('PUT', '/sessions', {});
  expect([404, 405]).toContain(answer.status);
  expect(field(answer.json, 'error')).toMatchObject({ code: expect.any(String), message: expect.any(String) });
});

rule('wire/Common/null', 'optional keys of payloads are absent, not null', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const bare = await alice.mustCreate({ invite: [bob.handle], initial_message: { content: 'x' } });
  expect((await alice.mustReplay(bare)).map((event) => Object.keys(Object(field(event, 'payload'))).sort())).toEqual([
    ['by', 'invitee'],
    ['content', 'created_at', 'id', 'sender', 'sequence', 'session_id'],
  ]);
  const full = await alice.mustCreate({
    invite: [bob.handle],
    topic: 'plans',
    initial_message: { content: 'x', metadata: {} },
    end_after_send: true,
  });
  expect((await bob.mustReplay(full))[0]).toMatchObject({
    payload: { topic: 'plans', initial_message: { content: 'x', metadata: {}, sequence: 2 } },
  });
});

rule('spec/Versioning/base', 'the base address ends in /v1 and is the resource of REST tokens', async () => {
  const { baseUrl } = service.place;
  expect(baseUrl).toMatch(/\/v1$/);
  const metadata = mustSucceed(await request(`${baseUrl}/.well-known/oauth-protected-resource`));
  expect(field(metadata, 'resource')).toBe(baseUrl);
});
