import { type Handle, isHandle } from '../../../wire/handle.js';
import { isAccountScope, type Scope } from '../../../wire/scope.js';
import type { ServiceContext } from '../../context.js';
import type { Query } from '../../store/database.js';
import { findOAuthClient, type OAuthClientRow } from '../../store/oauth-client-rows.js';
import { OAuthError } from '../oauth-error.js';
import type { Parameters } from '../parameters.js';
import { isRegisteredRedirectUri } from '../redirect-uri.js';
import { chooseResources, listResources } from '../requested-resource.js';
import { isForAccount, narrowScopes, parseScopes } from '../requested-scope.js';
import { isCodeChallenge } from '../token/code-verifier.js';

const STATE_MAX_LENGTH = 4096;

/** Where the answer of an authorization goes: known to be the client's own. */
export interface AnswerAddress {
  readonly redirectUri: string;
  readonly state: string | null;
}

/** An authorization request in which everything is in order (spec: GET authorization endpoint). */
export interface AuthorizationRequest extends AnswerAddress {
  readonly client: OAuthClientRow;
  readonly scopes: readonly Scope[];
  readonly codeChallenge: string;
  readonly resources: readonly string[];
  readonly agentHandle: Handle | null;
  readonly intent: string | null;
}

export type ReadRequest =
  | { readonly kind: 'valid'; readonly request: AuthorizationRequest }
  | { readonly kind: 'refused'; readonly address: AnswerAddress; readonly error: OAuthError };

/**
 * Reads an authorization request. A client or a redirect URI that is not known to be right throws: nothing may be sent
 * there. Whatever else is wrong is for the client to hear (RFC 6749 §4.1.2.1).
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
        scopes: chooseScopes(parameters, client),
        codeChallenge: parameters.one('code_challenge') ?? '',
        resources: chooseResources(parameters, listResources(context.settings.addresses)),
        agentHandle: readAgentHandle(parameters),
        intent: parameters.one('intent') ?? null,
      },
    };
  } catch (error) {
    if (error instanceof OAuthError) return { kind: 'refused', address, error };
    throw error;
  }
}

/** Checked again when a person has answered: a client may have gone meanwhile. */
export async function requireClient(query: Query, clientId: string | undefined): Promise<OAuthClientRow> {
  const client = clientId === undefined ? undefined : await findOAuthClient(query, clientId);
  if (client === undefined) {
    throw new OAuthError('invalid_client', 'The application is not registered here.', undefined, { status: 400 });
  }
  return client;
}

export function requireRedirectUri(client: OAuthClientRow, redirectUri: string | undefined): string {
  const registered = JSON.parse(client.redirect_uris) as string[];
  if (redirectUri === undefined || !isRegisteredRedirectUri(redirectUri, registered)) {
    throw new OAuthError('invalid_redirect_uri', 'The application asked for an answer at an unregistered address.');
  }
  return redirectUri;
}

type Check = (parameters: Parameters) => void;

/** In this order; the first that fails is the answer. */
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
    if (challenge === undefined || !isCodeChallenge(challenge) || parameters.one('code_challenge_method') !== 'S256') {
      throw new OAuthError('invalid_request', 'An S256 code_challenge is needed.');
    }
  },
];

function readState(parameters: Parameters): string | null {
  const [state, ...others] = parameters.every('state');
  return state === undefined || others.length > 0 || state.length > STATE_MAX_LENGTH ? null : state;
}

/** Those of an agent or those of an account; when nothing is asked for, the agent scopes that the client registered. */
function chooseScopes(parameters: Parameters, client: OAuthClientRow): readonly Scope[] {
  const registered = parseScopes(client.scope);
  const requested = parameters.one('scope');
  const forAgents = registered.filter((scope) => !isAccountScope(scope));
  const scopes = requested === undefined && forAgents.length > 0 ? forAgents : narrowScopes(requested, registered);
  if (!isForAccount(scopes) && scopes.some(isAccountScope)) {
    throw new OAuthError('invalid_scope', 'Scopes of an account and of an agent need two authorizations.');
  }
  return scopes;
}

function readAgentHandle(parameters: Parameters): Handle | null {
  const given = parameters.one('agent_handle');
  if (given === undefined) return null;
  const handle = given.startsWith('@') ? given : `@${given}`;
  if (!isHandle(handle)) throw new OAuthError('invalid_request', 'The agent_handle is not a handle.');
  return handle;
}
