import { type Handle, isHandle, toHandle } from '../../wire/handle.js';
import { AUTHORIZATION_REQUEST_LIFETIME_S } from '../../wire/limit.js';
import type { Scope } from '../../wire/scope.js';
import type { ServiceContext } from '../core/context.js';
import type { Query } from '../core/database.js';
import { isRegisteredRedirectUri } from '../oauth/clients.js';
import { chooseScopes, type GrantedResources, grantResources, parseScopes } from '../oauth/metadata.js';
import { OAuthError, type Parameters } from '../oauth/parameters.js';
import { createSecret, hashSecret } from '../oauth/secret.js';
import {
  type AuthorizationRequestRow,
  findAuthorizationRequest,
  insertAuthorizationRequest,
} from '../store/authorizations.js';
import { findOAuthClient, type OAuthClientRow } from '../store/oauth-clients.js';

/** The S256 of a verifier (RFC 7636 §4.2). */
const CODE_CHALLENGE = /^[A-Za-z0-9_-]{43}$/;
const STATE_MAX_LENGTH = 4096;

/** Where the answer to an authorization request goes; known to be the client's own address. */
export interface AnswerAddress {
  readonly redirectUri: string;
  readonly state: string | null;
}

/** A valid authorization request (spec: GET authorization endpoint). */
export interface AuthorizationRequest extends AnswerAddress {
  readonly client: OAuthClientRow;
  readonly scopes: readonly Scope[];
  readonly codeChallenge: string;
  readonly resources: GrantedResources;
  readonly agentHandle: Handle | null;
  readonly intent: string | null;
}

export type ReadRequest =
  | { readonly kind: 'valid'; readonly request: AuthorizationRequest }
  | { readonly kind: 'refused'; readonly address: AnswerAddress; readonly error: OAuthError };

/**
 * Reads an authorization request. An unknown client or redirect URI throws, because nothing may be sent there. The
 * client gets every other mistake (RFC 6749 §4.1.2.1).
 */
export async function readAuthorizationRequest(
  context: ServiceContext,
  query: Query,
  parameters: Parameters,
): Promise<ReadRequest> {
  const client = await requireClient(query, parameters.one('client_id'));
  const redirectUri = requireRedirectUri(client, parameters.one('redirect_uri'));
  const address = { redirectUri, state: readState(parameters) };
  try {
    for (const check of CHECKS) check(parameters);
    return {
      kind: 'valid',
      request: {
        ...address,
        client,
        scopes: chooseScopes(parameters.one('scope'), parseScopes(client.scope)),
        codeChallenge: parameters.one('code_challenge') ?? '',
        resources: grantResources(parameters, context.settings.addresses),
        agentHandle: readAgentHandle(parameters),
        intent: parameters.one('intent') ?? null,
      },
    };
  } catch (error) {
    if (error instanceof OAuthError) return { kind: 'refused', address, error };
    throw error;
  }
}

/** Checked again when a person has answered: the client may have been removed in the meantime. */
export async function requireClient(query: Query, clientId: string | undefined): Promise<OAuthClientRow> {
  const client = clientId === undefined ? undefined : await findOAuthClient(query, clientId);
  if (client === undefined) {
    throw new OAuthError('invalid_client', 'This app is not registered here.', undefined, { status: 400 });
  }
  return client;
}

export function requireRedirectUri(client: OAuthClientRow, redirectUri: string | undefined): string {
  const registered = JSON.parse(client.redirect_uris) as string[];
  if (redirectUri === undefined || !isRegisteredRedirectUri(redirectUri, registered)) {
    throw new OAuthError('invalid_redirect_uri', 'The redirect address of this app is not registered.');
  }
  return redirectUri;
}

type Check = (parameters: Parameters) => void;

/** In this order; the first failure is the answer. */
const CHECKS: readonly Check[] = [
  function everyParameterOnce({ isRepeating }) {
    if (isRepeating) throw new OAuthError('invalid_request', 'A parameter was sent more than once.');
  },
  function stateIsShort(parameters) {
    if ((parameters.one('state') ?? '').length > STATE_MAX_LENGTH) {
      throw new OAuthError('invalid_request', 'The state parameter is too long.');
    }
  },
  function responseTypeIsCode(parameters) {
    const type = parameters.one('response_type');
    if (type === undefined) throw new OAuthError('invalid_request', 'The response_type parameter is missing.');
    if (type !== 'code') throw new OAuthError('unsupported_response_type', 'The response_type must be code.');
  },
  function responseModeIsQuery(parameters) {
    if ((parameters.one('response_mode') ?? 'query') !== 'query') {
      throw new OAuthError('invalid_request', 'The response_mode must be query.');
    }
  },
  function challengeIsS256(parameters) {
    const challenge = parameters.one('code_challenge');
    if (
      challenge === undefined ||
      !CODE_CHALLENGE.test(challenge) ||
      parameters.one('code_challenge_method') !== 'S256'
    ) {
      throw new OAuthError('invalid_request', 'An S256 code_challenge is required.');
    }
  },
];

function readState(parameters: Parameters): string | null {
  const [state, ...others] = parameters.every('state');
  return state === undefined || others.length > 0 || state.length > STATE_MAX_LENGTH ? null : state;
}

function readAgentHandle(parameters: Parameters): Handle | null {
  const requested = parameters.one('agent_handle');
  if (requested === undefined) return null;
  const handle = toHandle(requested);
  if (!isHandle(handle)) throw new OAuthError('invalid_request', 'The agent_handle is not a handle.');
  return handle;
}

/** Stores a request until the person has answered. Only this browser's pages know the id. */
export async function storeRequest(
  context: ServiceContext,
  request: AuthorizationRequest,
  browserHash: string,
): Promise<{ id: string; row: AuthorizationRequestRow }> {
  const id = createSecret(context.random, 'request');
  const row: AuthorizationRequestRow = {
    id_hash: hashSecret(id),
    browser_hash: browserHash,
    client_id: request.client.id,
    redirect_uri: request.redirectUri,
    scope: request.scopes.join(' '),
    state: request.state,
    code_challenge: request.codeChallenge,
    resources: JSON.stringify(request.resources),
    agent_handle: request.agentHandle,
    intent: request.intent,
    created_at: context.clock.now(),
  };
  await context.database.write((transaction) => insertAuthorizationRequest(transaction, row));
  return { id, row };
}

/** A request that this browser has not answered yet. It contains the client's request, whatever a form says. */
export async function requireStoredRequest(
  { clock }: ServiceContext,
  query: Query,
  browserHash: string | undefined,
  id: string | undefined,
): Promise<AuthorizationRequestRow> {
  const opened = clock.now() - AUTHORIZATION_REQUEST_LIFETIME_S * 1000;
  const row =
    id === undefined || browserHash === undefined
      ? undefined
      : await findAuthorizationRequest(query, hashSecret(id), browserHash, opened);
  if (row === undefined) throw answeredRequest();
  return row;
}

export function answeredRequest(): OAuthError {
  return new OAuthError('invalid_request', 'This request has expired or was already answered.');
}
