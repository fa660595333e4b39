import { AUTHORIZATION_REQUEST_LIFETIME_S } from '../../../wire/limit.js';
import type { ServiceContext } from '../../context.js';
import {
  type AuthorizationRequestRow,
  findAuthorizationRequest,
  insertAuthorizationRequest,
} from '../../store/authorization-rows.js';
import type { Query } from '../../store/database.js';
import type { Browser } from '../account/browser.js';
import { OAuthError } from '../oauth-error.js';
import { createSecret, hashSecret } from '../secret.js';
import type { AuthorizationRequest } from './authorization-request.js';

/** Keeps a request until the person has answered; the id is known to this browser's pages alone. */
export async function storeRequest(
  context: ServiceContext,
  request: AuthorizationRequest,
  browser: Browser,
): Promise<{ id: string; row: AuthorizationRequestRow }> {
  const id = createSecret(context.random, 'request');
  const row: AuthorizationRequestRow = {
    id_hash: hashSecret(id),
    browser_hash: browser.hash,
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

/** A request that this browser has yet to answer. Everything in it is what the client asked for, whatever a form says. */
export async function requireStoredRequest(
  { clock }: ServiceContext,
  query: Query,
  browser: Browser | undefined,
  id: string | undefined,
): Promise<AuthorizationRequestRow> {
  const opened = clock.now() - AUTHORIZATION_REQUEST_LIFETIME_S * 1000;
  const row =
    id === undefined || browser === undefined
      ? undefined
      : await findAuthorizationRequest(query, hashSecret(id), browser.hash, opened);
  if (row === undefined) throw answeredRequest();
  return row;
}

export function answeredRequest(): OAuthError {
  return new OAuthError('invalid_request', 'This request has expired or was answered already.');
}
