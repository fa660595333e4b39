import { expect } from 'vitest';

import { callApi } from '../support/actors.js';
import { mustRefuse, mustSucceed } from '../support/answers.js';
import { approveLocally, mustGetCode, mustGrant } from '../support/grants.js';
import { type Answer, postForm, request } from '../support/http.js';
import { field, keysOf, text } from '../support/json.js';
import {
  AGENT_SCOPE,
  askClientToken,
  challengeOf,
  claimsOf,
  createVerifier,
  mustRegister,
  redeemCode,
  redirectParameters,
  refresh,
} from '../support/oauth.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "POST /token", "Resource binding", "Scopes"; docs/contract.md; RFC 6749 §5, RFC 7636, RFC 8707.

const service = useService();

const redeem = (
  got: { clientId: string; code: string; verifier: string },
  overrides: Readonly<Record<string, string | readonly string[] | undefined>> = {},
): Promise<Answer> => redeemCode(service.place, got.clientId, got.code, got.verifier, overrides);

rule(
  ['spec/token/client_credentials', 'spec/token/response', 'spec/Flows/client_credentials', 'wire/OAuth/token'],
  'client credentials get a token for one agent and no refresh token',
  async () => {
    const alice = await service.actor('alice');
    const answer = await askClientToken(service.place, alice.credentials, service.place.baseUrl, 'agents:read');
    const json = mustSucceed(answer);
    expect(keysOf(json)).toEqual(['access_token', 'agent_handle', 'expires_in', 'scope', 'token_type']);
    expect(json).toMatchObject({
      token_type: 'Bearer',
      expires_in: 900,
      scope: 'agents:read',
      agent_handle: alice.handle.slice(1),
    });
    expect(answer.headers['cache-control']).toContain('no-store');
    expect(answer.setCookies).toEqual([]);
  },
);

rule('spec/token/client_credentials', 'a wrong secret and an unknown client get the same invalid_client', async () => {
  const alice = await service.actor('alice');
  const ask = (clientId: string, clientSecret: string) =>
    askClientToken(service.place, { clientId, clientSecret }, service.place.baseUrl);
  const wrong = await ask(alice.credentials.clientId, 'wrong');
  const unknown = await ask('oac_01ARZ3NDEKTSV4RRFFQ69G5FAV', 'wrong');
  mustRefuse(wrong, 401, 'invalid_client');
  expect(unknown.text).toBe(wrong.text);
  expect(unknown.status).toBe(wrong.status);
});

rule('wire/OAuth/token', 'client credentials may be sent with HTTP Basic', async () => {
  const alice = await service.actor('alice');
  const { clientId, clientSecret } = alice.credentials;
  const ask = (secret: string) =>
    postForm(
      service.place.tokenUrl,
      { grant_type: 'client_credentials' },
      { authorization: `Basic ${Buffer.from(`${clientId}:${secret}`).toString('base64')}` },
    );
  mustSucceed(await ask(clientSecret));
  const wrong = await ask('wrong');
  mustRefuse(wrong, 401, 'invalid_client');
  expect(wrong.headers['www-authenticate']).toMatch(/^Basic /);
});

rule('wire/OAuth/statuses', 'a public client has no client credentials grant', async () => {
  const clientId = await mustRegister(service.place);
  const form = { grant_type: 'client_credentials', client_id: clientId, resource: service.place.baseUrl };
  mustRefuse(await postForm(service.place.tokenUrl, form), 400, 'unauthorized_client');
  const withSecret = await postForm(service.place.tokenUrl, { ...form, client_secret: 'x' });
  expect(field(withSecret.json, 'error')).toBeOneOf(['unauthorized_client', 'invalid_client']);
});

rule(
  ['spec/token/authorization_code', 'spec/token/response', 'spec/Flows/authorization_code'],
  'a code and its verifier get an access token and a refresh token',
  async () => {
    const alice = await service.actor('alice');
    const answer = await redeem(await mustGetCode(service.place, service.operator, alice.handle));
    const json = mustSucceed(answer);
    expect(keysOf(json)).toEqual([
      'access_token',
      'agent_handle',
      'expires_in',
      'refresh_token',
      'scope',
      'token_type',
    ]);
    expect(json).toMatchObject({ token_type: 'Bearer', expires_in: 900, agent_handle: alice.handle.slice(1) });
    expect(text(json, 'scope').split(' ').sort()).toEqual([...AGENT_SCOPE].sort());
    expect(answer.headers['cache-control']).toContain('no-store');
    const me = await callApi(service.place.baseUrl, text(json, 'access_token'), 'GET', '/agents/me');
    expect(field(mustSucceed(me), 'canonical_handle')).toBe(alice.handle);
  },
);

