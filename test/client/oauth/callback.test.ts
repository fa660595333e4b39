import { createHash } from 'node:crypto';

import { describe, expect, it } from 'vitest';
import {
  type AuthorizationRequest,
  createAuthorizationRequest,
  readCallback,
} from '../../../src/client/oauth/authorization-request.js';
import { systemRandom } from '../../../src/kit/random.js';

const discovery = {
  issuer: 'https://auth.test',
  metadata: {
    issuer: 'https://auth.test',
    authorization_endpoint: 'https://web.test/oauth/authorize?theme=dark',
    token_endpoint: 'https://auth.test/token',
    authorization_response_iss_parameter_supported: true,
  },
  resources: { api: 'https://api.test/v1', ws: undefined },
};
const redirectUri = 'http://127.0.0.1:50000/callback';
const request: AuthorizationRequest = createAuthorizationRequest(
  discovery,
  { clientId: 'oac_1', redirectUri, scopes: ['sessions:read'], agentHandle: '@alice.bot' },
  systemRandom,
);
const iss = encodeURIComponent(discovery.issuer);
const at = (query: string): string => `${redirectUri}?${query}`;

describe('an authorization request', () => {
  it('carries a challenge for its verifier, a state of at least 128 bits, and what was requested', () => {
    const { searchParams: values, origin } = new URL(request.url);
    expect(origin).toBe('https://web.test');
    expect(Object.fromEntries(values)).toEqual({
      theme: 'dark',
      response_type: 'code',
      client_id: 'oac_1',
      redirect_uri: redirectUri,
      code_challenge: createHash('sha256').update(request.codeVerifier).digest('base64url'),
      code_challenge_method: 'S256',
      scope: 'sessions:read',
      state: request.state,
      agent_handle: '@alice.bot',
    });
    expect(Buffer.from(request.state, 'base64url').length).toBeGreaterThanOrEqual(16);
    expect(request.codeVerifier).toMatch(/^[\w-]{43,128}$/);
  });
});

describe('a callback', () => {
  const { state } = request;
  it.each([
    [`code=abc&state=${state}&iss=${iss}`, { kind: 'code', code: 'abc', issuer: discovery.issuer }],
    [`error=access_denied&state=${state}&iss=${iss}`, { kind: 'refused', error: 'access_denied' }],
    [`error=access_denied&state=wrong&iss=${iss}`, { kind: 'foreign', reason: 'state' }],
    [`error=access_denied`, { kind: 'foreign', reason: 'state' }],
    [`code=abc&iss=${iss}`, { kind: 'foreign', reason: 'state' }],
    [`code=abc&state=${state}x&iss=${iss}`, { kind: 'foreign', reason: 'state' }],
    [`code=abc&state=${state}`, { kind: 'foreign', reason: 'issuer' }],
    [`code=abc&state=${state}&iss=https://evil.test`, { kind: 'foreign', reason: 'issuer' }],
    [`code=abc&code=def&state=${state}&iss=${iss}`, { kind: 'foreign', reason: 'repeated' }],
    [`state=${state}&state=${state}&code=abc&iss=${iss}`, { kind: 'foreign', reason: 'repeated' }],
    [`state=${state}&iss=${iss}`, { kind: 'foreign', reason: 'incomplete' }],
  ])('?%s', (query, expected) => expect(readCallback(request, at(query))).toEqual(expected));

  it.each(['http://127.0.0.1:50001/callback', 'http://127.0.0.1:50000/other', 'http://evil.test/callback', 'x'])(
    'at %s is not ours',
    (address) => {
      const callback = readCallback(request, `${address}?code=a&state=${state}&iss=${iss}`);
      expect(callback).toEqual({ kind: 'foreign', reason: 'address' });
    },
  );
});
