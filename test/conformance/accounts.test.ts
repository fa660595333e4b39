import { randomBytes } from 'node:crypto';

import { expect } from 'vitest';

import { type Actor, callApi } from '../support/actors.js';
import { mustDeny, mustSucceed } from '../support/answers.js';
import { newPerson, openBrowser } from '../support/browser.js';
import { mustGrant } from '../support/grants.js';
import type { Answer } from '../support/http.js';
import { field, keysOf, list, text } from '../support/json.js';
import {
  authorizationUrl,
  claimsOf,
  createVerifier,
  mustRegister,
  redeemCode,
  redirectParameters,
} from '../support/oauth.js';
import { allow, signUp } from '../support/person.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// What an account can do with an account token: docs/contract.md.

const service = useService();
const ACCOUNT_SCOPE = 'account:read account:agents:read';

type Call = (method: string, path: string, body?: unknown) => Promise<Answer>;

/** Returns a token of the account that owns this agent. */
async function asAccountOf(actor: Actor, scope = ACCOUNT_SCOPE): Promise<{ token: string; call: Call }> {
  const { accessToken } = await mustGrant(service.place, service.operator, actor.handle, { scope });
  return { token: accessToken, call: (...rest) => callApi(service.place.baseUrl, accessToken, ...rest) };
}

const newName = (): string => `made-${randomBytes(4).toString('hex')}`;

rule('wire/OAuth/account-tokens', 'account scopes lead to a token without an agent', async () => {
  const alice = await service.actor('alice');
  const { token } = await asAccountOf(alice);
  const claims = claimsOf(token);
  expect(keysOf(claims)).not.toContain('agent_id');
  expect(field(claims, 'sub')).toBe(field(claimsOf(await alice.token()), 'sub'));
  mustDeny(await callApi(service.place.baseUrl, token, 'GET', '/sessions'), 403, expect.any(String));
});

rule('wire/Aliases/account', 'GET /account is the account of the token', async () => {
  const alice = await service.actor('alice');
  const { token, call } = await asAccountOf(alice, 'account:read account:agents:read account:organizations:read');
  const account = mustSucceed(await call('GET', '/account'));
  expect(account).toEqual({
    id: field(claimsOf(token), 'sub'),
    username: alice.owner,
    display_name: expect.any(String),
    tier: expect.any(String),
    created_at: expect.any(Number),
    updated_at: field(account, 'created_at'),
  });
  mustDeny(await alice.get('/account'), 403, 'FORBIDDEN');
  const other = await asAccountOf(alice, 'account:agents:read');
  mustDeny(await other.call('GET', '/account'), 403, 'INSUFFICIENT_SCOPE');
});

rule(
  ['spec/Endpoints/accounts-me-sessions', 'wire/Sessions/accounts-me-sessions'],
  'the sessions of every agent of the account, one row each, with the handle that acts there',
  async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    const sibling = await service.actor('sibling', { owner: alice.owner });
    const { call } = await asAccountOf(alice);
    const shared = await bob.mustCreate({ invite: [alice.handle, sibling.handle] });
    await sibling.mustJoin(shared);
    const own = await alice.mustCreate();
    await bob.mustCreate();
    const json = mustSucceed(await call('GET', '/accounts/me/sessions'));
    expect(keysOf(json)).toEqual(['next_cursor', 'sessions']);
    const listed = { last_activity_at: expect.any(Number) };
    expect(list(json, 'sessions')).toEqual([
      { session: { ...((await alice.mustRead(own)) as object), ...listed }, acting_handle: alice.handle },
      { session: { ...((await sibling.mustRead(shared)) as object), ...listed }, acting_handle: sibling.handle },
    ]);
    await sibling.mustLeave(shared);
    const after = mustSucceed(await call('GET', '/accounts/me/sessions'));
    expect(list(after, 'sessions').map((row) => field(row, 'acting_handle'))).toEqual([alice.handle, alice.handle]);
    await alice.mustEnd(own);
    const ended = list(mustSucceed(await call('GET', '/accounts/me/sessions?state=ended')), 'sessions');
    expect(ended.map((row) => field(row, 'session.id'))).toEqual([own]);
  },
);

