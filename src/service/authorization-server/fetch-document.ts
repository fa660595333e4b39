import type { LookupAddress } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { BlockList, isIP } from 'node:net';

import type { Clock } from '../../kit/clock.js';

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

/** The reason why a document could not be fetched, for the log. */
export class FetchError extends Error {
  override readonly name = 'FetchError';
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
  const deadline = new AbortController();
  const cancel = clock.schedule(TIMEOUT_MS, () => deadline.abort(new FetchError('timed out')), true);
  try {
    const addresses = await network.resolve(url.hostname, deadline.signal);
    deadline.signal.throwIfAborted();
    if (addresses.length === 0) throw new FetchError('the host has no address');
    if (!addresses.every((address) => network.isAllowed(address))) throw new FetchError('the address is not public');
    return await readDocument(await connect(url, addresses, network.ca, deadline.signal));
  } catch (error) {
    if (deadline.signal.aborted) throw deadline.signal.reason;
    if (error instanceof FetchError) throw error;
    throw new FetchError(error instanceof Error ? error.message : 'unknown', { cause: error });
  } finally {
    cancel();
    deadline.abort();
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

async function readDocument(answer: IncomingMessage): Promise<FetchedDocument> {
  const { statusCode, headers } = answer;
  // A redirect is an answer of another status, too.
  if (statusCode !== 200) throw new FetchError(`status ${statusCode}`);
  if (!JSON_TYPE.test(headers['content-type'] ?? '')) throw new FetchError('the type is not JSON');
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') throw new FetchError('the document is encoded');
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > DOCUMENT_MAX_BYTES) throw new FetchError('the document is too large');
    chunks.push(chunk);
  }
  return { text: Buffer.concat(chunks).toString('utf8'), cacheControl: headers['cache-control'] ?? '' };
}

/** Asks the DNS alone: not the hosts file, and without taking a thread that file operations need. */
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

function listOf(ranges: readonly string[], family: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [network = '', prefix] = range.split('/');
    list.addSubnet(network, Number(prefix), family);
  }
  return list;
}

const specialIpv4 = listOf(SPECIAL_IPV4, 'ipv4');
const globalIpv6 = listOf(GLOBAL_IPV6, 'ipv6');
const specialIpv6 = listOf(SPECIAL_IPV6, 'ipv6');

/** Whether an address is of the public internet: not this machine, not a private network, and nothing special. */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 4) return !specialIpv4.check(address, 'ipv4');
  // An IPv4 address that is mapped or translated into IPv6 is outside global unicast.
  return isIP(address) === 6 && globalIpv6.check(address, 'ipv6') && !specialIpv6.check(address, 'ipv6');
}
