import { createHash } from 'node:crypto';
import { type Random, randomToken } from '../../kit/random.js';
import { isSameSecret } from '../../kit/same-secret.js';
import { secureUrl } from '../http/address.js';
import type { Discovery } from './discover.js';

const STATE_BYTES = 24;
const VERIFIER_BYTES = 48;

/** The contents of an authorization request. */
export interface AuthorizationWish {
  readonly clientId: string;
  /** A loopback redirect URI with its port (RFC 8252 §7.3). */
  readonly redirectUri: string;
  readonly scopes: readonly string[];
  /** Preselects this agent on the consent page, with its `@` (wire: OAuth). */
  readonly agentHandle?: string | undefined;
  readonly intent?: 'select_agent' | undefined;
}

/** An authorization request in progress; plain data, so that it can be stored between two commands. It is secret. */
export interface AuthorizationRequest {
  /** The address to open in a browser. */
  readonly url: string;
  readonly issuer: string;
  readonly clientId: string;
  readonly redirectUri: string;
  /** 192 random bits (RFC 6749 §10.10). */
  readonly state: string;
  /** 64 characters (RFC 7636 §4.1). */
  readonly codeVerifier: string;
  readonly scopes: readonly string[];
  /** Whether the answer must name its issuer (RFC 9207 §3). */
  readonly isIssuerExpected: boolean;
}

/**
 * Creates an authorization request with a fresh state and code verifier (RFC 7636 §4; spec: GET authorization
 * endpoint).
 */
export function createAuthorizationRequest(
  discovery: Discovery,
  wish: AuthorizationWish,
  random: Random,
): AuthorizationRequest {
  const state = randomToken(random, STATE_BYTES);
  const codeVerifier = randomToken(random, VERIFIER_BYTES);
  const url = secureUrl(discovery.metadata.authorization_endpoint, 'authorization endpoint');
  const parameters: Record<string, string | undefined> = {
    response_type: 'code',
    client_id: wish.clientId,
    redirect_uri: wish.redirectUri,
    code_challenge: createHash('sha256').update(codeVerifier).digest('base64url'),
    code_challenge_method: 'S256',
    scope: wish.scopes.join(' '),
    state,
    agent_handle: wish.agentHandle,
    intent: wish.intent,
  };
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined) url.searchParams.set(name, value);
  return {
    url: url.href,
    issuer: discovery.issuer,
    clientId: wish.clientId,
    redirectUri: wish.redirectUri,
    state,
    codeVerifier,
    scopes: wish.scopes,
    isIssuerExpected: discovery.metadata.authorization_response_iss_parameter_supported === true,
  };
}

/**
 * The result of a redirect. `foreign`: it does not belong to our request (its `state` is missing or belongs to another,
 * a parameter is repeated, its issuer is different, it carries neither code nor error): answer it and keep waiting.
 */
export type Callback =
  | { readonly kind: 'code'; readonly code: string; readonly issuer: string | undefined }
  | { readonly kind: 'refused'; readonly error: string }
  | { readonly kind: 'foreign'; readonly reason: 'address' | 'repeated' | 'state' | 'issuer' | 'incomplete' };

const READ_ONCE = ['state', 'iss', 'code', 'error'] as const;
const ERROR_CODE = /^[\x20-\x21\x23-\x5b\x5d-\x7e]{1,100}$/;

/**
 * Checks the address that a browser was sent to, or that a person pasted. It compares the state first, in constant
 * time, then the issuer (RFC 9207 §2.4), and only then looks at `code` and `error`.
 */
export function readCallback(request: AuthorizationRequest, address: string): Callback {
  const expected = new URL(request.redirectUri);
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || url.origin !== expected.origin || url.pathname !== expected.pathname)
    return { kind: 'foreign', reason: 'address' };
  const values = url.searchParams;
  if (READ_ONCE.some((name) => values.getAll(name).length > 1)) return { kind: 'foreign', reason: 'repeated' };
  if (!isSameSecret(values.get('state') ?? '', request.state)) return { kind: 'foreign', reason: 'state' };
  const issuer = values.get('iss') ?? undefined;
  if (issuer === undefined ? request.isIssuerExpected : issuer !== request.issuer)
    return { kind: 'foreign', reason: 'issuer' };
  const error = values.get('error');
  if (error !== null) return { kind: 'refused', error: ERROR_CODE.test(error) ? error : 'invalid_request' };
  const code = values.get('code');
  return code === null || code === '' ? { kind: 'foreign', reason: 'incomplete' } : { kind: 'code', code, issuer };
}
