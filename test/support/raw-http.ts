import { connect } from 'node:net';

/**
 * Sends one request over a fresh connection and gives every byte that came back, so that answers can be compared as a
 * stranger on the wire would see them.
 */
export function rawRequest(
  url: string,
  method: string,
  headers: Readonly<Record<string, string>>,
  body = '',
): Promise<Buffer> {
  const { hostname, port, host, pathname, search } = new URL(url);
  const lines = [
    `${method} ${pathname}${search} HTTP/1.1`,
    `host: ${host}`,
    'connection: close',
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ...(body === '' ? [] : [`content-length: ${Buffer.byteLength(body)}`]),
  ];
  return rawBytes(hostname, Number(port), `${lines.join('\r\n')}\r\n\r\n${body}`);
}

/** Writes `bytes` to a fresh connection and gives what comes back until the other side closes. */
export function rawBytes(host: string, port: number, bytes: string | Uint8Array, deadlineMs = 10_000): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect({ host: host.replace(/^\[|\]$/g, ''), port });
    const deadline = setTimeout(() => {
      socket.destroy();
      resolve(Buffer.concat(chunks));
    }, deadlineMs);
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('error', reject);
    socket.on('close', () => {
      clearTimeout(deadline);
      resolve(Buffer.concat(chunks));
    });
    socket.write(bytes);
  });
}

/** Those bytes without what may differ between any two answers: the date and an id of the request. */
export function withoutRequestIdentity(answer: Buffer): string {
  return answer
    .toString('latin1')
    .replace(/^date: .*\r\n/im, '')
    .replace(/^(x-)?request-id: .*\r\n/gim, '');
}
