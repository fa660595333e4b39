import * as oauth from 'oauth4webapi';
import { expect, it } from 'vitest';

import { useService } from '../conformance/service.js';
import { approve, freeRedirectUri, mustTalk } from './stage.js';

const service = useService();
const insecure = { [oauth.allowInsecureRequests]: true } as const;

/** Goes from the address of the REST API to the metadata of its authorization server (RFC 9728, RFC 8414). */
async function discover(): Promise<oauth.AuthorizationServer> {
  const resource = new URL(service.place.baseUrl);
  const found = await oauth.processResourceDiscoveryResponse(
    resource,
    await oauth.resourceDiscoveryRequest(resource, insecure),
  );
  const issuer = new URL(found.authorization_servers?.[0] ?? '');
  const answer = await oauth.discoveryRequest(issuer, { ...insecure, algorithm: 'oauth2' });
  return oauth.processDiscoveryResponse(issuer, answer);
}

/** Checks a token as a resource server that follows RFC 9068 does. */
const validate = (server: oauth.AuthorizationServer, token: string, audience: string) =>
  oauth.validateJwtAccessToken(
    server,
    new Request(audience.replace(/^ws/, 'http'), { headers: { authorization: `Bearer ${token}` } }),
    audience,
    insecure,
  );

it('oauth4webapi finds the server from the REST API, registers, signs in with PKCE, refreshes and gets events', async () => {
  const { baseUrl, wsUrl } = service.place;
  const server = await discover();
  const redirectUri = await freeRedirectUri('localhost');
  const registered = await oauth.processDynamicClientRegistrationResponse(
    await oauth.dynamicClientRegistrationRequest(
      server,
      { client_name: 'oauth4webapi', redirect_uris: [redirectUri], token_endpoint_auth_method: 'none' },
      insecure,
    ),
  );
  const own: oauth.Client = { client_id: registered.client_id };
  const verifier = oauth.generateRandomCodeVerifier();
  const state = oauth.generateRandomState();
  const url = new URL(server.authorization_endpoint ?? '');
  url.search = new URLSearchParams({
    response_type: 'code',
    client_id: own.client_id,
    redirect_uri: redirectUri,
    scope: 'agents:read sessions:read sessions:write realtime:read',
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    state,
  }).toString();
  const { callback, handle } = await approve(url);

  const parameters = oauth.validateAuthResponse(server, own, callback, state);
  const first = await oauth.processAuthorizationCodeResponse(
    server,
    own,
    await oauth.authorizationCodeGrantRequest(server, own, oauth.None(), parameters, redirectUri, verifier, insecure),
  );
  const refresh = async (token: string | undefined, resource: string) =>
    oauth.processRefreshTokenResponse(
      server,
      own,
      await oauth.refreshTokenGrantRequest(server, own, oauth.None(), token ?? '', {
        ...insecure,
        additionalParameters: { resource },
      }),
    );
  const rest = await refresh(first.refresh_token, baseUrl);
  const socket = await refresh(rest.refresh_token, wsUrl);
  await mustTalk(service.place, handle, { rest: rest.access_token, socket: socket.access_token });

  const claims = await validate(server, rest.access_token, baseUrl);
  expect(claims).toMatchObject({ client_id: own.client_id, aud: baseUrl });
  expect(await validate(server, socket.access_token, wsUrl)).toMatchObject({ aud: wsUrl });
  await expect(validate(server, rest.access_token, wsUrl)).rejects.toThrow();
});

it('oauth4webapi gets a token by client credentials in the header, every character encoded', async () => {
  const alice = await service.actor('alice');
  const server = await discover();
  const own: oauth.Client = { client_id: alice.credentials.clientId };
  const ask = async (secret: string, resource: string) =>
    oauth.processClientCredentialsResponse(
      server,
      own,
      await oauth.clientCredentialsGrantRequest(server, own, oauth.ClientSecretBasic(secret), { resource }, insecure),
    );
  const { clientSecret } = alice.credentials;
  const rest = await ask(clientSecret, service.place.baseUrl);
  const socket = await ask(clientSecret, service.place.wsUrl);
  await mustTalk(service.place, alice.handle, { rest: rest.access_token, socket: socket.access_token });
  await expect(ask('wrong', service.place.baseUrl)).rejects.toMatchObject({
    name: 'WWWAuthenticateChallengeError',
    status: 401,
  });
});

it('oauth4webapi reads the challenge of a refused call', async () => {
  const answer = await oauth
    .protectedResourceRequest(
      'not-a-token',
      'GET',
      new URL(`${service.place.baseUrl}/agents/me`),
      undefined,
      undefined,
      insecure,
    )
    .catch((error: unknown) => error);
  expect(answer).toMatchObject({
    name: 'WWWAuthenticateChallengeError',
    cause: [
      {
        scheme: 'bearer',
        parameters: {
          error: 'invalid_token',
          resource_metadata: `${service.place.baseUrl}/.well-known/oauth-protected-resource`,
        },
      },
    ],
  });
});
