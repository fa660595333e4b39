import type { Query } from '../../store/database.js';
import { findOAuthClient, type OAuthClientRow } from '../../store/oauth-client-rows.js';
import { OAuthError } from '../oauth-error.js';
import type { Parameters } from '../parameters.js';
import { hashSecret, isSameSecret } from '../secret.js';

/** The client of a token request, by `none` or `client_secret_post` (RFC 6749 §2.3; RFC 7591 §2). */
export async function authenticateClient(query: Query, parameters: Parameters): Promise<OAuthClientRow> {
  const clientId = parameters.one('client_id');
  const secret = parameters.one('client_secret');
  if (clientId === undefined) throw new OAuthError('invalid_request', 'The client_id parameter is missing.');
  const client = await findOAuthClient(query, clientId);
  if (client === undefined) throw invalidClient('unknown client');
  if (client.kind === 'public') requirePublicUse(parameters.one('grant_type'), secret);
  else if (secret === undefined || !isSameSecret(hashSecret(secret), client.secret_hash ?? '')) {
    throw invalidClient('wrong secret');
  }
  return client;
}

/** A public client has no secret, so one that is sent is wrong, and it cannot act for itself (RFC 6749 §4.4). */
function requirePublicUse(grantType: string | undefined, secret: string | undefined): void {
  if (grantType === 'client_credentials') {
    throw new OAuthError('unauthorized_client', 'This client cannot use the client_credentials grant.');
  }
  if (secret !== undefined) throw invalidClient('secret of a public client');
}

/** Basic is not offered (metadata: `none`, `client_secret_post`); two methods at once are a malformed request. */
export function refuseBasic(authorization: string | undefined, parameters: Parameters): void {
  if (authorization === undefined) return;
  if (parameters.one('client_secret') !== undefined) {
    throw new OAuthError('invalid_request', 'The client used two authentication methods at once.');
  }
  throw new OAuthError('invalid_client', 'Client authentication failed.', 'authorization header', {
    headers: { 'www-authenticate': 'Basic realm="token"' },
  });
}

export function invalidClient(detail: string): OAuthError {
  return new OAuthError('invalid_client', 'Client authentication failed.', detail);
}
