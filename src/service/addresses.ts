import { isLoopbackHost } from '../kit/loopback.js';
import { MCP_PATH } from '../wire/mcp.js';
import { SOCKET_PATH } from '../wire/realtime.js';
import type { Addresses } from './core/context.js';
import { OperatorError } from './core/errors.js';
import { toOrigin } from './http/app.js';
import { BASE_PATH } from './http/rest.js';

const ANY_HOST: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '[::1]' };

export interface AddressOptions {
  readonly host: string;
  readonly publicUrl?: string | undefined;
  readonly isBehindProxy: boolean;
  /** Whether the service terminates TLS itself. */
  readonly isEncrypted?: boolean;
}

/**
 * Refuses an address where bearer tokens and passwords would cross a network unencrypted (RFC 6750 §5.3). Without a
 * certificate, an https address alone says that something encrypts, not that no one can get around it.
 */
export function requireSafeAddress({ host, publicUrl, isBehindProxy, isEncrypted }: AddressOptions): void {
  const url = publicUrl === undefined ? undefined : readPublicUrl(publicUrl);
  if (isEncrypted === true && url?.protocol === 'http:')
    throw new OperatorError('INVALID_PUBLIC_URL', 'With a certificate, the public URL must begin with https://.');
  if (isBehindProxy || isEncrypted === true) return;
  if (!isLoopbackHost(host))
    throw new OperatorError('NOT_ENCRYPTED', `On ${host}, passwords and tokens would cross the network in the clear.`);
  if (url === undefined || isLoopbackHost(url.hostname) || url.protocol === 'https:') return;
  throw new OperatorError('NOT_ENCRYPTED', 'A service that others can reach needs a public URL with https.');
}

/**
 * Whether all clients seem to be on this machine but are not: something on it passes on what comes for the public URL, and
 * the service does not trust it about addresses. One stranger must not use up what all clients share.
 */
export function isAddressShared({ host, publicUrl, isBehindProxy }: AddressOptions): boolean {
  if (isBehindProxy || !isLoopbackHost(host)) return false;
  return publicUrl !== undefined && !isLoopbackHost(readPublicUrl(publicUrl).hostname);
}

/** The name that the certificate must have; undefined: a proxy has the one that clients see. */
export function nameToCertify({ host, publicUrl, isBehindProxy }: AddressOptions): string | undefined {
  return isBehindProxy ? undefined : new URL(toRootUrl({ host, publicUrl, isBehindProxy }, 0)).hostname;
}

function readPublicUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain = url?.search === '' && url.hash === '' && url.username === '' && url.password === '';
  if (url === undefined || !isPlain || !/^https?:$/.test(url.protocol))
    throw new OperatorError('INVALID_PUBLIC_URL', 'The public URL must be a plain http or https address.');
  // Clients look for /.well-known, and pages link to /dashboard, at the root of the host (RFC 8414 §3, RFC 9728 §3).
  if (/[^/]/.test(url.pathname))
    throw new OperatorError(
      'INVALID_PUBLIC_URL',
      `The public URL must have no path, because the service needs the whole host. Use ${url.origin}.`,
    );
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
 * all clients look local, and with a certificate, which need not have a loopback name.
 */
export function directRoot({ host, isBehindProxy, isEncrypted }: AddressOptions, port: number): string | undefined {
  if (!isLoopbackHost(host) || isBehindProxy || isEncrypted === true) return undefined;
  return toRootUrl({ host, isBehindProxy: false }, port);
}

function toRootUrl({ host, publicUrl, isEncrypted }: AddressOptions, port: number): string {
  if (publicUrl !== undefined) return readPublicUrl(publicUrl).origin;
  const name = host === 'localhost' ? '127.0.0.1' : (ANY_HOST[host] ?? host);
  return toOrigin(name, port, isEncrypted === true);
}
