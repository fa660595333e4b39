import { createHash, randomBytes } from 'node:crypto';

import { type Answer, postForm, request } from './http.js';
import { field, list, text } from './json.js';

/** The published facts about a service, discovered from its base address alone. */
export interface Place {
  readonly baseUrl: string;
  readonly wsUrl: string;
  readonly issuer: string;
  readonly tokenUrl: string;
  readonly authorizeUrl: string;
  readonly registerUrl: string;
  readonly revokeUrl: string;
  readonly jwksUrl: string;
}

/** Follows the metadata from the REST resource to its authorization server (RFC 9728, RFC 8414). */
export async function discover(baseUrl: string): Promise<Place> {
  const resource = await request(`${baseUrl}/.well-known/oauth-protected-resource`);
  const issuer = text(resource.json, 'authorization_servers.0');
  const { json: server } = await request(`${issuer}/.well-known/oauth-authorization-server`);
  const resources = list(server, 'resource_servers').map((row) => text(row, 'resource'));
  const wsUrl = resources.find((address) => address.startsWith('ws'));
  if (wsUrl === undefined) throw new Error(`no socket among the resources ${resources.join(' ')}`);
  return {
    baseUrl,
    wsUrl,
    issuer,
    tokenUrl: text(server, 'token_endpoint'),
    authorizeUrl: text(server, 'authorization_endpoint'),
    registerUrl: text(server, 'registration_endpoint'),
    revokeUrl: text(server, 'revocation_endpoint'),
    jwksUrl: text(server, 'jwks_uri'),
  };
}

export interface ClientCredentials {
  readonly clientId: string;
  readonly clientSecret: string;
}

/** Requests a token for a confidential client and returns the whole answer. */
export function askClientToken(
  place: Place,
  { clientId, clientSecret }: ClientCredentials,
  resource: string | readonly string[],
  scope?: string,
): Promise<Answer> {
  return postForm(place.tokenUrl, {
    grant_type: 'client_credentials',
    client_id: clientId,
    client_secret: clientSecret,
    resource,
    scope,
  });
}

/** Creates a verifier and its challenge (RFC 7636 §4). */
export function createVerifier(length = 64): { readonly verifier: string; readonly challenge: string } {
  const verifier = randomBytes(96).toString('base64url').slice(0, length);
  return { verifier, challenge: challengeOf(verifier) };
}

export function challengeOf(verifier: string): string {
  return createHash('sha256').update(verifier).digest('base64url');
}

/** Decodes a JWT's claims without verifying them. */
export function claimsOf(token: string): unknown {
  return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'));
}

/** Decodes a JWT's header. */
export function headerOf(token: string): unknown {
  return JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString('utf8'));
}

export const AGENT_SCOPE = [
  'agents:read',
  'sessions:read',
  'sessions:write',
  'allowlist:read',
  'allowlist:write',
  'realtime:read',
] as const;

/** Registers a public client (RFC 7591). */
export function register(place: Place, overrides: Readonly<Record<string, unknown>> = {}): Promise<Answer> {
  return request(place.registerUrl, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      client_name: 'Conformance',
      redirect_uris: [REDIRECT_URI],
      grant_types: ['authorization_code', 'refresh_token'],
      token_endpoint_auth_method: 'none',
      scope: AGENT_SCOPE.join(' '),
      ...overrides,
    }),
  });
}

/** No program listens here. The tests read the redirect but never follow it. */
export const REDIRECT_URI = 'http://127.0.0.1:49152/callback';

export async function mustRegister(place: Place, overrides: Readonly<Record<string, unknown>> = {}): Promise<string> {
  const answer = await register(place, overrides);
  if (answer.status !== 201) throw new Error(`registration was refused: ${answer.status} ${answer.text}`);
  return text(answer.json, 'client_id');
}

export interface AuthorizationParameters {
  readonly clientId: string;
  readonly challenge: string;
  readonly redirectUri?: string;
  readonly scope?: string;
  readonly state?: string;
  readonly agentHandle?: string;
  /** Replaces parameters, or removes them with undefined. */
  readonly overrides?: Readonly<Record<string, string | undefined>>;
}

/** Returns the address to which a client sends the browser. */
export function authorizationUrl(place: Place, parameters: AuthorizationParameters): string {
  const url = new URL(place.authorizeUrl);
  const values: Record<string, string | undefined> = {
    response_type: 'code',
    client_id: parameters.clientId,
    redirect_uri: parameters.redirectUri ?? REDIRECT_URI,
    code_challenge: parameters.challenge,
    code_challenge_method: 'S256',
    scope: parameters.scope ?? AGENT_SCOPE.join(' '),
    state: parameters.state ?? 'the-state',
    agent_handle: parameters.agentHandle,
    ...parameters.overrides,
  };
  for (const [name, value] of Object.entries(values)) if (value !== undefined) url.searchParams.append(name, value);
  return url.toString();
}

export function redeemCode(
  place: Place,
  clientId: string,
  code: string,
  verifier: string,
  overrides: Readonly<Record<string, string | readonly string[] | undefined>> = {},
): Promise<Answer> {
  return postForm(place.tokenUrl, {
    grant_type: 'authorization_code',
    client_id: clientId,
    code,
    code_verifier: verifier,
    redirect_uri: REDIRECT_URI,
    resource: place.baseUrl,
    ...overrides,
  });
}

export function refresh(
  place: Place,
  clientId: string,
  refreshToken: string,
  overrides: Readonly<Record<string, string | readonly string[] | undefined>> = {},
): Promise<Answer> {
  return postForm(place.tokenUrl, {
    grant_type: 'refresh_token',
    client_id: clientId,
    refresh_token: refreshToken,
    resource: place.baseUrl,
    ...overrides,
  });
}

export function revoke(place: Place, clientId: string, token: string, hint = 'refresh_token'): Promise<Answer> {
  return postForm(place.revokeUrl, { client_id: clientId, token, token_type_hint: hint });
}

/** Returns the parameters that a redirect carries to the client. */
export function redirectParameters(answer: Answer): URLSearchParams {
  const location = answer.headers['location'];
  if (location === undefined) throw new Error(`no redirect but ${answer.status}: ${answer.text.slice(0, 500)}`);
  return new URL(location).searchParams;
}

/** Whether a JSON answer is an OAuth error with this name. */
export function isOAuthError(answer: Answer, error: string): boolean {
  return field(answer.json, 'error') === error;
}