rule(['wire/OAuth/code', 'spec/Flows/PKCE'], 'a code is bound to its client, redirect URI and challenge', async () => {
  const alice = await service.actor('alice');
  const other = await mustRegister(service.place);
  const { verifier } = createVerifier();
  for (const overrides of [
    { client_id: other },
    { redirect_uri: 'http://127.0.0.1:49152/other' },
    { redirect_uri: 'http://127.0.0.1:50000/callback' },
    { code_verifier: verifier },
    { code: 'unknown' },
  ]) {
    const got = await mustGetCode(service.place, service.operator, alice.handle);
    mustRefuse(await redeem(got, overrides), 400, 'invalid_grant');
  }
  for (const missing of ['code', 'code_verifier', 'redirect_uri']) {
    const got = await mustGetCode(service.place, service.operator, alice.handle);
    mustRefuse(await redeem(got, { [missing]: undefined }), 400, 'invalid_request');
  }
});

rule(
  ['spec/Flows/PKCE', 'spec/Constants/verifier'],
  'verifiers have 43 to 128 characters of the allowed kind',
  async () => {
    const alice = await service.actor('alice');
    const tries: readonly (readonly [string, boolean])[] = [
      ['a'.repeat(42), false],
      ['a'.repeat(43), true],
      ['Az09-._~'.repeat(16), true],
      ['a'.repeat(129), false],
      [`${'a'.repeat(42)}!`, false],
    ];
    for (const [verifier, isFine] of tries) {
      const clientId = await mustRegister(service.place);
      const { code } = await getCodeFor(alice.handle, clientId, challengeOf(verifier));
      const answer = await redeemCode(service.place, clientId, code, verifier);
      expect([verifier.length, answer.status]).toEqual([verifier.length, isFine ? 200 : 400]);
      if (!isFine) expect(field(answer.json, 'error')).toBeOneOf(['invalid_grant', 'invalid_request']);
    }
  },
);

async function getCodeFor(agentHandle: string, clientId: string, challenge: string): Promise<{ code: string }> {
  const answer = await approveLocally(service.place, service.operator, { clientId, challenge, agentHandle });
  return { code: redirectParameters(answer).get('code') ?? '' };
}

rule('wire/OAuth/code', 'a code works once; a second use revokes the tokens of the first one', async () => {
  const alice = await service.actor('alice');
  const got = await mustGetCode(service.place, service.operator, alice.handle);
  const refreshToken = text(mustSucceed(await redeem(got)), 'refresh_token');
  mustRefuse(await redeem(got), 400, 'invalid_grant');
  mustRefuse(await refresh(service.place, got.clientId, refreshToken), 401, 'invalid_client');
});

rule('wire/OAuth/code', 'of 32 simultaneous uses, one succeeds', async () => {
  const alice = await service.actor('alice');
  const got = await mustGetCode(service.place, service.operator, alice.handle);
  const answers = await Promise.all(Array.from({ length: 32 }, () => redeem(got)));
  expect(answers.filter((answer) => answer.status === 200)).toHaveLength(1);
  expect(answers.filter((answer) => answer.status === 400)).toHaveLength(31);
});

rule('spec/token/form', 'only a form counts: no JSON, no query, no repeated parameter', async () => {
  const alice = await service.actor('alice');
  const { clientId, clientSecret } = alice.credentials;
  const fields = {
    grant_type: 'client_credentials',
    client_id: clientId,
    client_secret: clientSecret,
    resource: service.place.baseUrl,
  };
  const json = await request(service.place.tokenUrl, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(fields),
  });
  expect(json.status).toBeOneOf([400, 415]);
  expect(field(json.json, 'error')).toBe('invalid_request');
  const inQuery = await postForm(`${service.place.tokenUrl}?${new URLSearchParams(fields)}`, {});
  expect(inQuery.status).toBeOneOf([400, 401]);
  for (const name of ['grant_type', 'client_id', 'client_secret'] as const)
    mustRefuse(
      await postForm(service.place.tokenUrl, { ...fields, [name]: [fields[name], fields[name]] }),
      400,
      'invalid_request',
    );
  expect((await request(service.place.tokenUrl)).status).toBeOneOf([404, 405]);
  mustSucceed(await postForm(service.place.tokenUrl, { ...fields, unknown: 'ignored' }));
});

