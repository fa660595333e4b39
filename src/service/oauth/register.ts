import type { FastifyReply, FastifyRequest } from 'fastify';
import { ID_PREFIX } from '../../wire/id.js';
import { RegistrationRequest } from '../../wire/schemas/oauth.js';
import { insertOAuthClient, type OAuthClientRow } from '../store/oauth-clients.js';
import { isRegistrableRedirectUri } from './clients.js';
import { grantableScope } from './metadata.js';
import { getBody, OAuthError } from './parameters.js';
import { type AuthorizationServer, takeForAddress } from './server.js';
import { makeRoom } from './unused-clients.js';

/** The grant types of every registered client. A client that asks for fewer gets these too (RFC 7591 §2). */
const GRANTED_TYPES: readonly string[] = ['authorization_code', 'refresh_token'];
const UNNAMED = 'Unnamed application';

/** POST /register: registers a public client (spec: POST /register; RFC 7591 §3). Unknown members have no effect. */
export async function answerRegister(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { context } = server;
  await takeForAddress(context, 'registerClient', request);
  const registration = readRegistration(getBody(request));
  const scope = grantableScope(registration.scope);
  if (scope === undefined) throw invalidMetadata('None of the requested scopes is known.');
  const now = context.clock.now();
  const row: OAuthClientRow = {
    id: `${ID_PREFIX.oauthClient}${context.ids.ulid()}`,
    kind: 'public',
    name: registration.client_name?.trim() || UNNAMED,
    redirect_uris: JSON.stringify(registration.redirect_uris),
    scope,
    secret_hash: null,
    old_secret_hash: null,
    old_secret_until: null,
    expires_at: null,
    account_id: null,
    agent_id: null,
    created_at: now,
    last_used_at: null,
    revoked_at: null,
  };
  await context.database.write(async (transaction) => {
    await makeRoom(transaction, now);
    await insertOAuthClient(transaction, row);
  });
  return reply.code(201).send({
    client_id: row.id,
    client_id_issued_at: Math.floor(now / 1000),
    client_name: row.name,
    redirect_uris: registration.redirect_uris,
    grant_types: GRANTED_TYPES,
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    scope,
  });
}

function readRegistration(body: string): RegistrationRequest {
  const registration = RegistrationRequest.safeParse(parseJson(body));
  if (!registration.success) {
    const isAboutUris = registration.error.issues.some((issue) => issue.path[0] === 'redirect_uris');
    if (isAboutUris) throw invalidRedirectUri();
    throw invalidMetadata('A member of the client metadata is malformed.');
  }
  const { redirect_uris, grant_types, response_types, token_endpoint_auth_method } = registration.data;
  if (!redirect_uris.every(isRegistrableRedirectUri)) throw invalidRedirectUri();
  const types = grant_types ?? GRANTED_TYPES;
  if (!types.includes('authorization_code') || !types.every((type) => GRANTED_TYPES.includes(type))) {
    throw invalidMetadata('grant_types may contain only authorization_code and refresh_token.');
  }
  if (response_types?.some((type) => type !== 'code') === true) throw invalidMetadata('response_types must be code.');
  if ((token_endpoint_auth_method ?? 'none') !== 'none') {
    throw invalidMetadata('token_endpoint_auth_method must be none.');
  }
  return registration.data;
}

function parseJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch (error) {
    if (error instanceof SyntaxError) throw invalidMetadata('The body is not JSON.');
    throw error;
  }
}

function invalidRedirectUri(): OAuthError {
  return new OAuthError(
    'invalid_redirect_uri',
    'redirect_uris must contain one to ten URIs: https, http to this machine, or a scheme such as com.example.app.',
  );
}

function invalidMetadata(description: string): OAuthError {
  return new OAuthError('invalid_client_metadata', description);
}
