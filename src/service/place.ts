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

/** Refuses a place where bearer tokens would cross a network unencrypted (RFC 6750 §5.3). */
export function requireSafePlace({ host, publicUrl, isBehindProxy }: PlaceOptions): void {
  const url = publicUrl === undefined ? undefined : readPublicUrl(publicUrl);
  const isPrivate = isLoopbackHost(host) && (url === undefined || isLoopbackHost(url.hostname));
  if (isPrivate || isBehindProxy || url?.protocol === 'https:') return;
  throw new StartError(
    'NOT_ENCRYPTED',
    'A service that others can reach needs a public URL with https, or a proxy in front of it that encrypts.',
  );
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
 * proxy, where everybody seems to be, and on the address of one network alone.
 */
export function directRoot({ host, isBehindProxy }: Partial<PlaceOptions>, port: number): string | undefined {
  const isReached = host !== undefined && (isLoopbackHost(host) || Object.hasOwn(ANY_HOST, host));
  if (!isReached || isBehindProxy === true) return undefined;
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
