import type { IncomingMessage } from 'node:http';
import { type ClientOptions, type RawData, WebSocket } from 'ws';
import { createAsyncQueue } from '../../kit/async-queue.js';
import { backoffMs, wait } from '../../kit/clock.js';
import { parseIfJson } from '../../kit/parse-json.js';
import type { Random } from '../../kit/random.js';
import { readRetryAfter } from '../../kit/retry-after.js';
import { CLOSE_CODE, EPOCH_HEADER } from '../../wire/realtime.js';
import { EventEnvelope } from '../../wire/schemas/event.js';
import type { Credential } from '../credentials/credential.js';
import { secureUrl } from '../http/address.js';
import { MISFIT, readAs } from '../http/read-as.js';
import { abortion, RequestError, toFailure } from '../http/request-error.js';
import { errorOfAnswer } from '../http/send.js';
import { listSecrets, redactSecrets, redactText, type Transport, VERIFIED_TLS } from '../http/transport.js';

const PING_INTERVAL_MS = 25_000;
const PONG_TIMEOUT_MS = 10_000;
/** A service that gets no pong may close the socket, so a slow reader cannot hold one for longer. */
const HELD_MAX_MS = 10_000;
/** Of pings that wait for their pongs. */
const HELD_MAX = 16;
const HANDSHAKE_TIMEOUT_MS = 10_000;
const FRAME_MAX_BYTES = 4 * 1024 * 1024;
const REFUSAL_MAX_BYTES = 64 * 1024;
/** The maximum number of unread events before the socket is no longer read. */
export const WAITING_MAX = 256;
const WAITING_MAX_BYTES = 1024 * 1024;
const ABNORMAL = 1006;

/** How a connection ended (RFC 6455 §7.4). */
interface Closure {
  readonly code: number;
  readonly reason: string;
}

/** One connection. Its events end when it does; `closure` then says why. */
export interface LiveSocket {
  readonly events: AsyncIterable<EventEnvelope>;
  readonly closure: Closure | undefined;
  readonly openedAtMs: number;
  /** The epoch of the data whose events it delivers, if the service names it. */
  readonly epoch: string | undefined;
  /** Whether anything was received. */
  readonly hasDelivered: boolean;
  close(): void;
}

/** Where to connect, and with which credential. */
export interface SocketOptions {
  readonly transport: Transport;
  readonly url: string;
  readonly token: string;
  readonly signal?: AbortSignal | undefined;
}

/** Opens the event stream for one reader. */
export type OpenSocket = (options: SocketOptions) => Promise<LiveSocket>;

/**
 * Opens the event stream. The token goes in the handshake's header only. If the reader is slow, the connection is not
 * read, so memory stays bounded and the service notices; if a ping gets no answer for 10 s, the connection counts as
 * dead.
 * @throws RequestError for a refused handshake (its status and code), or a network error.
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
    autoPong: false,
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
    socket.once('error', (error) => reject(toFailure(error, url.origin, 'not_applied', { signal })));
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
    // The part that arrived is enough: the status already says most of it.
  }
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(answer.headers)) if (value !== undefined) headers[name] = String(value);
  const status = answer.statusCode ?? 0;
  const retryAfterMs = readRetryAfter(headers, transport.clock.now());
  const secrets = listSecrets({ authorization: `Bearer ${token}` });
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
  const pongs = holdPongs(transport, socket);
  const queue = createAsyncQueue<EventEnvelope>(() => {
    waitingBytes = 0;
    if (!isPaused) return;
    isPaused = false;
    socket.resume();
    health.restart();
  }, pongs.done);
  const health = watchHealth(transport, socket, () => isPaused);
  let epoch: string | undefined;
  socket.once('upgrade', ({ headers }) => {
    const newEpoch = headers[EPOCH_HEADER];
    if (typeof newEpoch === 'string') epoch = newEpoch;
  });
  const close = (): void => {
    closure ??= { code: 1000, reason: '' };
    health.stop();
    pongs.stop();
    socket.terminate();
    queue.end();
  };
  socket.on('error', (error) => trace?.({ kind: 'failure', text: `socket: ${error.message}` }));
  socket.on('message', (data, isBinary) => {
    health.notice();
    const event = isBinary ? undefined : decode(data);
    if (event === undefined) return;
    hasDelivered = true;
    trace?.({ kind: 'socket', text: summarize(event, getSize(data)) });
    waitingBytes += getSize(data);
    pongs.received();
    queue.push(event);
    if (isPaused || (queue.size < WAITING_MAX && waitingBytes < WAITING_MAX_BYTES)) return;
    isPaused = true;
    socket.pause();
  });
  socket.on('close', (code, reason) => {
    closure ??= { code: code === 0 ? ABNORMAL : code, reason: reason.toString('utf8').slice(0, 200) };
    trace?.({ kind: 'socket', text: `closed ${closure.code} ${redactText(closure.reason)}`.trimEnd() });
    health.stop();
    pongs.stop();
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

/**
 * A pong tells the service that what it sent before the ping arrived for good. So it waits until the reader has come back
 * after the events before it: a process that ends with unread events gets them again.
 */
