import { createHmac, generateKeyPairSync, sign } from 'node:crypto';

import { expect } from 'vitest';

import { callApi } from '../support/actors.js';
import { mustDeny, mustSucceed } from '../support/answers.js';
import { request } from '../support/http.js';
import { field } from '../support/json.js';
import { claimsOf, headerOf } from '../support/oauth.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "Using tokens" and "Authentication failures"; RFC 8725. Each test forges tokens from a real one.

const service = useService();
const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
const mustNotWork = async (token: string): Promise<void> =>
  mustDeny(await callApi(service.place.baseUrl, token, 'GET', '/agents/me'), 401, 'UNAUTHORIZED');

rule(
  ['spec/Using/verify', 'spec/Errors/UNAUTHORIZED'],
  'a token with a signature of someone else, or without one, is refused',
  async () => {
    const alice = await service.actor('alice');
    const token = await alice.token();
    const [header, claims] = [Object(headerOf(token)), Object(claimsOf(token))];
    const [head = '', body = '', signature = ''] = token.split('.');
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const signed = (changed: object, payload: object = claims): string => {
      const input = `${part({ ...header, ...changed })}.${part(payload)}`;
      return `${input}.${sign('sha256', Buffer.from(input), privateKey).toString('base64url')}`;
    };
    const keySet = await request(service.place.jwksUrl);
    const hmacInput = `${part({ ...header, alg: 'HS256' })}.${body}`;
    await mustNotWork(signed({}));
    await mustNotWork(signed({ kid: 'unknown' }));
    await mustNotWork(signed({ kid: undefined }));
    await mustNotWork(signed({ jwk: field(keySet.json, 'keys.0') }));
    await mustNotWork(signed({ crit: ['x'], x: 1 }));
    await mustNotWork(`${part({ ...header, alg: 'none' })}.${body}.`);
    await mustNotWork(`${part({ ...header, alg: 'rs256' })}.${body}.${signature}`);
    await mustNotWork(`${hmacInput}.${createHmac('sha256', keySet.text).update(hmacInput).digest('base64url')}`);
    await mustNotWork(`${head}.${part({ ...claims, scope: 'agents:read account:read' })}.${signature}`);
    await mustNotWork(`${head}.${body}.${signature.slice(0, -4)}AAAA`);
    await mustNotWork(`${head}.${body}.${signature}.x`);
    mustSucceed(await callApi(service.place.baseUrl, token, 'GET', '/agents/me'));
  },
);

rule('wire/OAuth/claims', 'a token of another type is refused', async () => {
  const alice = await service.actor('alice');
  const token = await alice.token();
  const [head = '', , signature = ''] = token.split('.');
  const claims = Object(claimsOf(token));
  for (const type of ['refresh', 'id', undefined, 1])
    await mustNotWork(`${head}.${part({ ...claims, token_type: type })}.${signature}`);
});

rule(
  [
    'spec/Failures/missing-scope',
    'spec/Errors/INSUFFICIENT_SCOPE',
    'spec/Errors/challenge',
    'spec/Client/INSUFFICIENT_SCOPE',
  ],
  'a missing scope is 403 insufficient_scope; a token with it works',
  async () => {
    const alice = await service.actor('alice');
    const token = await alice.token('api', ['agents:read']);
    const answer = await alice.get('/sessions', { token });
    mustDeny(answer, 403, 'INSUFFICIENT_SCOPE');
    expect(answer.headers['www-authenticate']).toMatch(/^Bearer error="insufficient_scope"/);
    mustSucceed(await alice.get('/sessions', { token: await alice.token('api', ['agents:read', 'sessions:read']) }));
  },
);

rule(
  ['spec/Failures/wrong-resource', 'spec/Errors/challenge'],
  'the token of the other resource is 401 invalid_token',
  async () => {
    const alice = await service.actor('alice');
    const answer = await alice.get('/sessions', { token: await alice.token('ws') });
    mustDeny(answer, 401, 'UNAUTHORIZED');
    expect(answer.headers['www-authenticate']).toMatch(/^Bearer error="invalid_token"/);
  },
);
