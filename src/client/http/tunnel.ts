import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';

import { RequestError } from './request-error.js';
import { VERIFIED } from './verified.js';

/**
 * A TLS connection to the host of `url` through an HTTP proxy (RFC 9110 §9.3.6). The proxy's own credentials come from its
 * address and go nowhere else.
 */
export async function openTunnel(proxy: URL, url: URL, timeoutMs: number, signal?: AbortSignal): Promise<Socket> {
  const { request } = await (proxy.protocol === 'https:' ? import('node:https') : import('node:http'));
  const target = `${url.hostname}:${url.port === '' ? '443' : url.port}`;
  const headers: Record<string, string> = { host: target };
  if (proxy.username !== '') {
    const login = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`;
    headers['proxy-authorization'] = `Basic ${Buffer.from(login).toString('base64')}`;
  }
  const socket = await new Promise<Socket>((resolve, reject) => {
    const options = { ...VERIFIED, method: 'CONNECT', path: target, headers, agent: false, timeout: timeoutMs };
    const connecting = request(
      { host: proxy.hostname, port: proxy.port === '' ? undefined : proxy.port, ...options },
      () => undefined,
    );
    const abort = (): void => {
      connecting.destroy(signal?.reason instanceof Error ? signal.reason : new Error('aborted'));
    };
    signal?.addEventListener('abort', abort, { once: true });
    connecting.once('timeout', () => connecting.destroy(new Error('the proxy did not answer in time')));
    connecting.once('error', reject);
    connecting.once('close', () => signal?.removeEventListener('abort', abort));
    connecting.once('connect', (answer, connection) => {
      if (answer.statusCode === 200) return resolve(connection);
      connection.destroy();
      reject(refusal(answer.statusCode ?? 0));
    });
    connecting.end();
  });
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const servername = /^[\d.]+$|:/.test(host) ? '' : host;
  const tunnel = connectTls({ ...VERIFIED, socket, host, servername, ALPNProtocols: ['http/1.1'] });
  // Whoever is given it hears its errors; until then one must not end the program.
  tunnel.on('error', () => {});
  return tunnel;
}

function refusal(status: number): RequestError {
  return new RequestError({
    code: 'ASP_UNREACHABLE',
    message:
      status === 407
        ? 'The proxy wants a name and a password, or others (status 407).'
        : `The proxy refused the connection with status ${status}.`,
    isRetryable: status >= 500,
  });
}