function holdPongs({ clock }: Transport, socket: WebSocket) {
  let received = 0;
  let done = 0;
  let held: { readonly data: Buffer; readonly after: number; readonly cancel: () => void }[] = [];
  const pong = (data: Buffer): void => {
    if (socket.readyState === WebSocket.OPEN) socket.pong(data);
  };
  /** In their order, so that a service may count them. */
  const release = (through: number): void => {
    while (held[0] !== undefined && held[0].after <= through) {
      const [{ data, cancel }] = held;
      held = held.slice(1);
      cancel();
      pong(data);
    }
  };
  socket.on('ping', (data: Buffer) => {
    if (done >= received) return pong(data);
    const after = received;
    if (held.length >= HELD_MAX) held.pop()?.cancel();
    held.push({ data, after, cancel: clock.schedule(HELD_MAX_MS, () => release(after), true) });
  });
  return {
    received(): void {
      received += 1;
    },
    done(): void {
      done += 1;
      release(done);
    },
    stop(): void {
      for (const { cancel } of held) cancel();
      held = [];
    },
  };
}

/** Pings only while the socket is read; otherwise no pong would be seen. */
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

/** Frames that are not events (an answer to a ping, a future kind) are skipped. */
function decode(data: RawData): EventEnvelope | undefined {
  const event = readAs(EventEnvelope, parseIfJson(data.toString()));
  return event === MISFIT ? undefined : event;
}

/** Only the type of the event: its content does not belong in the network trace. */
function summarize({ type, session_id, sequence }: EventEnvelope, bytes: number): string {
  return `event ${type} ${session_id} #${sequence} (${bytes} bytes)`;
}

function getSize(data: RawData): number {
  return Array.isArray(data) ? data.reduce((sum, part) => sum + part.length, 0) : data.byteLength;
}

const DELAY_MIN_MS = 1_000;
const DELAY_MAX_MS = 30_000;
/** If a service asks for a longer pause, it is retried after this time: no person is there to see the wait. */
const POSTPONE_MAX_MS = 5 * 60_000;
/** If a connection lasted this long, or delivered something, the delays start over. */
const GOOD_MS = 5_000;

/** Dependencies of connecting. */
export interface ConnectionContext {
  readonly transport: Transport;
  readonly random: Random;
  readonly credential: Credential;
  /** Default: a new connection for this reader. */
  readonly open?: OpenSocket | undefined;
  /** Prepares the first connection and finds its address. Called again until it succeeds. */
  prepare(): Promise<SocketAddress>;
  /**
   * How often to try again before the first connection if the service is unavailable. If it is not infinite, an error of
   * `prepare` and a pause that would pass the deadline end it at once.
   */
  readonly retriesAtStart: number;
  readonly signal?: AbortSignal | undefined;
}

/** The WebSocket address, which is also the resource of its tokens. */
export interface SocketAddress {
  readonly url: string;
  /** The service does not name it. */
  readonly isGuessed: boolean;
}

/** A connection, or undefined if there is none for now. */
export type ConnectionItem =
  | {
      readonly kind: 'open';
      readonly socket: LiveSocket;
      /** Reports that a request outside the socket failed; the next connection takes it into account. */
      fail(error: RequestError): void;
    }
  | { readonly kind: 'reconnecting'; readonly attempt: number; readonly delayMs: number; readonly reason: string };

interface Failure {
  readonly reason: string;
  readonly minDelayMs: number;
}

/**
 * Connections to the event stream, one after the other, forever: request the next one when the last has ended. It
 * waits for an unavailable service, at the start and later. Each connection has its own token; a token that the
 * service refused or ended is renewed. Between connections is a random delay, up to 1 s at first and up to 30 s after
 * repeated failures.
 * @throws RequestError for errors that waiting cannot fix: a login that ended, a missing scope, a wrong address.
 */