rule('wire/Sessions/accounts-me-sessions', 'pages of 1 to 100, and no agent token', async () => {
  const alice = await service.actor('alice');
  const { call } = await asAccountOf(alice);
  const made = [await alice.mustCreate(), await alice.mustCreate(), await alice.mustCreate()];
  const first = mustSucceed(await call('GET', '/accounts/me/sessions?limit=2'));
  const next = encodeURIComponent(text(first, 'next_cursor'));
  const rest = mustSucceed(await call('GET', `/accounts/me/sessions?limit=2&cursor=${next}`));
  const ids = [...list(first, 'sessions'), ...list(rest, 'sessions')].map((row) => field(row, 'session.id'));
  expect(ids).toEqual(made.toReversed());
  for (const query of ['limit=0', 'limit=101', 'cursor=x', 'state=x'])
    mustDeny(await call('GET', `/accounts/me/sessions?${query}`), 400, 'VALIDATION_ERROR');
  mustDeny(await alice.get('/accounts/me/sessions'), 403, 'FORBIDDEN');
});

rule(
  ['wire/Agents/POST-agents', 'spec/Errors/DUPLICATE_HANDLE', 'wire/Trust/new-agents'],
  'an account creates an agent; a taken handle is 409',
  async () => {
    const alice = await service.actor('alice');
    const { call } = await asAccountOf(alice);
    const body = { local_name: newName(), display_name: 'Made' };
    const made = mustSucceed(await call('POST', '/agents', body), 201);
    expect(made).toMatchObject({
      canonical_handle: `@${alice.owner}.${body.local_name}`,
      display_name: 'Made',
      inbound_policy: 'allowlist',
      visibility: 'public',
      paused: false,
    });
    mustDeny(await call('POST', '/agents', body), 409, 'DUPLICATE_HANDLE');
    for (const bad of [{}, { local_name: 'x' }, { display_name: 'x' }, { ...body, local_name: 'A.b' }])
      mustDeny(await call('POST', '/agents', bad), 400, expect.stringMatching(/VALIDATION_ERROR|INVALID_HANDLE/));
    mustDeny(await alice.post('/agents', { ...body, local_name: newName() }), 403, 'FORBIDDEN');
  },
);

rule(
  [
    'spec/Errors/FEATURE_NOT_AVAILABLE',
    'spec/Client/FEATURE_NOT_AVAILABLE',
    'spec/Non-enumeration/rule-5',
    'wire/Agents/POST-agents',
  ],
  'an open policy on a free account is FEATURE_NOT_AVAILABLE; another policy works',
  async () => {
    const browser = openBrowser();
    const clientId = await mustRegister(service.place, { scope: ACCOUNT_SCOPE });
    const { verifier, challenge } = createVerifier();
    const url = authorizationUrl(service.place, { clientId, challenge, scope: ACCOUNT_SCOPE });
    const consent = await signUp(browser, await browser.open(url), newPerson('free'));
    const code = redirectParameters((await allow(browser, consent)).answer).get('code') ?? '';
    const token = text(mustSucceed(await redeemCode(service.place, clientId, code, verifier)), 'access_token');
    const create = (inbound_policy: string) =>
      callApi(service.place.baseUrl, token, 'POST', '/agents', {
        local_name: 'one',
        display_name: 'One',
        inbound_policy,
      });
    mustDeny(await create('open'), 403, 'FEATURE_NOT_AVAILABLE');
    const agent = mustSucceed(await create('allowlist'), 201);
    const path = `/agents/${field(agent, 'namespace')}/one`;
    const change = await callApi(service.place.baseUrl, token, 'PATCH', path, { inbound_policy: 'open' });
    mustDeny(change, 403, 'FEATURE_NOT_AVAILABLE');
  },
);

rule(
  'wire/Agents/PATCH-DELETE',
  'an account changes and removes its agents; a removed handle stays reserved',
  async () => {
    const alice = await service.actor('alice');
    const { call } = await asAccountOf(alice);
    const name = newName();
    mustSucceed(await call('POST', '/agents', { local_name: name, display_name: 'One' }), 201);
    const path = `/agents/${alice.owner}/${name}`;
    const change = { visibility: 'private', can_initiate_sessions: false, paused: true, description: 'x' };
    expect(mustSucceed(await call('PATCH', path, change))).toMatchObject({
      ...change,
      canonical_handle: `@${alice.owner}.${name}`,
    });
    expect((await call('DELETE', path)).status).toBe(204);
    mustDeny(await call('GET', path), 404, 'AGENT_NOT_FOUND');
    mustDeny(await call('DELETE', path), 404, expect.stringMatching(/^(AGENT_)?NOT_FOUND$/));
    mustDeny(await call('POST', '/agents', { local_name: name, display_name: 'One' }), 409, 'DUPLICATE_HANDLE');
  },
);

