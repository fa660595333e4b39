import { expect } from 'vitest';

import { callApi } from '../support/actors.js';
import { mustDeny, mustRefuse, mustSucceed } from '../support/answers.js';
import { mustGrant } from '../support/grants.js';
import { field, keysOf, text } from '../support/json.js';
import { claimsOf, mustRegister, refresh } from '../support/oauth.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "Refresh". lifetimes.test.ts covers what depends on time.

const service = useService();

const grantTo = (handle: string, options = {}) => mustGrant(service.place, service.operator, handle, options);
const refreshTokenOf = (json: unknown): string => text(json, 'refresh_token');

rule(
  ['spec/token/refresh_token', 'spec/Refresh/rotation', 'spec/token/response', 'spec/Refresh/expires_in'],
  'every refresh returns a new refresh token, and the new one works',
  async () => {
    const alice = await service.actor('alice');
    const grant = await grantTo(alice.handle);
    const seen = new Set([grant.refreshToken]);
    let current = grant.refreshToken;
    for (let count = 0; count < 5; count += 1) {
      const json = mustSucceed(await refresh(service.place, grant.clientId, current));
      expect(json).toMatchObject({ token_type: 'Bearer', expires_in: 900 });
      expect(keysOf(json)).toEqual(
        expect.arrayContaining(['access_token', 'expires_in', 'refresh_token', 'token_type']),
      );
      current = refreshTokenOf(json);
      seen.add(current);
      mustSucceed(await callApi(service.place.baseUrl, text(json, 'access_token'), 'GET', '/agents/me'));
    }
    expect(seen.size).toBe(6);
    for (const token of seen) expect(token.length).toBeGreaterThanOrEqual(43);
  },
);

rule(['spec/Refresh/reactive', 'spec/Client/UNAUTHORIZED'], 'a refused token is replaced by one refresh', async () => {
  const alice = await service.actor('alice');
  const grant = await grantTo(alice.handle);
  mustDeny(await callApi(service.place.baseUrl, `${grant.accessToken}x`, 'GET', '/agents/me'), 401, 'UNAUTHORIZED');
  const json = mustSucceed(await refresh(service.place, grant.clientId, grant.refreshToken));
  mustSucceed(await callApi(service.place.baseUrl, text(json, 'access_token'), 'GET', '/agents/me'));
});

rule(
  ['spec/Refresh/reuse', 'spec/Failures/refresh-reused', 'spec/Constants/refresh-token'],
  'a rotated token presented again is 401 invalid_client and ends the whole family',
  async () => {
    const alice = await service.actor('alice');
    for (const depth of [1, 2, 4]) {
      const grant = await grantTo(alice.handle);
      const other = await grantTo(alice.handle, { clientId: grant.clientId });
      let current = grant.refreshToken;
      for (let count = 0; count < depth; count += 1)
        current = refreshTokenOf(mustSucceed(await refresh(service.place, grant.clientId, current)));
      mustRefuse(await refresh(service.place, grant.clientId, grant.refreshToken), 401, 'invalid_client');
      mustRefuse(await refresh(service.place, grant.clientId, current), 401, 'invalid_client');
      mustSucceed(await refresh(service.place, other.clientId, other.refreshToken));
    }
  },
);

rule('spec/Refresh/reuse', 'of 16 simultaneous refreshes, one succeeds, and the family ends', async () => {
  const alice = await service.actor('alice');
  const grant = await grantTo(alice.handle);
  const answers = await Promise.all(
    Array.from({ length: 16 }, () => refresh(service.place, grant.clientId, grant.refreshToken)),
  );
  const winners = answers.filter((answer) => answer.status === 200);
  expect(winners).toHaveLength(1);
  for (const answer of answers.filter(({ status }) => status !== 200)) mustRefuse(answer, 401, 'invalid_client');
  mustRefuse(await refresh(service.place, grant.clientId, refreshTokenOf(winners[0]?.json)), 401, 'invalid_client');
});

rule('spec/Refresh/stateless', 'the access token and the socket of a family outlive its end by reuse', async () => {
  const alice = await service.actor('alice');
  const grant = await grantTo(alice.handle, { resource: [service.place.baseUrl, service.place.wsUrl] });
  const socket = await alice.mustConnect(grant.accessToken);
  mustSucceed(await refresh(service.place, grant.clientId, grant.refreshToken));
  mustRefuse(await refresh(service.place, grant.clientId, grant.refreshToken), 401, 'invalid_client');
  mustSucceed(await callApi(service.place.baseUrl, grant.accessToken, 'GET', '/agents/me'));
  await socket.mustPing();
  await socket.close();
});

rule('spec/Refresh/reuse', 'a token in the hands of another client is refused and the family is unharmed', async () => {
  const alice = await service.actor('alice');
  const grant = await grantTo(alice.handle);
  const thief = await mustRegister(service.place);
  mustRefuse(await refresh(service.place, thief, grant.refreshToken), 401, 'invalid_client');
  mustSucceed(await refresh(service.place, grant.clientId, grant.refreshToken));
});

rule(
  ['spec/Scopes/narrowing', 'spec/Client/INSUFFICIENT_SCOPE'],
  'a refresh may narrow the scope, never widen it',
  async () => {
    const alice = await service.actor('alice');
    const grant = await grantTo(alice.handle, { scope: 'agents:read sessions:read' });
    const narrow = mustSucceed(
      await refresh(service.place, grant.clientId, grant.refreshToken, { scope: 'agents:read' }),
    );
    const token = text(narrow, 'access_token');
    expect(field(claimsOf(token), 'scope')).toBe('agents:read');
    mustDeny(await callApi(service.place.baseUrl, token, 'GET', '/sessions'), 403, 'INSUFFICIENT_SCOPE');
    mustDeny(await callApi(service.place.baseUrl, token, 'GET', '/sessions'), 403, 'INSUFFICIENT_SCOPE');
    const wider = { scope: 'agents:read sessions:write' };
    mustRefuse(await refresh(service.place, grant.clientId, refreshTokenOf(narrow), wider), 403, 'invalid_scope');
    // A refusal does not rotate the token.
    const again = mustSucceed(await refresh(service.place, grant.clientId, refreshTokenOf(narrow)));
    mustSucceed(await callApi(service.place.baseUrl, text(again, 'access_token'), 'GET', '/agents/me'));
  },
);

rule('spec/token/refresh_token', 'one family has tokens for either resource', async () => {
  const alice = await service.actor('alice');
  const { baseUrl, wsUrl } = service.place;
  const grant = await grantTo(alice.handle, { resource: [baseUrl, wsUrl] });
  const forSocket = mustSucceed(await refresh(service.place, grant.clientId, grant.refreshToken, { resource: wsUrl }));
  expect(field(claimsOf(text(forSocket, 'access_token')), 'aud')).toBe(wsUrl);
  const forApi = mustSucceed(await refresh(service.place, grant.clientId, refreshTokenOf(forSocket)));
  expect(field(claimsOf(text(forApi, 'access_token')), 'aud')).toBe(baseUrl);
  const unknown = await refresh(service.place, grant.clientId, refreshTokenOf(forApi), {
    resource: 'https://x.example',
  });
  mustRefuse(unknown, 400, 'invalid_target');
});

rule(
  'wire/OAuth/statuses',
  'an unknown refresh token is 401 invalid_client, a missing one invalid_request',
  async () => {
    const clientId = await mustRegister(service.place);
    mustRefuse(await refresh(service.place, clientId, 'nonsense'), 401, 'invalid_client');
    mustRefuse(await refresh(service.place, clientId, '', { refresh_token: undefined }), 400, 'invalid_request');
  },
);
