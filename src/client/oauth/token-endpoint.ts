import type * as openid from 'openid-client';
import { isLoopbackHost } from '../../kit/loopback.js';
import { parseIfJson } from '../../kit/parse-json.js';
import type { Random } from '../../kit/random.js';
import { ACCESS_TOKEN_LIFETIME_S } from '../../wire/limit.js';
import { OAuthErrorBody, TokenReply } from '../../wire/schemas/oauth.js';
import { type Outcome, RequestError } from '../http/request-error.js';
import { describeRequest, readRequestId, type Sending, type Sent, sendWithRetries } from '../http/send.js';
import type { Transport } from '../http/transport.js';
import type { AuthorizationRequest } from './authorization-request.js';
import type { Discovery } from './discover.js';

const ANSWER_MAX_BYTES = 256 * 1024;
const ERROR_CODE = /^[a-z_]{1,64}$/;

/** Dependencies of token requests. */
export interface OAuthContext {
  readonly transport: Transport;
  readonly random: Random;
  readonly discovery: Discovery;
  /** Retries; none by default. */
  readonly retries?: number | undefined;
  /** On the transport's monotonic clock: a wait that would pass it is not started. */
  readonly deadline?: number | undefined;
}

type Grant = openid.TokenEndpointResponse;

/** Exchanges a code (RFC 6749 §4.1.3). There is only one attempt, because a code works once. @throws RequestError */
export async function exchangeCode(
  context: OAuthContext,
  request: AuthorizationRequest,
  callback: { readonly code: string; readonly issuer: string | undefined },
  resource: string,
  signal?: AbortSignal,
): Promise<TokenSet> {
  const { config, library } = await configure({ ...context, retries: 0 }, request.clientId, undefined, signal);
  const url = new URL(request.redirectUri);
  url.searchParams.set('code', callback.code);
  url.searchParams.set('state', request.state);
  if (callback.issuer !== undefined) url.searchParams.set('iss', callback.issuer);
  const checks = { pkceCodeVerifier: request.codeVerifier, expectedState: request.state };
  return grant(context, () => library.authorizationCodeGrant(config, url, checks, { resource }));
}

/** Renews a token set (RFC 6749 §6); `scopes` may only narrow. @throws RequestError `invalid_client`, `invalid_grant` … */
export async function refreshTokens(
  context: OAuthContext,
  login: { readonly clientId: string; readonly refreshToken: string },
  resource: string,
  options: { readonly scopes?: readonly string[] | undefined; readonly signal?: AbortSignal | undefined },
): Promise<TokenSet> {
  const { config, library } = await configure(context, login.clientId, undefined, options.signal);
  const scope = options.scopes === undefined ? {} : { scope: options.scopes.join(' ') };
  return grant(context, () => library.refreshTokenGrant(config, login.refreshToken, { resource, ...scope }));
}

/** Gets a token as a confidential client, bound to one agent (RFC 6749 §4.4; spec: Flows). @throws RequestError */
export async function requestClientCredentials(
  context: OAuthContext,
  client: { readonly clientId: string; readonly clientSecret: string; readonly scopes?: readonly string[] | undefined },
  resource: string,
  signal?: AbortSignal,
): Promise<TokenSet> {
  const { config, library } = await configure(context, client.clientId, client.clientSecret, signal);
  const scope = client.scopes === undefined ? {} : { scope: client.scopes.join(' ') };
  return grant(context, () => library.clientCredentialsGrant(config, { resource, ...scope }));
}

/** Revokes the family of a refresh token (RFC 7009 §2; spec: POST /revoke). @throws RequestError */
export async function revokeRefreshToken(
  context: OAuthContext,
  login: { readonly clientId: string; readonly refreshToken: string },
  signal?: AbortSignal,
): Promise<void> {
  if (context.discovery.metadata.revocation_endpoint === undefined)
    throw new RequestError({ code: 'ASP_DISCOVERY', message: 'The authorization server does not support revocation.' });
  const { config, library } = await configure(context, login.clientId, undefined, signal);
  const revoke = library.tokenRevocation(config, login.refreshToken, { token_type_hint: 'refresh_token' });
  await revoke.catch((error: unknown) => Promise.reject(translate(error)));
}

/**
 * openid-client on our own transport, loaded by the first token request. Unsuccessful answers never reach it: they
 * become errors that carry only the parsed OAuth code and nothing else of the body.
 */
