import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

import type { Callback } from '../../client/oauth/callback.js';
import { CliError } from '../errors.js';
import { CALLBACK_HEADERS, type CallbackPage, callbackPage } from './callback-page.js';

const HOST = '127.0.0.1';
const PATH = '/callback';
const URL_MAX_LENGTH = 8192;
const CONNECTIONS_MAX = 64;
const SILENCE_MS = 10_000;

/** A callback that belongs to our request. */
export type OwnCallback = Exclude<Callback, { kind: 'foreign' }>;

/** Waits on this machine for the browser's redirect (RFC 8252 §7.3). */
export interface Loopback {
  readonly redirectUri: string;
  /** The first redirect that `judge` finds to be ours; everything else is answered and ignored. */
  receive(judge: (address: string) => Callback): Promise<OwnCallback>;
  close(): Promise<void>;
}

/** Listens on 127.0.0.1 alone. Until `receive` is called every request is answered and ignored. */
export async function listenOnLoopback(port: number): Promise<Loopback> {
  const sockets = new Set<Socket>();
  const waiting: { judge?: (address: string) => Callback; resolve?: (callback: OwnCallback) => void; isOver: boolean } =
    {
      isOver: false,
    };
  const server = createServer({
    maxHeaderSize: 2 * URL_MAX_LENGTH,
    headersTimeout: SILENCE_MS,
    requestTimeout: SILENCE_MS,
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    // Whoever holds connections open gives way: the browser's own comes last and is served at once.
    if (sockets.size > CONNECTIONS_MAX)
      for (const oldest of sockets) {
        oldest.destroy();
        break;
      }
    socket.setTimeout(SILENCE_MS, () => socket.destroy());
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
  });
  server.on('clientError', (_, socket) => {
    if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n');
  });
  const bound = await bind(server, port);
  const origin = `http://${HOST}:${bound}`;

  server.on('request', (request, response) => {
    if (waiting.isOver) return answer(response, 'gone');
    const callback = isForUs(request, bound) ? waiting.judge?.(`${origin}${request.url}`) : undefined;
    if (callback === undefined || callback.kind === 'foreign') return answer(response, 'ignored');
    waiting.isOver = true;
    answer(response, callback.kind === 'code' ? 'done' : 'refused');
    waiting.resolve?.(callback);
  });

  return {
    redirectUri: `${origin}${PATH}`,
    receive: (judge) =>
      new Promise((resolve) => {
        waiting.judge = judge;
        waiting.resolve = resolve;
      }),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        // The page that was just written must still reach the browser.
        for (const socket of sockets) socket.end();
        setTimeout(() => {
          for (const socket of sockets) socket.destroy();
        }, 500).unref();
      }),
  };
}

/** Only a plain navigation to our path, by our own name: other pages and rebound names are not heard. */
function isForUs(request: IncomingMessage, port: number): boolean {
  const { method, url = '', headers } = request;
  const hasOneHost =
    request.rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'host').length === 1;
  return (
    method === 'GET' &&
    url.length <= URL_MAX_LENGTH &&
    (url === PATH || url.startsWith(`${PATH}?`)) &&
    hasOneHost &&
    headers.host === `${HOST}:${port}` &&
    headers.origin === undefined
  );
}

function answer(response: ServerResponse, page: CallbackPage): void {
  const { status, html } = callbackPage(page);
  response.on('error', () => {});
  response.writeHead(status, { ...CALLBACK_HEADERS, 'content-length': Buffer.byteLength(html) });
  response.end(html);
}

function bind(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => {
      const isTaken = 'code' in error && (error.code === 'EADDRINUSE' || error.code === 'EACCES');
      if (!isTaken) return reject(error);
      reject(
        new CliError('ASP_PORT_IN_USE', {
          message: `Port ${port} cannot be listened on for the sign-in.`,
          next: ['asp', 'login'],
          cause: error,
        }),
      );
    });
    server.listen({ host: HOST, port, exclusive: true }, () => {
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : port);
    });
  });
}
