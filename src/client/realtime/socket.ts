import type { IncomingMessage } from 'node:http';
import { type ClientOptions, type RawData, WebSocket } from 'ws';
import { EventEnvelope } from '../../wire/event.js';
import { EPOCH_HEADER } from '../../wire/realtime.js';
import { secureUrl } from '../http/address.js';
import { abortion, failureOf, type RequestError } from '../http/request-error.js';
import { errorOfAnswer, readRetryAfter } from '../http/send.js';
import { redactSecrets, redactText, secretsOf } from '../http/trace.js';
import { type Transport, VERIFIED_TLS } from '../http/transport.js';
import { createAsyncQueue } from './async-queue.js';

const PING_INTERVAL_MS = 25_000;
const PONG_TIMEOUT_MS = 10_000;
const HANDSHAKE_TIMEOUT_MS = 10_000;
const FRAME_MAX_BYTES = 4 * 1024 * 1024;
const REFUSAL_MAX_BYTES = 64 * 1024;
/** How many events may wait for the reader before the socket is no longer read. */
const WAITING_MAX = 256;
const WAITING_MAX_BYTES = 1024 * 1024;
const ABNORMAL = 1006;

/** How a connection ended (RFC 6455 §7.4). */
export interface Closure {
  readonly code: number;
  readonly reason: string;
}

/** One connection. Its events end when it does; `closure` then says why. */
export interface LiveSocket {
  readonly events: AsyncIterable<EventEnvelope>;
  readonly closure: Closure | undefined;
  readonly openedAtMs: number;
  /** The epoch of the data whose events it gives, where the service tells it. */
  readonly epoch: string | undefined;
  /** Whether anything was received. */
  readonly hasDelivered: boolean;
  close(): void;
}

/** Where and as whom to connect. */
export interface SocketOptions {
  readonly transport: Transport;
  readonly url: string;
  readonly token: string;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Opens the event stream. The token travels in the handshake's header only. When the reader is slow the connection is not
 * read, so memory stays bounded and the service notices; when nothing answers a ping for 10 s it counts as dead.
 * @throws RequestError for a refused handshake (its status and code), or what the network did.
 */
export async function openSocket(options: SocketOptions): Promise<LiveSocket> {
  const { transport, token, signal } = options;
  const url = secureUrl(options.url, 'WebSocket address');
  if (signal?.aborted === true) throw abortion(signal, 'not_applied');
  const tunnel = url.protocol === 'wss:' ? await transport.tunnel(url, signal) : undefined;
  const settings: ClientOptions = {
    headers: { authorization: `Bearer ${token}`, 'user-agent': 'asp-cli' },
    perMessageDeflate: false,
    maxPayload: FRAME_MAX_BYTES,
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
    followRedirects: false,
    ...VERIFIED_TLS,
    ...(tunnel !== undefined && { createConnection: () => tunnel }),
  };
  transport.trace?.({ kind: 'socket', text: `connect ${url.origin}${url.pathname}` });
  const socket = new WebSocket(url, settings);
  const live = read(transport, socket, signal);
  await opened(options, socket, url);
  transport.trace?.({ kind: 'socket', text: 'open' });
  live.start();
  return live;
}

function opened({ transport, token, signal }: SocketOptions, socket: WebSocket, url: URL): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once('open', resolve);
    socket.once('error', (error) => reject(failureOf(error, url.origin, 'not_applied', { signal })));
    socket.once('unexpected-response', (_, answer) => {
      void refusal(transport, answer, url, token).then((error) => {
        transport.trace?.({ kind: 'failure', text: `${error.status} ${error.code}` });
        reject(error);
        socket.terminate();
      });
    });
  });
}

async function refusal(transport: Transport, answer: IncomingMessage, url: URL, token: string): Promise<RequestError> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of answer) {
      size += (chunk as Buffer).length;
      if (size > REFUSAL_MAX_BYTES) break;
      chunks.push(chunk as Buffer);
    }
  } catch {
    // What came is enough: the status alone says most of it.
  }
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(answer.headers)) if (value !== undefined) headers[name] = String(value);
  const status = answer.statusCode ?? 0;
  const retryAfterMs = readRetryAfter(headers, transport.clock.now());
  const secrets = secretsOf({ authorization: `Bearer ${token}` });
  const body = Buffer.from(redactSecrets(Buffer.concat(chunks).toString('utf8'), secrets));
  const received = { status, headers, body };
  const sent = { answer: received, attempts: 1, outcome: 'not_applied', retryAfterMs } as const;
  return errorOfAnswer(sent, { method: 'GET', url: url.href, retries: 0, scopes: ['realtime:read'] });
}

