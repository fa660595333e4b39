import { isLoopbackHost } from '../kit/loopback.js';
import { MCP_PATH } from '../wire/mcp.js';
import { SOCKET_PATH } from '../wire/realtime.js';
import type { Addresses } from './core/context.js';
import { OperatorError } from './core/errors.js';
import { BASE_PATH } from './http/rest.js';

const ANY_HOST: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '[::1]' };

interface AddressOptions {
  readonly host: string;
  readonly publicUrl?: string | undefined;
  readonly isBehindProxy: boolean;
}

/**
 * Refuses an address where bearer tokens and passwords would cross a network unencrypted (RFC 6750 §5.3). The service
 * does not speak TLS: an https address alone says that something encrypts, not that no one can get around it.
 */
export function requireSafeAddress({ host, publicUrl, isBehindProxy }: AddressOptions): void {
  const url = publicUrl === undefined ? undefined : readPublicUrl(publicUrl);
  if (isBehindProxy) return;
  if (!isLoopbackHost(host))
    throw new OperatorError(
      'NOT_ENCRYPTED',
      `On ${host}, passwords and tokens would cross the network in the clear, because asp does not speak TLS.`,
    );
  if (url === undefined || isLoopbackHost(url.hostname) || url.protocol === 'https:') return;
  throw new OperatorError('NOT_ENCRYPTED', 'A service that others can reach needs a public URL with https.');
}

/**
 * Whether all clients seem to be on this machine but are not: a proxy terminates TLS for the public URL, and the
 * service does not trust it about addresses. One stranger must not use up what all clients share.
 */
export function isAddressShared({ publicUrl, isBehindProxy }: AddressOptions): boolean {
  return !isBehindProxy && publicUrl !== undefined && !isLoopbackHost(readPublicUrl(publicUrl).hostname);
}

function readPublicUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain = url?.search === '' && url.hash === '' && url.username === '' && url.password === '';
  if (url === undefined || !isPlain || !/^https?:$/.test(url.protocol))
    throw new OperatorError('INVALID_PUBLIC_URL', 'The public URL must be a plain http or https address.');
  return url;
}

/** The addresses of a service, from its configuration and its actual port. */
export function toAddresses(options: AddressOptions, port: number): Addresses {
  const root = toRootUrl(options, port);
  return {
    baseUrl: `${root}${BASE_PATH}`,
    authUrl: root,
    webUrl: root,
    wsUrl: `${root.replace(/^http/, 'ws')}${SOCKET_PATH}`,
    mcpUrl: `${root}${MCP_PATH}`,
  };
}

/**
 * The service's own address for programs on this machine, which it recognizes as local; undefined behind a proxy, where
 * all clients look local.
 */
export function directRoot({ host, isBehindProxy }: Partial<AddressOptions>, port: number): string | undefined {
  if (host === undefined || !isLoopbackHost(host) || isBehindProxy === true) return undefined;
  return toRootUrl({ host, isBehindProxy: false }, port);
}

function toRootUrl({ host, publicUrl }: AddressOptions, port: number): string {
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
