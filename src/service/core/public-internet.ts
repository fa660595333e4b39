import type { LookupAddress } from 'node:dns';
import { lookup, Resolver } from 'node:dns/promises';
import { type IncomingMessage, request as requestPlain } from 'node:http';
import { request } from 'node:https';
import { BlockList, isIP } from 'node:net';
import { abortAfter, type Clock, orAborted } from '../../kit/clock.js';

/** How the service reaches servers that others name. */
export interface OutsideNetwork {
  /** Every address of a host name. */
  resolve(hostname: string, signal: AbortSignal): Promise<readonly string[]>;
  /** Whether the service may connect to an address. */
  isAllowed(address: string): boolean;
  /** Certificate authorities in place of the system's. */
  readonly ca?: string;
}

/**
 * The public internet, and nothing of the operator's own network. For servers that a stranger names there is nothing
 * else: no flag, setting or variable changes that, only tests replace it.
 */
export const PUBLIC_INTERNET: OutsideNetwork = { resolve: resolveHost, isAllowed: isPublicAddress };

/** Everything this machine can reach, for an operator who trusts the people who name the servers. */
export const ANY_NETWORK: OutsideNetwork = {
  resolve: async (hostname) =>
    (await lookup(hostname.replace(/^\[|\]$/g, ''), { all: true })).map(({ address }) => address),
  isAllowed: () => true,
};

export interface OutsideRequest {
  readonly url: URL;
  readonly method: 'GET' | 'POST';
  readonly headers: Readonly<Record<string, string | number>>;
  readonly body?: Buffer | undefined;
  /** For all of it: the name, the connection and the answer. */
  readonly timeoutMs: number;
}

const HEADERS_MAX_BYTES = 8 * 1024;

/**
 * Sends a request to a URL that someone else chose, to addresses that the network allows, without following a redirect.
 * `read` takes what it needs of the answer; the rest is dropped with the connection. The addresses are checked once and
 * the connection is made to those, so that a name cannot resolve differently in between (DNS rebinding).
 */
export async function requestOutside<T>(
  clock: Clock,
  network: OutsideNetwork,
  sent: OutsideRequest,
  read: (answer: IncomingMessage) => Promise<T>,
): Promise<T> {
  const done = new AbortController();
  const sendWith = async (signal: AbortSignal): Promise<T> => {
    const addresses = await network.resolve(sent.url.hostname, signal);
    signal.throwIfAborted();
    if (addresses.length === 0) throw new Error('the host has no address');
    if (!addresses.every((address) => network.isAllowed(address))) throw new Error('the address is not public');
    try {
      return await read(await connect(sent, addresses, network.ca, AbortSignal.any([signal, done.signal])));
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    }
  };
  try {
    // The system's lookup of a name cannot be stopped, and what others send must never keep this from ending.
    return await abortAfter(
      clock,
      sent.timeoutMs,
      () => new Error('timed out'),
      (signal) => orAborted(sendWith(signal), signal),
    );
  } finally {
    // The connection of an answer that was not read to its end.
    done.abort();
  }
}

function connect(
  { url, method, headers, body }: OutsideRequest,
  addresses: readonly string[],
  ca: string | undefined,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const found = addresses.map((address): LookupAddress => ({ address, family: isIP(address) }));
  return new Promise((resolve, reject) => {
    const send = url.protocol === 'http:' ? requestPlain : request;
    const sent = send(url, {
      method,
      agent: false,
      headers: { ...headers, 'accept-encoding': 'identity' },
      lookup: (_hostname, { all }, done) =>
        all === true ? done(null, found) : done(null, found[0]?.address ?? '', found[0]?.family),
      maxHeaderSize: HEADERS_MAX_BYTES,
      rejectUnauthorized: true,
      signal,
      ...(ca !== undefined && { ca }),
    });
    sent.once('response', resolve);
    sent.on('error', reject);
    // After an answer that only changes the protocol (101), Node closes the connection without an error.
    sent.once('close', () => reject(new Error('the connection was closed without an answer')));
    sent.end(body);
  });
}

/**
 * Whether a text is a URL that the service may send a stranger's request to: https, a path, and none of user information,
 * fragment, dot segments and addresses in place of a name. One URL has many spellings, and only the normal one counts.
 */
export function isOutsideUrl(text: string, maxLength: number): boolean {
  if (!text.startsWith('https://') || text.length > maxLength || !URL.canParse(text)) return false;
  const { href, pathname, username, password, hash, hostname } = new URL(text);
  const isPlain = username === '' && password === '' && hash === '' && !text.endsWith('#');
  const isNamed = isIP(hostname.replace(/^\[|\]$/g, '')) === 0 && hostname.includes('.') && !hostname.endsWith('.');
  return href === text && pathname !== '/' && isPlain && isNamed;
}

/** Whether a text is a URL that can be called on any network: http or https, without user information and fragment. */
export function isAnyUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, hash } = new URL(text);
  return /^https?:$/.test(protocol) && username === '' && password === '' && hash === '' && !text.endsWith('#');
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
