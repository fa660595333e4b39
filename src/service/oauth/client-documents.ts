import type { LookupAddress } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { BlockList, isIP } from 'node:net';
import { abortAfter, type Clock } from '../../kit/clock.js';
import { ClientDocument } from '../../wire/schemas/oauth.js';
import type { ServiceContext } from '../core/context.js';
import { putOAuthClient } from '../store/oauth-clients.js';
import { tooManyRequests } from './attempts.js';
import { isRegistrableRedirectUri } from './clients.js';
import { grantableScope } from './metadata.js';
import { OAuthError } from './parameters.js';

/** How the service reaches servers that a stranger names. No flag, setting or variable changes it: only tests replace it. */
export interface DocumentNetwork {
  /** Every address of a host name. */
  resolve(hostname: string, signal: AbortSignal): Promise<readonly string[]>;
  /** Whether the service may connect to an address. */
  isAllowed(address: string): boolean;
  /** Certificate authorities in place of the system's. */
  readonly ca?: string;
}

/** The public internet, and nothing of the operator's own network. */
export const PUBLIC_INTERNET: DocumentNetwork = { resolve: resolveHost, isAllowed: isPublicAddress };

/** A document that a stranger's server sent. */
export interface FetchedDocument {
  readonly text: string;
  /** The `Cache-Control` header. */
  readonly cacheControl: string;
}

const TIMEOUT_MS = 3_000;
const DOCUMENT_MAX_BYTES = 5 * 1024;
const HEADERS_MAX_BYTES = 8 * 1024;
const JSON_TYPE = /^application\/(?:[a-z0-9.!#$&^_-]+\+)?json\s*(?:;|$)/i;

/**
 * Fetches a JSON document from a URL that a stranger chose: over TLS only, from public addresses only, without following
 * a redirect, in at most 3 seconds and 5 KB. The addresses are checked once and the connection is made to those, so that
 * a name cannot resolve differently in between (DNS rebinding).
 */
export async function fetchDocument(clock: Clock, network: DocumentNetwork, url: URL): Promise<FetchedDocument> {
  const done = new AbortController();
  const fetchWith = async (signal: AbortSignal): Promise<FetchedDocument> => {
    const addresses = await network.resolve(url.hostname, signal);
    signal.throwIfAborted();
    if (addresses.length === 0) throw new Error('the host has no address');
    if (!addresses.every((address) => network.isAllowed(address))) throw new Error('the address is not public');
    try {
      return await readBody(await connect(url, addresses, network.ca, AbortSignal.any([signal, done.signal])));
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    }
  };
  try {
    return await abortAfter(clock, TIMEOUT_MS, () => new Error('timed out'), fetchWith);
  } finally {
    // The connection of an answer that was not read to its end.
    done.abort();
  }
}

function connect(
  url: URL,
  addresses: readonly string[],
  ca: string | undefined,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const found = addresses.map((address): LookupAddress => ({ address, family: isIP(address) }));
  return new Promise((resolve, reject) => {
    const sent = request(url, {
      agent: false,
      headers: { accept: 'application/json', 'accept-encoding': 'identity' },
      lookup: (_hostname, { all }, done) =>
        all === true ? done(null, found) : done(null, found[0]?.address ?? '', found[0]?.family),
      maxHeaderSize: HEADERS_MAX_BYTES,
      rejectUnauthorized: true,
      signal,
      ...(ca !== undefined && { ca }),
    });
    sent.once('response', resolve);
    sent.on('error', reject);
    sent.end();
  });
}

async function readBody(answer: IncomingMessage): Promise<FetchedDocument> {
  const { statusCode, headers } = answer;
  // A redirect is an answer of another status, too.
  if (statusCode !== 200) throw new Error(`status ${statusCode}`);
  if (!JSON_TYPE.test(headers['content-type'] ?? '')) throw new Error('the type is not JSON');
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') throw new Error('the document is encoded');
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > DOCUMENT_MAX_BYTES) throw new Error('the document is too large');
    chunks.push(chunk);
  }
  return { text: Buffer.concat(chunks).toString('utf8'), cacheControl: headers['cache-control'] ?? '' };
}

