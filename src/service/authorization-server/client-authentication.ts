import { OAuthError } from './oauth-error.js';
import type { Parameters } from './parameters.js';

const BASIC = /^Basic +([A-Za-z0-9+/]+={0,2}) *$/i;

/** The client that a request to the token or revocation endpoint names, before anything is verified. */
export interface PresentedClient {
  readonly id: string;
  readonly secret: string | undefined;
  /** The Authorization header named it, so a refusal must carry a challenge (RFC 6749 §5.2). */
  readonly isBasic: boolean;
}

/**
 * Reads the client from HTTP Basic or from the form (RFC 6749 §2.3.1). Two methods at once are a malformed request. A
 * `client_id` in the form beside Basic is not a method, and many libraries send it.
 */
export function readPresentedClient(authorization: string | undefined, parameters: Parameters): PresentedClient {
  const id = parameters.one('client_id');
  const secret = parameters.one('client_secret');
  if (authorization === undefined) {
    if (id === undefined) throw new OAuthError('invalid_request', 'The client_id parameter is missing.');
    return { id, secret, isBasic: false };
  }
  if (secret !== undefined)
    throw new OAuthError('invalid_request', 'The client used two authentication methods at once.');
  const basic = readBasic(authorization);
  if (basic === undefined) throw invalidClient('malformed Authorization header', { isBasic: true });
  if (id !== undefined && id !== basic.id)
    throw new OAuthError('invalid_request', 'The client_id is not the one in the Authorization header.');
  return { ...basic, isBasic: true };
}

/** Client authentication failed. A client that used the Authorization header gets a challenge for that scheme. */
export function invalidClient(detail: string, { isBasic }: Pick<PresentedClient, 'isBasic'>): OAuthError {
  const headers = isBasic ? { 'www-authenticate': 'Basic realm="token", charset="UTF-8"' } : {};
  return new OAuthError('invalid_client', 'Client authentication failed.', detail, { headers });
}

/** Both halves are form-encoded (RFC 6749 §2.3.1). Libraries send an empty password for a public client. */
function readBasic(authorization: string): { id: string; secret: string | undefined } | undefined {
  const encoded = BASIC.exec(authorization)?.[1];
  if (encoded === undefined) return undefined;
  const [, id, secret] = /^([^:]+):(.*)$/s.exec(Buffer.from(encoded, 'base64').toString('utf8')) ?? [];
  if (id === undefined || secret === undefined) return undefined;
  try {
    return { id: decodeForm(id), secret: secret === '' ? undefined : decodeForm(secret) };
  } catch (error) {
    if (error instanceof URIError) return undefined;
    throw error;
  }
}

function decodeForm(text: string): string {
  return decodeURIComponent(text.replaceAll('+', ' '));
}
