import { isSameSecret } from '../../kit/same-secret.js';
import { ID_PREFIX } from '../../wire/id.js';
import type { Scope } from '../../wire/scope.js';
import type { ServiceContext } from '../core/context.js';
import type { Transaction } from '../core/database.js';
import { closeSockets } from '../messaging/presence.js';
import {
  insertOAuthClient,
  markOAuthClientRevoked,
  type OAuthClientRow,
  updateOAuthClient,
} from '../store/oauth-clients.js';
import { parseScopes } from './metadata.js';
import { OAuthError, type Parameters } from './parameters.js';
import { createSecret, hashSecret } from './secret.js';

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
 * `client_id` in the form in addition to Basic is not a method, and many libraries send it.
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

export interface NewConfidentialClient {
  readonly name: string;
  readonly accountId: string;
  /** The one agent it acts as. */
  readonly agentId: string;
  readonly scopes: readonly Scope[];
  /** Created when absent. */
  readonly secret?: string;
  /** From then on it gets no tokens; absent: it never expires. */
  readonly expiresAt?: number | null;
}

/** Creates a client for the client_credentials grant (spec: Flows). Only this call knows its secret. */
export async function createConfidentialClient(
  context: Pick<ServiceContext, 'clock' | 'ids' | 'random'>,
  transaction: Transaction,
  client: NewConfidentialClient,
): Promise<{ clientId: string; clientSecret: string }> {
  const clientId = `${ID_PREFIX.oauthClient}${context.ids.ulid()}`;
  const clientSecret = client.secret ?? createSecret(context.random, 'clientSecret');
  await insertOAuthClient(transaction, {
    id: clientId,
    kind: 'confidential',
    name: client.name,
    redirect_uris: '[]',
    scope: client.scopes.join(' '),
    secret_hash: hashSecret(clientSecret),
    old_secret_hash: null,
    old_secret_until: null,
    expires_at: client.expiresAt ?? null,
    account_id: client.accountId,
    agent_id: client.agentId,
    created_at: context.clock.now(),
    last_used_at: null,
    revoked_at: null,
  });
  return { clientId, clientSecret };
}

/** Whether it is the client's secret, or the previous one while that still works. */
export function matchesSecret(client: OAuthClientRow, secret: string, now: number): boolean {
  const { secret_hash: current, old_secret_hash: old, old_secret_until: until } = client;
  const secretHash = hashSecret(secret);
  const isCurrent = isSameSecret(secretHash, current ?? '');
  const isOld = isSameSecret(secretHash, old ?? '');
  return isCurrent || (isOld && until !== null && now < until);
}

/** New tokens get these permissions; sockets of a client that may no longer receive messages are closed at once. */
export async function changeConfidentialClient(
  context: Pick<ServiceContext, 'clock' | 'bus'>,
  transaction: Transaction,
  before: OAuthClientRow,
  { name, scopes, expiresAt }: Pick<NewConfidentialClient, 'name' | 'scopes'> & { readonly expiresAt: number | null },
): Promise<void> {
  const { id } = before;
  await updateOAuthClient(transaction, { id, name, scope: scopes.join(' '), expires_at: expiresAt });
  const mayReceive = (all: readonly Scope[]): boolean => all.includes('realtime:read');
  if (mayReceive(parseScopes(before.scope)) && !mayReceive(scopes)) await closeSockets(context, transaction, [id]);
}

/** Closes the client's sockets and refuses it new tokens at once (spec: POST /revoke). False if it does not exist. */
export async function revokeConfidentialClient(
  context: Pick<ServiceContext, 'clock' | 'bus'>,
  transaction: Transaction,
  clientId: string,
): Promise<boolean> {
  const isRevoked = await markOAuthClientRevoked(transaction, clientId, context.clock.now());
  if (isRevoked) await closeSockets(context, transaction, [clientId]);
  return isRevoked;
}

const LOOPBACK = /^(http:\/\/(?:127\.0\.0\.1|\[::1\]|localhost))(?::(\d{1,5}))?((?:[/?].*)?)$/;
/** The authority stands between the second slash and the next one, and holds no user information. */
const WEB = /^https:\/\/[^/?@]+(?:[/?].*)?$/;
/** A scheme that is a domain name in reverse: at least two labels, then a path (RFC 8252 §7.1). */
const PRIVATE_USE = /^[a-z][a-z0-9-]*(?:\.[a-z0-9][a-z0-9-]*)+:\/(?:(?!\/).*|\/[^/?@]*(?:[/?].*)?)$/;
const PRINTABLE_ASCII = /^[\x21-\x7e]+$/;
const FORBIDDEN = /[#*"<>\\^`{|}]/;
const PORT_MAX = 65_535;

/**
 * Whether a client may register `uri`: https, plain http to this machine (RFC 8252 §7.3, §8.3), or a private-use scheme
 * (RFC 8252 §7.1; wire: OAuth, registration).
 */
export function isRegistrableRedirectUri(uri: string): boolean {
  if (!PRINTABLE_ASCII.test(uri) || FORBIDDEN.test(uri) || !URL.canParse(uri)) return false;
  if (LOOPBACK.test(uri)) return isUsablePort(LOOPBACK.exec(uri)?.[2]);
  return WEB.test(uri) || PRIVATE_USE.test(uri);
}

/** The same text; or loopback addresses that differ in their port and nothing else (RFC 9700 §2.1; RFC 8252 §7.3). */
export function isRegisteredRedirectUri(requested: string, registered: readonly string[]): boolean {
  return registered.some((uri) => uri === requested || isSameLoopback(uri, requested));
}

function isSameLoopback(registered: string, requested: string): boolean {
  const [, host, , rest] = LOOPBACK.exec(registered) ?? [];
  const [, requestedHost, port, requestedRest] = LOOPBACK.exec(requested) ?? [];
  return host !== undefined && host === requestedHost && rest === requestedRest && isUsablePort(port);
}

function isUsablePort(port: string | undefined): boolean {
  return port === undefined || (Number(port) > 0 && Number(port) <= PORT_MAX);
}

/** Who receives an answer at a redirect URI, in the terms of the person who is asked. */
export interface AnswerTarget {
  /** A program on this computer, a website, or the app that has claimed a scheme on this device. */
  readonly kind: 'program' | 'website' | 'app';
  /** Host and port; the scheme of an app. */
  readonly name: string;
}

/** Describes a redirect URI that a client has registered. */
export function describeRedirectUri(redirectUri: string): AnswerTarget {
  const { protocol, host } = new URL(redirectUri);
  if (protocol !== 'http:' && protocol !== 'https:') return { kind: 'app', name: protocol.slice(0, -1) };
  return { kind: protocol === 'http:' ? 'program' : 'website', name: host };
}

/** Where the answer goes, with `parameters` behind what `redirectUri` has already (RFC 6749 §3.1.2). */
export function withParameters(redirectUri: string, parameters: Readonly<Record<string, string | null>>): string {
  const added = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== null) added.append(name, value);
  const separator = !redirectUri.includes('?') ? '?' : /[?&]$/.test(redirectUri) ? '' : '&';
  return `${redirectUri}${separator}${added}`;
}