/** Queries only the DNS, not the hosts file, and without using a thread that file operations need. */
async function resolveHost(hostname: string, signal: AbortSignal): Promise<readonly string[]> {
  const resolver = new Resolver({ timeout: 1_000, tries: 2 });
  const cancel = (): void => resolver.cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    const found = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]);
    return found.flatMap((result) => (result.status === 'fulfilled' ? result.value : []));
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}

/** The IPv4 ranges that are not global (IANA IPv4 Special-Purpose Address Registry), multicast and the reserved rest. */
const SPECIAL_IPV4 = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.0.2.0/24', '192.31.196.0/24', '192.52.193.0/24', '192.88.99.0/24', '192.168.0.0/16', '192.175.48.0/24'],
  ...['198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24', '224.0.0.0/4', '240.0.0.0/4'],
];
/** Global unicast IPv6, and the ranges in it that lead elsewhere: protocol assignments, documentation, 6to4. */
const GLOBAL_IPV6 = ['2000::/3'];
const SPECIAL_IPV6 = ['2001::/23', '2001:db8::/32', '2002::/16', '2620:4f:8000::/48', '3fff::/20'];

function toBlockList(ranges: readonly string[], family: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [network = '', prefix] = range.split('/');
    list.addSubnet(network, Number(prefix), family);
  }
  return list;
}

const specialIpv4 = toBlockList(SPECIAL_IPV4, 'ipv4');
const globalIpv6 = toBlockList(GLOBAL_IPV6, 'ipv6');
const specialIpv6 = toBlockList(SPECIAL_IPV6, 'ipv6');

/** Whether an address is on the public internet: not this machine, not a private network, and not special. */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 4) return !specialIpv4.check(address, 'ipv4');
  // An IPv4 address that is mapped or translated into IPv6 is outside global unicast.
  return isIP(address) === 6 && globalIpv6.check(address, 'ipv6') && !specialIpv6.check(address, 'ipv6');
}

const URL_MAX_LENGTH = 512;
const CACHE_MAX_SIZE = 1_000;
const FETCHES_MAX = 16;
const DEFAULT_AGE_S = 60 * 60;
const MIN_AGE_S = 60;
const MAX_AGE_S = 24 * 60 * 60;

/** The clients that describe themselves in a document at their own id (OAuth Client ID Metadata Document). */
export interface ClientDocuments {
  /**
   * Registers the client of a document URL, from the cache or by fetching it; does nothing for other ids. `admit` is
   * called before a fetch and may refuse it. Throws an OAuthError when the document cannot be used.
   */
  learn(clientId: string, admit: () => Promise<void>): Promise<void>;
}

type DocumentsContext = Pick<ServiceContext, 'clock' | 'database'>;

/** Documents are cached for as long as their server says, between a minute and a day. Failures are not cached. */
export function createClientDocuments(context: DocumentsContext, network: DocumentNetwork): ClientDocuments {
  const { clock } = context;
  const freshUntilMs = new Map<string, number>();
  const fetches = new Map<string, Promise<void>>();

  const remember = (clientId: string, ageS: number): void => {
    freshUntilMs.delete(clientId);
    const [oldest] = freshUntilMs.keys();
    if (freshUntilMs.size >= CACHE_MAX_SIZE && oldest !== undefined) freshUntilMs.delete(oldest);
    freshUntilMs.set(clientId, clock.monotonic() + ageS * 1000);
  };
  const fetchClient = async (clientId: string): Promise<void> => {
    const fetched = await fetchOrRefuse(context, network, clientId);
    await storeClient(context, clientId, readDocument(clientId, fetched.text));
    remember(clientId, readAge(fetched.cacheControl));
  };

  return {
    async learn(clientId, admit) {
      if (!isDocumentUrl(clientId) || (freshUntilMs.get(clientId) ?? 0) > clock.monotonic()) return;
      if (!fetches.has(clientId)) await admit();
      const underway = fetches.get(clientId);
      if (underway !== undefined) return underway;
      if (fetches.size >= FETCHES_MAX) throw tooManyRequests(1);
      const started = fetchClient(clientId).finally(() => fetches.delete(clientId));
      fetches.set(clientId, started);
      return started;
    },
  };
}

