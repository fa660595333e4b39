import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type * as z from 'zod/mini';

import { readPrivateFile, writePrivateFile } from '../../kit/private-file.js';
import type { Random } from '../../kit/random.js';
import { isRetryableStatus } from '../../wire/error.js';
import { RESOURCE_METADATA_PATH, SERVER_METADATA_PATH } from '../../wire/oauth.js';
import { ResourceMetadata, ServerMetadata } from '../../wire/schemas/oauth.js';
import type { ServiceAddresses } from '../http/address.js';
import { secureUrl } from '../http/address.js';
import { RequestError } from '../http/request-error.js';
import { errorOfAnswer, readDocument, type Sending, sendWithRetries } from '../http/send.js';
import type { Transport } from '../http/transport.js';

const METADATA_MAX_BYTES = 256 * 1024;
const METADATA_TIMEOUT_MS = 10_000;
const CACHE_LIFETIME_MS = 24 * 60 * 60 * 1000;

/** The metadata that a service publishes. */
export interface Discovery {
  /** The authorization server, spelled as in its metadata. */
  readonly issuer: string;
  readonly metadata: ServerMetadata;
  /** The value of `resource` for each kind of token (spec: Resource binding). */
  readonly resources: { readonly api: string; readonly ws: string | undefined };
}

/** Dependencies of discovery. */
export interface DiscoveryContext {
  readonly transport: Transport;
  readonly random: Random;
  /** Retries; none by default. */
  readonly retries?: number | undefined;
  /** Where answers are cached for a day, to save two requests per command; undefined: no cache. */
  readonly cacheDirectory?: string | undefined;
  /** Requests the metadata again even if it is cached. */
  readonly isForced?: boolean | undefined;
}

/**
 * Finds the authorization server of a service and its metadata: {base_url} names its issuer (RFC 9728); the issuer
 * publishes its metadata (RFC 8414), which must name that same issuer or none, support S256, and use https except on
 * loopback.
 * @throws RequestError `ASP_DISCOVERY`, or an error from the network or a busy service.
 */
export async function discover(
  context: DiscoveryContext,
  service: ServiceAddresses,
  signal?: AbortSignal,
): Promise<Discovery> {
  const path = cachePath(context, service);
  const now = context.transport.clock.now();
  const kept = path === undefined || context.isForced === true ? undefined : await readCache(path, now);
  if (kept !== undefined) return interpret(service, kept);
  const issuer = service.authUrl ?? (await findIssuer(context, service, signal));
  const addresses = listAddresses(issuer, SERVER_METADATA_PATH);
  const metadata = { issuer, ...(await fetchFirst(context, addresses, ServerMetadata, signal)) };
  if (metadata.issuer !== issuer)
    throw failure('The metadata of the authorization server names a different issuer than its address.');
  const discovery = interpret(service, metadata);
  if (path !== undefined)
    await writePrivateFile(path, JSON.stringify({ fetchedAtMs: now, metadata })).catch(() => undefined);
  return discovery;
}

/**
 * The value of `resource` for a kind of token. @throws RequestError `ASP_DISCOVERY` if the service names no WebSocket.
 */
export function getResource(discovery: Discovery, resource: 'api' | 'ws'): string {
  const value = discovery.resources[resource];
  if (value === undefined) throw failure('The service does not name a WebSocket address. Set one in the profile.');
  return value;
}

async function findIssuer(context: DiscoveryContext, service: ServiceAddresses, signal?: AbortSignal): Promise<string> {
  const addresses = listAddresses(service.baseUrl, RESOURCE_METADATA_PATH);
  const metadata = await fetchFirst(context, addresses, ResourceMetadata, signal);
  if (metadata.resource !== service.baseUrl) throw failure('The metadata at the base URL names a different base URL.');
  const issuer = metadata.authorization_servers?.[0];
  if (issuer === undefined) throw failure('The service does not name an authorization server.');
  return issuer;
}