rule('wire/OAuth/statuses', 'a missing grant type is invalid_request, another one unsupported_grant_type', async () => {
  const { tokenUrl } = service.place;
  mustRefuse(await postForm(tokenUrl, {}), 400, 'invalid_request');
  for (const grant of ['password', 'implicit', 'urn:ietf:params:oauth:grant-type:device_code'])
    mustRefuse(await postForm(tokenUrl, { grant_type: grant, client_id: 'x' }), 400, 'unsupported_grant_type');
});

rule(
  ['spec/Resource/api', 'spec/Resource/ws', 'wire/OAuth/token'],
  'aud is a string for one resource, has both for two, and is the REST API for none; an unknown one is invalid_target',
  async () => {
    const alice = await service.actor('alice');
    const { baseUrl, wsUrl } = service.place;
    const audience = async (resource: string | readonly string[]) => {
      const answer = await askClientToken(service.place, alice.credentials, resource);
      return field(claimsOf(text(mustSucceed(answer), 'access_token')), 'aud');
    };
    expect(await audience(baseUrl)).toBe(baseUrl);
    expect(await audience(wsUrl)).toBe(wsUrl);
    expect(await audience([baseUrl, wsUrl])).toEqual([baseUrl, wsUrl]);
    expect(await audience([])).toBe(baseUrl);
    const bad = ['https://other.example', `${baseUrl}/`, baseUrl.toUpperCase(), `${baseUrl}#x`, 'x', [baseUrl, 'x']];
    for (const resource of bad)
      mustRefuse(await askClientToken(service.place, alice.credentials, resource), 400, 'invalid_target');
  },
);

rule(
  ['spec/Resource/wrong', 'spec/Failures/wrong-resource', 'wire/OAuth/token'],
  'a token works only on its resource, and one for both on both',
  async () => {
    const alice = await service.actor('alice');
    const { baseUrl, wsUrl } = service.place;
    const token = async (resource: string | readonly string[]) =>
      text((await askClientToken(service.place, alice.credentials, resource)).json, 'access_token');
    const onApi = async (given: string) => (await callApi(baseUrl, given, 'GET', '/agents/me')).status;
    const onSocket = async (given: string) => {
      const outcome = await alice.connect(given);
      if ('status' in outcome) return outcome.status;
      await outcome.close();
      return 101;
    };
    expect([await onApi(await token(baseUrl)), await onSocket(await token(baseUrl))]).toEqual([200, 401]);
    expect([await onApi(await token(wsUrl)), await onSocket(await token(wsUrl))]).toEqual([401, 101]);
    const both = await token([baseUrl, wsUrl]);
    expect([await onApi(both), await onSocket(both)]).toEqual([200, 101]);
  },
);

rule(['spec/Resource/agents', 'spec/Service/rule-1'], 'each token acts as one agent; two agents need two', async () => {
  const alice = await service.actor('alice');
  const sibling = await service.actor('sibling', { owner: alice.owner });
  for (const actor of [alice, sibling]) {
    const { accessToken } = await mustGrant(service.place, service.operator, actor.handle);
    const me = mustSucceed(await callApi(service.place.baseUrl, accessToken, 'GET', '/agents/me'));
    expect(field(me, 'canonical_handle')).toBe(actor.handle);
    expect(field(claimsOf(accessToken), 'agent_id')).toBe(field(me, 'id'));
  }
});

rule('spec/Failures/ungrantable-scope', 'a scope the client cannot have is 403 invalid_scope', async () => {
  const alice = await service.actor('alice');
  for (const scope of ['everything', 'agents:read everything', 'account:read'])
    mustRefuse(
      await askClientToken(service.place, alice.credentials, service.place.baseUrl, scope),
      403,
      'invalid_scope',
    );
  const repeated = await askClientToken(
    service.place,
    alice.credentials,
    service.place.baseUrl,
    'agents:read  agents:read',
  );
  expect(field(mustSucceed(repeated), 'scope')).toBe('agents:read');
});

rule('wire/OAuth/statuses', 'no error repeats input', async () => {
  const secret = 'a-secret-that-must-not-come-back';
  const fields = {
    client_id: secret,
    client_secret: secret,
    code: secret,
    code_verifier: secret,
    refresh_token: secret,
  };
  for (const grant_type of ['client_credentials', 'authorization_code', 'refresh_token']) {
    const answer = await postForm(service.place.tokenUrl, {
      grant_type,
      ...fields,
      redirect_uri: 'http://127.0.0.1:1/',
      resource: service.place.baseUrl,
    });
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.text).not.toContain(secret);
  }
});
