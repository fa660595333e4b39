import type { IncomingMessage } from 'node:http';

import { ServiceError } from '../service-error.js';

const WHOLE_URL = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)/i;
const HOST = /^(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i;

/** Refuses a request whose `Host` is missing, malformed or not this service's. */
export type HostGuard = (request: Pick<IncomingMessage, 'headers' | 'headersDistinct' | 'url'>) => void;

/**
 * `names`: the hosts a loopback service is called by, or undefined where it is not on loopback. A page of another site that
 * has its name resolved to 127.0.0.1 still sends its own name (DNS rebinding).
 */
export function createHostGuard(names: ReadonlySet<string> | undefined): HostGuard {
  return ({ headers, headersDistinct, url = '' }) => {
    // Of two hosts a proxy in front of us may have believed the other (RFC 9112 §3.2).
    const isOne = headersDistinct['host']?.length === 1;
    // A whole URL as the target of a request says more than its Host (RFC 9112 §3.2.2).
    const host = WHOLE_URL.exec(url)?.[1] ?? headers.host;
    if (host === undefined || !isOne || !HOST.test(host))
      throw new ServiceError('VALIDATION_ERROR', 'The Host header is not valid.');
    if (names !== undefined && !names.has(host.toLowerCase()))
      throw new ServiceError('FORBIDDEN', 'This service does not go by that name.');
  };
}

/** The names of a service that is bound to a loopback address. */
export function loopbackNames(port: number, publicUrl: string): ReadonlySet<string> {
  const names = ['127.0.0.1', 'localhost', '[::1]'].map((name) => (port === 80 ? name : `${name}:${port}`));
  return new Set([...names, new URL(publicUrl).host]);
}