/**
 * Whether a client id is the URL of a document: https, a path, and none of user information, fragment, dot segments and
 * addresses in place of a name. One spelling of a URL is one client, so only the normal one counts.
 */
export function isDocumentUrl(clientId: string): boolean {
  if (!clientId.startsWith('https://') || clientId.length > URL_MAX_LENGTH || !URL.canParse(clientId)) return false;
  const { href, pathname, username, password, hash, hostname } = new URL(clientId);
  const isPlain = username === '' && password === '' && hash === '' && !clientId.endsWith('#');
  const isNamed = isIP(hostname.replace(/^\[|\]$/g, '')) === 0 && hostname.includes('.') && !hostname.endsWith('.');
  return href === clientId && pathname !== '/' && isPlain && isNamed;
}

async function fetchOrRefuse(
  { clock }: DocumentsContext,
  network: DocumentNetwork,
  clientId: string,
): Promise<FetchedDocument> {
  try {
    return await fetchDocument(clock, network, new URL(clientId));
  } catch (error) {
    const reason = error instanceof Error ? error.message : 'unknown';
    // One answer for every reason: it must not reveal what the service can reach.
    throw unusable('The service cannot fetch the description of the application from its client_id.', reason);
  }
}

function readDocument(clientId: string, text: string): ClientDocument {
  const document = ClientDocument.safeParse(parseJson(text));
  if (!document.success) throw unusable('The description of the application is malformed.');
  const { client_id, redirect_uris, grant_types, token_endpoint_auth_method, client_secret } = document.data;
  if (client_id !== clientId) throw unusable('The description of the application names another client_id.');
  if ((token_endpoint_auth_method ?? 'none') !== 'none' || client_secret !== undefined)
    throw unusable('Applications cannot authenticate with a secret or a key here.');
  if (grant_types?.includes('authorization_code') === false)
    throw unusable('The application does not use authorization codes.');
  // A document is for many servers, so it may name addresses that this one does not take.
  const usable = redirect_uris.filter(isRegistrableRedirectUri);
  if (usable.length === 0) throw unusable('The application has no redirect URI that works here.');
  return { ...document.data, redirect_uris: usable };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** From here on it is a public client like a registered one, until it is no longer used. */
async function storeClient(context: DocumentsContext, clientId: string, document: ClientDocument): Promise<void> {
  const scope = grantableScope(document.scope);
  if (scope === undefined) throw unusable('This service knows none of the scopes that the application requests.');
  const row = {
    id: clientId,
    name: document.client_name?.trim() || new URL(clientId).host,
    redirect_uris: JSON.stringify(document.redirect_uris),
    scope,
    created_at: context.clock.now(),
  };
  await context.database.write((transaction) => putOAuthClient(transaction, row));
}

/** How long a document may be cached, based on its server's headers (RFC 9111 §5.2.2). */
function readAge(cacheControl: string): number {
  if (/(?:^|,)\s*no-(?:store|cache)\b/i.test(cacheControl)) return MIN_AGE_S;
  const seconds = /(?:^|,)\s*max-age="?(\d{1,9})/i.exec(cacheControl)?.[1];
  return Math.min(MAX_AGE_S, Math.max(MIN_AGE_S, Number(seconds ?? DEFAULT_AGE_S)));
}

function unusable(description: string, detail?: string): OAuthError {
  return new OAuthError('invalid_client', description, detail, { status: 400 });
}
