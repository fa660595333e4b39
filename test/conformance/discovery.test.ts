import { createPublicKey } from 'node:crypto';

import { expect } from 'vitest';

import { mustSucceed } from '../support/answers.js';
import { request } from '../support/http.js';
import { field, keysOf, list, text } from '../support/json.js';
import { headerOf } from '../support/oauth.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "Discovery" and docs/contract.md: what clients look up instead of assuming it.

const service = useService();
const AGENT_SCOPES = [
  'agents:read',
  'allowlist:read',
  'allowlist:write',
  'realtime:read',
  'sessions:read',
  'sessions:write',
];
const SCOPES = ['account:agents:read', 'account:organizations:read', 'account:read', ...AGENT_SCOPES];

const readMetadata = async (): Promise<unknown> =>
  mustSucceed(await request(`${service.place.issuer}/.well-known/oauth-authorization-server`));

rule(
  [
    'spec/Discovery/token_endpoint',
    'spec/Discovery/authorization_endpoint',
    'spec/Discovery/registration_endpoint',
    'spec/Discovery/revocation_endpoint',
    'spec/Discovery/jwks_uri',
  ],
  'every endpoint is in the metadata, with the documented path',
  async () => {
    const metadata = await readMetadata();
    const { issuer } = service.place;
    expect(metadata).toMatchObject({
      token_endpoint: `${issuer}/token`,
      registration_endpoint: `${issuer}/register`,
      revocation_endpoint: `${issuer}/revoke`,
      jwks_uri: `${issuer}/.well-known/jwks.json`,
    });
    expect(new URL(text(metadata, 'authorization_endpoint')).pathname).toMatch(/\/oauth\/authorize$/);
  },
);

rule(
  ['spec/Discovery/grant_types_supported', 'spec/Discovery/code_challenge_methods_supported', 'spec/Flows/PKCE'],
  'there are three grants, and only S256',
  async () => {
    const metadata = await readMetadata();
    expect([...list(metadata, 'grant_types_supported')].sort()).toEqual([
      'authorization_code',
      'client_credentials',
      'refresh_token',
    ]);
    expect(field(metadata, 'code_challenge_methods_supported')).toEqual(['S256']);
  },
);

rule('wire/OAuth/server-metadata', 'issuer, code, scopes, authentication methods, iss, and all resources', async () => {
  const answer = await request(`${service.place.issuer}/.well-known/oauth-authorization-server`);
  expect(answer.headers['content-type']).toMatch(/^application\/json/);
  const metadata = answer.json;
  expect(metadata).toMatchObject({
    issuer: service.place.issuer,
    response_types_supported: ['code'],
    token_endpoint_auth_methods_supported: ['none', 'client_secret_post', 'client_secret_basic'],
    authorization_response_iss_parameter_supported: true,
    resource_servers: [service.place.baseUrl, service.place.wsUrl, `${service.place.issuer}/mcp`].map((resource) => ({
      resource,
    })),
  });
  expect([...list(metadata, 'scopes_supported')].sort()).toEqual(SCOPES);
  expect(service.place.issuer).not.toMatch(/\/$/);
});

rule('wire/OAuth/server-metadata', 'the addresses come from configuration, never from the request', async () => {
  const url = `${service.place.issuer}/.well-known/oauth-authorization-server`;
  const honest = await request(url);
  const forwarded = await request(url, {
    headers: { 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'https', forwarded: 'host=evil.example' },
  });
  expect(forwarded.text).toBe(honest.text);
  const forged = await request(url, { headers: { host: 'evil.example' } });
  expect(forged.text).not.toContain('evil.example');
});

rule('wire/OAuth/resource-metadata', 'the REST resource names itself, its server and the agent scopes', async () => {
  const metadata = mustSucceed(await request(`${service.place.baseUrl}/.well-known/oauth-protected-resource`));
  expect(metadata).toMatchObject({
    resource: service.place.baseUrl,
    authorization_servers: [service.place.issuer],
    bearer_methods_supported: ['header'],
  });
  expect([...list(metadata, 'scopes_supported')].sort()).toEqual(AGENT_SCOPES);
});

rule('wire/OAuth/resource-metadata', 'a 401 says where the metadata of its resource is', async () => {
  const alice = await service.actor('alice');
  const handshake = await alice.connect('not.a.token');
  const refusals = [
    [await request(`${service.place.baseUrl}/agents/me`), service.place.baseUrl],
    ['status' in handshake ? handshake : undefined, service.place.wsUrl],
    [await request(`${service.place.issuer}/mcp`, { method: 'POST' }), `${service.place.issuer}/mcp`],
  ] as const;
  for (const [refusal, resource] of refusals) {
    expect(refusal?.status).toBe(401);
    const url = /^Bearer error="invalid_token", resource_metadata="([^"]+)"$/.exec(
      refusal?.headers['www-authenticate'] ?? '',
    )?.[1];
    const metadata = mustSucceed(await request(url ?? ''));
    expect(metadata).toMatchObject({ resource, authorization_servers: [service.place.issuer] });
  }
});

rule(
  ['spec/Using/jwks', 'spec/Authentication/tokens'],
  'the key set is public, cacheable, RSA-2048 for RS256, and holds the key of every token',
  async () => {
    const answer = await request(service.place.jwksUrl);
    expect(answer.headers['cache-control']).toMatch(/max-age=\d+/);
    const keys = list(mustSucceed(answer), 'keys');
    expect(keys.length).toBeGreaterThanOrEqual(1);
    for (const key of keys) {
      expect(key).toMatchObject({ kty: 'RSA', use: 'sig', alg: 'RS256', kid: expect.any(String) });
      expect(keysOf(key)).toEqual(['alg', 'e', 'kid', 'kty', 'n', 'use']);
      const { asymmetricKeyDetails } = createPublicKey({ key: Object(key), format: 'jwk' });
      expect(asymmetricKeyDetails?.modulusLength).toBeGreaterThanOrEqual(2048);
    }
    const alice = await service.actor('alice');
    const header = headerOf(await alice.token());
    expect(field(header, 'alg')).toBe('RS256');
    expect(keys.map((key) => field(key, 'kid'))).toContain(field(header, 'kid'));
  },
);