function read(transport: Transport, socket: WebSocket, signal?: AbortSignal): LiveSocket & { start(): void } {
  const { clock, trace } = transport;
  let waitingBytes = 0;
  let closure: Closure | undefined;
  let hasDelivered = false;
  let isPaused = false;
  const queue = createAsyncQueue<EventEnvelope>(() => {
    waitingBytes = 0;
    if (!isPaused) return;
    isPaused = false;
    socket.resume();
    health.restart();
  });
  const health = watchHealth(transport, socket, () => isPaused);
  let epoch: string | undefined;
  socket.once('upgrade', ({ headers }) => {
    const told = headers[EPOCH_HEADER];
    if (typeof told === 'string') epoch = told;
  });
  const close = (): void => {
    closure ??= { code: 1000, reason: '' };
    health.stop();
    socket.terminate();
    queue.end();
  };
  socket.on('error', (error) => trace?.({ kind: 'failure', text: `socket: ${error.message}` }));
  socket.on('message', (data, isBinary) => {
    health.notice();
    const event = isBinary ? undefined : decode(data);
    if (event === undefined) return;
    hasDelivered = true;
    trace?.({ kind: 'socket', text: summaryOf(event, sizeOf(data)) });
    waitingBytes += sizeOf(data);
    queue.push(event);
    if (isPaused || (queue.size < WAITING_MAX && waitingBytes < WAITING_MAX_BYTES)) return;
    isPaused = true;
    socket.pause();
  });
  socket.on('close', (code, reason) => {
    closure ??= { code: code === 0 ? ABNORMAL : code, reason: reason.toString('utf8').slice(0, 200) };
    trace?.({ kind: 'socket', text: `closed ${closure.code} ${redactText(closure.reason)}`.trimEnd() });
    health.stop();
    signal?.removeEventListener('abort', close);
    queue.end();
  });
  signal?.addEventListener('abort', close, { once: true });
  return {
    events: queue,
    get closure() {
      return closure;
    },
    get hasDelivered() {
      return hasDelivered;
    },
    get epoch() {
      return epoch;
    },
    openedAtMs: clock.monotonic(),
    close,
    start: () => health.restart(),
  };
}

/** Pings while the socket is read; while it is not, no pong could be seen. */
function watchHealth(transport: Transport, socket: WebSocket, isPaused: () => boolean) {
  const { clock } = transport;
  let cancel = (): void => {};
  const restart = (): void => {
    cancel();
    cancel = clock.schedule(PING_INTERVAL_MS, ping);
  };
  const ping = (): void => {
    if (isPaused() || socket.readyState !== WebSocket.OPEN) {
      restart();
      return;
    }
    socket.ping();
    transport.trace?.({ kind: 'socket', text: 'ping' });
    cancel = clock.schedule(PONG_TIMEOUT_MS, () => {
      if (isPaused()) {
        restart();
        return;
      }
      transport.trace?.({ kind: 'socket', text: 'no answer to a ping' });
      socket.terminate();
    });
  };
  socket.on('pong', () => {
    transport.trace?.({ kind: 'socket', text: 'pong' });
    restart();
  });
  return { restart, stop: () => cancel(), notice: restart };
}

/** Frames that are no event (an answer to a ping, a future kind) are passed over. */
function decode(data: RawData): EventEnvelope | undefined {
  try {
    const parsed = EventEnvelope.safeParse(JSON.parse(data.toString()));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}

/** Which event came; what is said in it is no matter of the network. */
function summaryOf({ type, session_id, sequence }: EventEnvelope, bytes: number): string {
  return `event ${type} ${session_id} #${sequence} (${bytes} bytes)`;
}

function sizeOf(data: RawData): number {
  return Array.isArray(data) ? data.reduce((sum, part) => sum + part.length, 0) : data.byteLength;
}
