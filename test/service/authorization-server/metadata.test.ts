import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { GRANT_TYPES } from '../../../src/wire/oauth.js';
import { AGENT_SCOPES, SCOPES } from '../../../src/wire/scope.js';
import { request } from '../../support/http.js';
import { type Desk, openDesk } from './desk.js';

let desk: Desk;
beforeAll(async () => {
  desk = await openDesk();
});
afterAll(() => desk.stop());

describe('Authentication › Discovery', () => {
  it('publishes every field of the table, below the issuer byte for byte', async () => {
    const { authUrl, webUrl, baseUrl, wsUrl, mcpUrl } = desk.service;
    const answer = await request(`${authUrl}/.well-known/oauth-authorization-server`);
    expect(answer.headers['content-type']).toMatch(/^application\/json/);
    expect(answer.json).toMatchObject({
      issuer: authUrl,
      token_endpoint: `${authUrl}/token`,
      authorization_endpoint: `${webUrl}/oauth/authorize`,
      registration_endpoint: `${authUrl}/register`,
      revocation_endpoint: `${authUrl}/revoke`,
      jwks_uri: `${authUrl}/.well-known/jwks.json`,
      grant_types_supported: [...GRANT_TYPES],
      response_types_supported: ['code'],
      code_challenge_methods_supported: ['S256'],
      token_endpoint_auth_methods_supported: ['none', 'client_secret_post', 'client_secret_basic'],
      authorization_response_iss_parameter_supported: true,
      scopes_supported: [...SCOPES],
      resource_servers: [{ resource: baseUrl }, { resource: wsUrl }, { resource: mcpUrl }],
    });
  });

  it('names the authorization server below the resource and where RFC 9728 puts it', async () => {
    const { service } = desk;
    const below = await request(`${service.baseUrl}/.well-known/oauth-protected-resource`);
    const inserted = await request(`${service.authUrl}/.well-known/oauth-protected-resource/v1`);
    expect(below.json).toEqual({
      epoch: expect.stringMatching(/^[0-9a-f]{20}$/),
      resource: service.baseUrl,
      authorization_servers: [service.authUrl],
      scopes_supported: [...AGENT_SCOPES],
      bearer_methods_supported: ['header'],
    });
    expect(inserted.text).toBe(below.text);
  });

  it('names the server for the WebSocket too', async () => {
    const { authUrl, wsUrl } = desk.service;
    const inserted = await request(`${authUrl}/.well-known/oauth-protected-resource/connect`);
    expect(inserted.json).toMatchObject({ resource: wsUrl, authorization_servers: [authUrl] });
    const below = await request(`${authUrl}/connect/.well-known/oauth-protected-resource`);
    expect(below.text).toBe(inserted.text);
  });

  it('derives its addresses from configuration, never from the Host header', async () => {
    const { authUrl } = desk.service;
    const path = '/.well-known/oauth-authorization-server';
    const port = new URL(authUrl).port;
    const asked = await request(`${authUrl}${path}`, {
      headers: { host: `localhost:${port}`, 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'https' },
    });
    expect(asked.text).toBe((await request(`${authUrl}${path}`)).text);
  });

  it('publishes only public keys, each with use, alg and kid, and lets caches keep them', async () => {
    const answer = await request(desk.place.jwksUrl);
    expect(answer.headers['cache-control']).toMatch(/max-age=\d+/);
    const { keys } = answer.json as { keys: Record<string, unknown>[] };
    expect(keys).toHaveLength(1);
    expect(Object.keys(keys[0] ?? {}).sort()).toEqual(['alg', 'e', 'kid', 'kty', 'n', 'use']);
    expect(keys[0]).toMatchObject({ kty: 'RSA', use: 'sig', alg: 'RS256' });
    expect(Buffer.from(String(keys[0]?.['n']), 'base64url')).toHaveLength(256);
  });
});
