import { isLoopbackHost } from '../kit/loopback.js';
import { SOCKET_PATH } from '../wire/realtime.js';
import type { Addresses } from './context.js';
import { BASE_PATH } from './rest/register-rest.js';
import { StartError } from './start-error.js';

const ANY_HOST: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '[::1]' };

export interface PlaceOptions {
  readonly host: string;
  readonly publicUrl?: string | undefined;
  readonly isBehindProxy: boolean;
}

/**
 * Refuses a place where bearer tokens and passwords would cross a network unencrypted (RFC 6750 §5.3). The service does not
 * speak TLS: an https address alone says that others encrypt, and not that nobody gets past them.
 */
export function requireSafePlace({ host, publicUrl, isBehindProxy }: PlaceOptions): void {
  const url = publicUrl === undefined ? undefined : readPublicUrl(publicUrl);
  if (isBehindProxy) return;
  if (!isLoopbackHost(host))
    throw new StartError(
      'NOT_ENCRYPTED',
      `On ${host} passwords and tokens would cross the network in the clear: asp does not speak TLS. It needs a proxy in front of it that does.`,
    );
  if (url === undefined || isLoopbackHost(url.hostname) || url.protocol === 'https:') return;
  throw new StartError('NOT_ENCRYPTED', 'A service that others can reach needs a public URL with https.');
}

/**
 * Whether everybody seems to come from this machine, and does not: a proxy ends TLS for the public URL, and nobody has said that
 * its word about addresses can be believed. One stranger must not use up what all of them share.
 */
export function isAddressShared({ publicUrl, isBehindProxy }: PlaceOptions): boolean {
  return !isBehindProxy && publicUrl !== undefined && !isLoopbackHost(readPublicUrl(publicUrl).hostname);
}

function readPublicUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain = url?.search === '' && url.hash === '' && url.username === '' && url.password === '';
  if (url === undefined || !isPlain || !/^https?:$/.test(url.protocol))
    throw new StartError('INVALID_PUBLIC_URL', 'The public URL must be a plain http or https address.');
  return url;
}

/** The addresses of a service, from its configuration and the port it got. */
export function addressesOf(options: PlaceOptions, port: number): Addresses {
  const root = rootOf(options, port);
  return {
    baseUrl: `${root}${BASE_PATH}`,
    authUrl: root,
    webUrl: root,
    wsUrl: `${root.replace(/^http/, 'ws')}${SOCKET_PATH}`,
  };
}

/**
 * The service's own address for programs of this machine, on which they are seen to be of this machine; undefined behind a
 * proxy, where everybody seems to be.
 */
export function directRoot({ host, isBehindProxy }: Partial<PlaceOptions>, port: number): string | undefined {
  if (host === undefined || !isLoopbackHost(host) || isBehindProxy === true) return undefined;
  return rootOf({ host, isBehindProxy: false }, port);
}

function rootOf({ host, publicUrl }: PlaceOptions, port: number): string {
  if (publicUrl !== undefined) return withoutSlashes(readPublicUrl(publicUrl).href);
  const name = host === 'localhost' ? '127.0.0.1' : (ANY_HOST[host] ?? host);
  const isBareV6 = name.includes(':') && !name.startsWith('[');
  return new URL(`http://${isBareV6 ? `[${name}]` : name}:${port}`).origin;
}

function withoutSlashes(url: string): string {
  let end = url.length;
  while (url.charAt(end - 1) === '/') end -= 1;
  return url.slice(0, end);
}
