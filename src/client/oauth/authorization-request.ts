import { createHash } from 'node:crypto';

import { type Random, randomToken } from '../../kit/random.js';
import { secureUrl } from '../http/address.js';
import type { Discovery } from './discover.js';

const STATE_BYTES = 24;
const VERIFIER_BYTES = 48;

/** What an authorization request asks for. */
export interface AuthorizationWish {
  readonly clientId: string;
  /** A loopback redirect URI with its port (RFC 8252 §7.3). */
  readonly redirectUri: string;
  readonly scopes: readonly string[];
  /** Preselects this agent on the consent page, with its `@` (wire: OAuth). */
  readonly agentHandle?: string | undefined;
  readonly intent?: 'select_agent' | undefined;
}

/** An authorization request under way; plain data, so that it can be kept between two commands. It is secret. */
export interface AuthorizationRequest {
  /** The address to open in a browser. */
  readonly url: string;
  readonly issuer: string;
  readonly clientId: string;
  readonly redirectUri: string;
  /** 192 bits of chance (RFC 6749 §10.10). */
  readonly state: string;
  /** 64 characters (RFC 7636 §4.1). */
  readonly codeVerifier: string;
  readonly scopes: readonly string[];
  /** Whether the answer must name its issuer (RFC 9207 §3). */
  readonly isIssuerExpected: boolean;
}

/** Makes an authorization request with a fresh state and code verifier (RFC 7636 §4; spec: GET authorization endpoint). */
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