async function configure(context: OAuthContext, clientId: string, secret: string | undefined, signal?: AbortSignal) {
  const library = await import('openid-client');
  const { metadata, issuer } = context.discovery;
  const authentication = secret === undefined ? library.None() : library.ClientSecretPost(secret);
  const { authorization_endpoint, token_endpoint, revocation_endpoint } = metadata;
  const isIssuerNamed = metadata.authorization_response_iss_parameter_supported;
  const server: openid.ServerMetadata = {
    issuer,
    authorization_endpoint,
    token_endpoint,
    ...(revocation_endpoint === undefined ? {} : { revocation_endpoint }),
    ...(isIssuerNamed === undefined ? {} : { authorization_response_iss_parameter_supported: isIssuerNamed }),
  };
  const config = new library.Configuration(server, clientId, {}, authentication);
  config[library.customFetch] = (url, options) => answerFetch(context, url, options, signal);
  if (isLoopbackHost(new URL(metadata.token_endpoint).hostname)) library.allowInsecureRequests(config);
  return { config, library };
}

async function answerFetch(
  context: OAuthContext,
  url: string,
  options: openid.CustomFetchOptions,
  signal?: AbortSignal,
): Promise<Response> {
  const sending: Sending = {
    method: 'POST',
    url,
    headers: { accept: 'application/json', 'content-type': 'application/x-www-form-urlencoded' },
    body: String(options.body ?? ''),
    isRepeatable: true,
    retries: context.retries ?? 0,
    deadline: context.deadline,
    maxBytes: ANSWER_MAX_BYTES,
    signal,
  };
  const sent = await sendWithRetries(context.transport, context.random, sending);
  if (sent.answer.status !== 200) throw oauthFailure(sent, sending);
  return new Response(new Uint8Array(sent.answer.body), {
    status: 200,
    headers: { 'content-type': sent.answer.headers['content-type'] ?? '' },
  });
}

/** The error of a token, registration or revocation answer, based on its parsed code alone (RFC 6749 §5.2). */
export function oauthFailure(sent: Sent, sending: Sending): RequestError {
  const { status } = sent.answer;
  const context = {
    status,
    requestId: readRequestId(sent.answer.headers),
    attempts: sent.attempts,
    outcome: sent.outcome,
    retryAfterMs: sent.retryAfterMs,
    request: describeRequest(sending),
  };
  const code = parseOAuthCode(sent);
  if (code !== undefined)
    return new RequestError({
      code,
      oauthError: code,
      message: `The authorization server answered with ${code}.`,
      isRetryable: status >= 500 || status === 429,
      ...context,
    });
  if (status === 429)
    return new RequestError({ code: 'RATE_LIMITED', message: 'The authorization server is busy.', ...context });
  const message = `The authorization server answered with ${status}, which is not an OAuth answer.`;
  return new RequestError({ code: status >= 500 ? 'INTERNAL_ERROR' : 'ASP_BAD_ANSWER', message, ...context });
}

function parseOAuthCode(sent: Sent): string | undefined {
  if (sent.answer.status < 400 || sent.answer.headers['content-type']?.includes('json') !== true) return undefined;
  const { data } = OAuthErrorBody.safeParse(parseIfJson(sent.answer.body.toString('utf8')));
  return data !== undefined && ERROR_CODE.test(data.error) ? data.error : undefined;
}

async function grant(context: OAuthContext, request: () => Promise<Grant>): Promise<TokenSet> {
  const obtainedAtMs = context.transport.clock.now();
  const answer = await request().catch((error: unknown) => Promise.reject(translate(error)));
  const parsed = TokenReply.safeParse({ ...answer, expires_in: answer.expires_in ?? ACCESS_TOKEN_LIFETIME_S });
  if (!parsed.success || parsed.data.token_type.toLowerCase() !== 'bearer') throw notUnderstood('applied');
  const { access_token, expires_in, scope, refresh_token, agent_handle } = parsed.data;
  const handle = agent_handle === undefined ? undefined : `@${agent_handle.replace(/^@/, '')}`;
  const lifetimeS = Number.isFinite(expires_in) && expires_in > 0 ? expires_in : ACCESS_TOKEN_LIFETIME_S;
  return { accessToken: access_token, expiresInS: lifetimeS, obtainedAtMs, scope, refreshToken: refresh_token, handle };
}

function translate(error: unknown): RequestError {
  for (let link: unknown = error; link instanceof Error; link = link.cause)
    if (link instanceof RequestError) return link;
  return notUnderstood('unknown');
}

function notUnderstood(outcome: Outcome): RequestError {
  return new RequestError({
    code: 'ASP_BAD_ANSWER',
    message: 'Could not parse the answer of the authorization server.',
    isRetryable: false,
    outcome,
  });
}

/** The result of a token request (spec: POST /token). */
export interface TokenSet {
  readonly accessToken: string;
  /** `expires_in`, in seconds. */
  readonly expiresInS: number;
  /** When it was requested, in epoch milliseconds by this machine's clock; the lifetime counts from here. */
  readonly obtainedAtMs: number;
  readonly scope: string | undefined;
  readonly refreshToken: string | undefined;
  /** The acting agent, with its `@`, if the server names it (wire: OAuth). */
  readonly handle: string | undefined;
}