/** Where metadata may be: below the address, and between its host and its path (RFC 8414 §3.1; RFC 9728 §3.1). */
function listAddresses(address: string, wellKnown: string): string[] {
  const url = secureUrl(address);
  const below = `${address.replace(/\/$/, '')}${wellKnown}`;
  return url.pathname === '/' ? [below] : [below, `${url.origin}${wellKnown}${url.pathname.replace(/\/$/, '')}`];
}

async function fetchFirst<Schema extends z.ZodMiniType>(
  { transport, random, retries = 0 }: DiscoveryContext,
  addresses: readonly string[],
  schema: Schema,
  signal?: AbortSignal,
): Promise<z.output<Schema>> {
  for (const url of addresses) {
    const sending: Sending = {
      method: 'GET',
      url,
      headers: { accept: 'application/json' },
      retries,
      signal,
      maxBytes: METADATA_MAX_BYTES,
      silenceTimeoutMs: METADATA_TIMEOUT_MS,
    };
    const sent = await sendWithRetries(transport, random, sending);
    const { status } = sent.answer;
    if (status === 404) continue;
    if (isRetryableStatus(status)) throw errorOfAnswer(sent, sending);
    const document = status === 200 ? readDocument(schema, sent.answer) : undefined;
    if (document !== undefined) return document;
    throw failure('Could not parse the metadata of the service.', status);
  }
  throw failure(
    'The service publishes no metadata. Check the base URL, or name its authorization server: asp profile set <name> --auth-url. Without one, asp needs ASP_TOKEN.',
    404,
  );
}

function interpret(service: ServiceAddresses, metadata: ServerMetadata): Discovery {
  const { issuer } = metadata;
  if (issuer === undefined) throw failure('The metadata of the authorization server names no issuer.');
  if (service.authUrl !== undefined && service.authUrl !== issuer)
    throw failure('The metadata of the authorization server names a different issuer than its address.');
  secureUrl(issuer, 'issuer');
  secureUrl(metadata.authorization_endpoint, 'authorization endpoint');
  secureUrl(metadata.token_endpoint, 'token endpoint');
  for (const optional of [metadata.registration_endpoint, metadata.revocation_endpoint])
    if (optional !== undefined) secureUrl(optional, 'endpoint');
  if (metadata.code_challenge_methods_supported?.includes('S256') !== true)
    throw failure('The authorization server does not support PKCE with S256.');
  const published = metadata.resource_servers?.map(({ resource }) => resource);
  const ws = service.wsUrl ?? published?.find((resource) => /^wss?:/.test(resource));
  if (ws !== undefined) secureUrl(ws, 'WebSocket address');
  return { issuer, metadata, resources: { api: service.baseUrl, ws } };
}

function cachePath(context: DiscoveryContext, service: ServiceAddresses): string | undefined {
  if (context.cacheDirectory === undefined) return undefined;
  const name = createHash('sha256')
    .update(`${service.baseUrl}\n${service.authUrl ?? ''}`)
    .digest('hex')
    .slice(0, 32);
  return join(context.cacheDirectory, `${name}.json`);
}

async function readCache(path: string, nowMs: number): Promise<ServerMetadata | undefined> {
  try {
    const kept: unknown = JSON.parse((await readPrivateFile(path)) ?? 'null');
    if (typeof kept !== 'object' || kept === null || !('fetchedAtMs' in kept) || !('metadata' in kept))
      return undefined;
    const age = nowMs - Number(kept.fetchedAtMs);
    if (!(age >= 0 && age < CACHE_LIFETIME_MS)) return undefined;
    const parsed = ServerMetadata.safeParse(kept.metadata);
    return parsed.data?.issuer === undefined ? undefined : parsed.data;
  } catch {
    return undefined;
  }
}

function failure(message: string, status?: number): RequestError {
  return new RequestError({ code: 'ASP_DISCOVERY', message, status });
}