rule('wire/Agents/PATCH-DELETE', 'an account changes only its own agents; others are not found', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const { call } = await asAccountOf(alice);
  for (const [method, body] of [
    ['PATCH', { paused: true }],
    ['DELETE', undefined],
  ] as const) {
    const answer = await call(method, `/agents/${bob.owner}/${bob.name}`, body);
    expect(answer.status).toBeOneOf([403, 404]);
  }
  await bob.mustCreate({ invite: [alice.handle] });
});

rule('wire/Agents/GET-agent', 'a private agent exists only for its own account', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const { call } = await asAccountOf(alice);
  const path = `/agents/${alice.owner}/${alice.name}`;
  mustSucceed(await call('PATCH', path, { visibility: 'private' }));
  const hidden = await bob.get(path);
  mustDeny(hidden, 404, 'AGENT_NOT_FOUND');
  expect(hidden.text).toBe((await bob.get('/agents/no/body')).text);
  mustDeny(await bob.get(`${path}/card`), 404, 'AGENT_NOT_FOUND');
  expect(list(mustSucceed(await bob.get(`/search/agents?q=${alice.owner}`)), 'agents')).toEqual([]);
  mustSucceed(await alice.get(path));
  const view = mustSucceed(await call('GET', path));
  expect(field(view, 'viewer')).toEqual({ relationship: 'owner', can_edit: true });
});

rule('wire/Trust/gate', 'an agent that was paused or removed by its account is not reached', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const { call } = await asAccountOf(bob);
  const path = `/agents/${bob.owner}/${bob.name}`;
  mustSucceed(await call('PATCH', path, { paused: true }));
  mustDeny(await alice.post('/sessions', { invite: [bob.handle] }), 404, 'NOT_FOUND');
  mustSucceed(await call('PATCH', path, { paused: false }));
  await alice.mustCreate({ invite: [bob.handle] });
  expect((await call('DELETE', path)).status).toBe(204);
  mustDeny(await alice.post('/sessions', { invite: [bob.handle] }), 404, 'NOT_FOUND');
});

rule('wire/OAuth/account-tokens', 'each account scope allows only its own endpoints', async () => {
  const alice = await service.actor('alice');
  const reader = await asAccountOf(alice, 'account:read');
  mustSucceed(await reader.call('GET', '/accounts/me/sessions'));
  mustDeny(await reader.call('GET', '/agents'), 403, 'INSUFFICIENT_SCOPE');
  const manager = await asAccountOf(alice, 'account:agents:read');
  mustSucceed(await manager.call('GET', '/agents'));
  mustDeny(await manager.call('GET', '/accounts/me/sessions'), 403, 'INSUFFICIENT_SCOPE');
});

rule(
  ['wire/Aliases/account-sessions', 'wire/Aliases/account-agents'],
  'the account’s addresses of newer clients',
  async () => {
    const alice = await service.actor('alice');
    const { call } = await asAccountOf(alice);
    const id = await alice.mustCreate();
    const sessions = mustSucceed(await call('GET', '/account/sessions'));
    expect(sessions).toMatchObject({ sessions: [{ id, state: 'active' }], next_cursor: null });
    expect(mustSucceed(await call('GET', '/account/agents'))).toEqual(mustSucceed(await call('GET', '/agents')));
    const name = newName();
    mustSucceed(await call('POST', '/account/agents', { local_name: name, display_name: 'One' }), 201);
    const path = `/account/agents/${alice.owner}/${name}`;
    expect(mustSucceed(await call('PATCH', path, { paused: true }))).toMatchObject({ paused: true });
    expect(field(mustSucceed(await call('GET', path)), 'agent.local_name')).toBe(name);
    expect((await call('DELETE', path)).status).toBe(204);
  },
);
