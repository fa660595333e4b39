import { connect } from 'node:net';

/**
 * Sends one request over a fresh connection and returns every byte of the answer, so that tests can compare what an
 * observer of the connection would see.
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

/** Writes `bytes` to a fresh connection and returns everything received until the other side closes. */
export function rawBytes(host: string, port: number, bytes: string | Uint8Array, deadlineMs = 30_000): Promise<Buffer> {
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

/** Removes what may differ between any two answers: the date and the request id. */
export function withoutRequestIdentity(answer: Buffer): string {
  return answer
    .toString('latin1')
    .replace(/^date: .*\r\n/im, '')
    .replace(/^(x-)?request-id: .*\r\n/gim, '');
}