export async function* keepConnected(context: ConnectionContext): AsyncGenerator<ConnectionItem> {
  const { transport, random, signal } = context;
  let attempt = 0;
  let rejected: string | undefined;
  let wasConnected = false;
  let address: SocketAddress | undefined;
  const findAddress = async (): Promise<SocketAddress> => {
    address ??= await context.prepare();
    return address;
  };
  while (signal?.aborted !== true) {
    const connected = await connectOnce(context, findAddress, rejected, wasConnected);
    let cause: Failure;
    let fatal: RequestError | undefined;
    if (connected.kind === 'failed') {
      rejected = undefined;
      cause = toSocketFailure(connected.error);
      const isLastTry = address === undefined || attempt >= context.retriesAtStart;
      if (!wasConnected && Number.isFinite(context.retriesAtStart)) {
        if (isLastTry) throw connected.error;
        fatal = connected.error;
      }
    } else {
      const { socket, token } = connected;
      wasConnected = true;
      let failure: RequestError | undefined;
      const fail = (error: RequestError): void => {
        failure = error;
      };
      yield { kind: 'open', socket, fail };
      socket.close();
      if (socket.hasDelivered || transport.clock.monotonic() - socket.openedAtMs >= GOOD_MS) attempt = 0;
      rejected = socket.closure?.code === CLOSE_CODE.tokenEnded ? token : undefined;
      cause = failure === undefined ? { reason: describe(socket), minDelayMs: 0 } : toSocketFailure(failure);
    }
    if (signal?.aborted) return;
    attempt += 1;
    const ceiling = backoffMs(DELAY_MIN_MS, attempt - 1, DELAY_MAX_MS);
    const delayMs = Math.max(cause.minDelayMs, Math.round(random.fraction() * ceiling));
    const { deadline = Number.POSITIVE_INFINITY } = transport;
    if (fatal !== undefined && transport.clock.monotonic() + delayMs >= deadline) throw fatal;
    yield { kind: 'reconnecting', attempt, delayMs, reason: cause.reason };
    await wait(transport.clock, delayMs, signal).catch(() => undefined);
  }
}

type Connected =
  | { readonly kind: 'connected'; readonly socket: LiveSocket; readonly token: string }
  | { readonly kind: 'failed'; readonly error: RequestError };

/** A refused token is renewed once and tried again at once. */
async function connectOnce(
  context: ConnectionContext,
  findAddress: () => Promise<SocketAddress>,
  rejectedBefore: string | undefined,
  wasConnected: boolean,
): Promise<Connected> {
  const { transport, signal, credential, open = openSocket } = context;
  let rejected = rejectedBefore;
  let isRenewed = false;
  while (true) {
    let token: string | undefined;
    try {
      const address = await findAddress();
      token = (await credential.accessToken('ws', { rejected, signal })).token;
      const opening = open({ transport, url: address.url, token, signal });
      const socket = await (address.isGuessed ? opening.catch((error) => explainGuess(error, address.url)) : opening);
      return { kind: 'connected', socket, token };
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      if (error.status === 401 && token !== undefined && !isRenewed) {
        isRenewed = true;
        rejected = token;
        continue;
      }
      if (signal?.aborted !== true && !isPassing(error, wasConnected)) throw error;
      return { kind: 'failed', error };
    }
  }
}

function toSocketFailure({ code, retryAfterMs = 0 }: RequestError): Failure {
  return { reason: code, minDelayMs: Math.min(retryAfterMs, POSTPONE_MAX_MS) };
}

/** If a guessed address refuses the connection, the error says how to set the right one. */
function explainGuess(error: unknown, url: string): never {
  const status = error instanceof RequestError ? error.status : undefined;
  const isElsewhere = status !== undefined && status < 500 && ![401, 403, 408, 425, 429].includes(status);
  if (!isElsewhere) throw error;
  throw new RequestError({
    code: 'ASP_DISCOVERY',
    message: `The service publishes no metadata, and its WebSocket is not at ${url}. Set its address with asp profile add --ws-url.`,
    status,
    isRetryable: false,
    cause: error,
  });
}

/**
 * Errors that may go away: the network, a busy or broken service; once connected, also the requests before the
 * connection.
 */
function isPassing(error: RequestError, wasConnected: boolean): boolean {
  if (error.isRetryable) return true;
  return wasConnected && (error.code === 'ASP_TLS' || error.code === 'ASP_BAD_ANSWER');
}

function describe(socket: LiveSocket): string {
  const { code, reason } = socket.closure ?? { code: 1006, reason: '' };
  return reason === '' ? `closed ${code}` : `closed ${code}: ${reason}`;
}
