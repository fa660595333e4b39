import { createHash, timingSafeEqual } from 'node:crypto';

import type { AuthorizationRequest } from './authorization-request.js';

/**
 * What a redirect brought. `foreign`: it does not belong to our request (its `state` is missing or another's, a parameter
 * is repeated, its issuer is another's, it carries neither code nor error): answer it and go on waiting.
 */
export type Callback =
  | { readonly kind: 'code'; readonly code: string; readonly issuer: string | undefined }
  | { readonly kind: 'refused'; readonly error: string }
  | { readonly kind: 'foreign'; readonly reason: 'address' | 'repeated' | 'state' | 'issuer' | 'incomplete' };

const READ_ONCE = ['state', 'iss', 'code', 'error'] as const;
const ERROR_CODE = /^[\x20-\x21\x23-\x5b\x5d-\x7e]{1,100}$/;

/**
 * Judges the address that a browser was sent to, or that a person pasted. The state is compared first, in constant time,
 * then the issuer (RFC 9207 §2.4), and only then are `code` and `error` looked at.
 */
export function readCallback(request: AuthorizationRequest, address: string): Callback {
  const expected = new URL(request.redirectUri);
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || url.origin !== expected.origin || url.pathname !== expected.pathname)
    return { kind: 'foreign', reason: 'address' };
  const values = url.searchParams;
  if (READ_ONCE.some((name) => values.getAll(name).length > 1)) return { kind: 'foreign', reason: 'repeated' };
  if (!isSame(values.get('state') ?? '', request.state)) return { kind: 'foreign', reason: 'state' };
  const issuer = values.get('iss') ?? undefined;
  if (issuer === undefined ? request.isIssuerExpected : issuer !== request.issuer)
    return { kind: 'foreign', reason: 'issuer' };
  const error = values.get('error');
  if (error !== null) return { kind: 'refused', error: ERROR_CODE.test(error) ? error : 'invalid_request' };
  const code = values.get('code');
  return code === null || code === '' ? { kind: 'foreign', reason: 'incomplete' } : { kind: 'code', code, issuer };
}

function isSame(given: string, expected: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(given), digest(expected));
}
