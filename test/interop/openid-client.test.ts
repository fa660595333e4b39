import * as client from 'openid-client';
import { expect, it } from 'vitest';

import { useService } from '../conformance/service.js';
import { approve, freeRedirectUri, mustTalk } from './stage.js';

const service = useService();
const insecure: client.DiscoveryRequestOptions = { execute: [client.allowInsecureRequests], algorithm: 'oauth2' };

it('openid-client registers, signs in with PKCE, refreshes, revokes and gets events', async () => {
  const { issuer, baseUrl, wsUrl } = service.place;
  const redirectUri = await freeRedirectUri();
  const config = await client.dynamicClientRegistration(
    new URL(issuer),
    { client_name: 'openid-client', redirect_uris: [redirectUri], token_endpoint_auth_method: 'none' },
    client.None(),
    insecure,
  );
  const verifier = client.randomPKCECodeVerifier();
  const state = client.randomState();
  const url = client.buildAuthorizationUrl(config, {
    redirect_uri: redirectUri,
    scope: config.serverMetadata().scopes_supported?.join(' ') ?? '',
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    state,
  });
  const { callback, handle } = await approve(url);
  const checks = { pkceCodeVerifier: verifier, expectedState: state };
  const first = await client.authorizationCodeGrant(config, callback, checks);
  expect(first.scope?.split(' ')).not.toContain('account:read');

  const next = await client.refreshTokenGrant(config, first.refresh_token ?? '');
  const socket = await client.refreshTokenGrant(config, next.refresh_token ?? '', { resource: wsUrl });
  await mustTalk(service.place, handle, { rest: next.access_token, socket: socket.access_token });
  const own = await client.fetchProtectedResource(config, next.access_token, new URL(`${baseUrl}/agents/me`), 'GET');
  expect(own.status).toBe(200);

  await client.tokenRevocation(config, socket.refresh_token ?? '');
  await expect(client.refreshTokenGrant(config, socket.refresh_token ?? '')).rejects.toMatchObject({
    error: 'invalid_client',
  });
});

it.each([
  ['in the form', client.ClientSecretPost],
  ['in the header', client.ClientSecretBasic],
])('openid-client gets a token by client credentials with its secret %s', async (_where, authenticate) => {
  const alice = await service.actor('alice');
  const { clientId, clientSecret } = alice.credentials;
  const { issuer, wsUrl } = service.place;
  const config = await client.discovery(new URL(issuer), clientId, undefined, authenticate(clientSecret), insecure);
  const rest = await client.clientCredentialsGrant(config);
  const socket = await client.clientCredentialsGrant(config, { resource: wsUrl });
  await mustTalk(service.place, alice.handle, { rest: rest.access_token, socket: socket.access_token });
});
