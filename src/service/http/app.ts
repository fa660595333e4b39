import { readFileSync } from 'node:fs';
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerOptions,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { FastifyInstance, FastifyReply } from 'fastify';
import Fastify from 'fastify';
import type { Clock } from '../../kit/clock.js';
import { isLoopbackHost, isLoopbackPeer } from '../../kit/loopback.js';
import type { Random } from '../../kit/random.js';
import { beatEvery } from '../../kit/repeat.js';
import { HEALTH_PATH, REQUEST_ID_HEADER } from '../../wire/http.js';
import { REQUESTS_PER_ADDRESS_MAX } from '../../wire/limit.js';
import type { Log } from '../core/context.js';
import { OperatorError, ServiceError, shuttingDown } from '../core/errors.js';
import type { Meter } from '../core/meter.js';
import { rareWarning } from '../core/rare-warning.js';
import { describeScope, follow, openScope, type RequestScope, scopeOf, unfollow } from '../core/request-scope.js';
import { createSemaphore } from '../core/semaphore.js';
import type { Tracer, Watchers } from '../core/tracer.js';
import { toNetwork, toWiderNetwork, WIDER_FACTOR } from '../oauth/attempts.js';
import {
  type Answer,
  answerOfError,
  answerWith,
  createOtherMethods,
  GET_AND_HEAD,
  JSON_TYPE,
  type OtherMethods,
  PATH_PARAMETER_MAX_LENGTH,
  sendAnswer,
  toAnswer,
} from './answers.js';
import type { ServerCertificate } from './certificate.js';

/** Writes an answer on a connection that has no response object, and closes it. */
export function writeRawAnswer(socket: Duplex, answer: Answer): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const lines = [`HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status] ?? 'Error'}`];
  for (const [name, value] of answer.headers) if (name !== 'connection') lines.push(`${name}: ${value}`);
  lines.push(`content-length: ${Buffer.byteLength(answer.body)}`, 'connection: close', '', answer.body);
  socket.once('finish', () => socket.destroy());
  socket.end(lines.join('\r\n'));
}

const LOOK_MS = 5_000;
/** The minimum size of a body between two checks: 1 KiB a second. */
const BODY_PROGRESS_BYTES = 5 * 1024;
const STALLED_LOOKS_MAX = 30_000 / LOOK_MS;

/** A request and its answer, from its first hook until its connection is done with it. */
interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly onDone: (() => void)[];
  /** At the last check: the bytes received, if the service was waiting for the body; and the bytes sent. */
  bytesRead: number | undefined;
  bytesWritten: number;
  /** The number of checks in a row without progress of the answer. */
  stalledLooks: number;
}

interface Connection {
  readonly exchanges: Map<ServerResponse, Exchange>;
  readonly onClose: () => void;
}

/**
 * All requests in progress, by connection. It ends those whose peer neither sends nor reads: a body that brings less
 * than 1 KiB a second, and an answer of which nothing has moved for 30 seconds. Otherwise the peer could hold memory
 * for as long as it likes.
 */
export interface Exchanges {
  begin(request: IncomingMessage, response: ServerResponse): void;
  /** Runs `listener` once the answer has been sent completely, or never will be. */
  whenDone(response: ServerResponse, listener: () => void): void;
  on(socket: unknown): readonly ServerResponse[];
  /** Resolves when a connection has no open request. */
  whenFree(socket: Duplex): Promise<void>;
  isDraining(): boolean;
  /** Sets `isDraining`; resolves when no request is open. */
  drain(): Promise<void>;
}

function createExchanges(clock: Clock): Exchanges {
  const connections = new Map<unknown, Connection>();
  let stopLooking: (() => void) | undefined;
  let finish: (() => void) | undefined;

  const end = (socket: Socket, response: ServerResponse): void => {
    const connection = connections.get(socket);
    const exchange = connection?.exchanges.get(response);
    if (connection === undefined || exchange === undefined) return;
    connection.exchanges.delete(response);
    for (const listener of exchange.onDone) listener();
    if (connection.exchanges.size > 0) return;
    connections.delete(socket);
    socket.off('close', connection.onClose);
    if (connections.size > 0) return;
    stopLooking?.();
    stopLooking = undefined;
    finish?.();
  };
  const open = (socket: Socket): Connection => {
    const exchanges: Connection['exchanges'] = new Map();
    // If a connection has several answers, only the first learns that the connection is gone.
    const onClose = (): void => {
      for (const response of [...exchanges.keys()]) end(socket, response);
    };
    socket.once('close', onClose);
    const connection = { exchanges, onClose };
    connections.set(socket, connection);
    return connection;
  };
  const look = (): void => {
    for (const { exchanges } of connections.values())
      for (const exchange of exchanges.values()) endIfStalled(exchange, exchanges.size === 1);
  };
  const on = (socket: unknown): ServerResponse[] => [...(connections.get(socket)?.exchanges.keys() ?? [])];

  return {
    begin(request, response) {
      const { socket } = request;
      const { exchanges } = connections.get(socket) ?? open(socket);
      exchanges.set(response, {
        request,
        response,
        onDone: [],
        bytesRead: undefined,
        bytesWritten: 0,
        stalledLooks: 0,
      });
      response.once('close', () => end(socket, response));
      stopLooking ??= beatEvery(clock, LOOK_MS, look);
    },
    whenDone(response, listener) {
      const exchange = connections.get(response.req.socket)?.exchanges.get(response);
      if (exchange === undefined) listener();
      else exchange.onDone.push(listener);
    },
    on,
    async whenFree(socket) {
      await Promise.all(on(socket).map((response) => new Promise((resolve) => response.once('close', resolve))));
    },
    isDraining: () => finish !== undefined,
    drain: () =>
      new Promise((resolve) => {
        finish = resolve;
        if (connections.size === 0) resolve();
      }),
  };
}

/** `isAlone`: the connection is sending no other answer, so ours cannot be mistaken for it. */
function endIfStalled(exchange: Exchange, isAlone: boolean): void {
  const { request, response } = exchange;
  const { socket } = request;
  const isSenderAwaited = !request.complete && request.readableFlowing === true && request.readableLength === 0;
  const wasAwaitedFrom = exchange.bytesRead;
  exchange.bytesRead = isSenderAwaited ? socket.bytesRead : undefined;
  if (isSenderAwaited && wasAwaitedFrom !== undefined && socket.bytesRead - wasAwaitedFrom < BODY_PROGRESS_BYTES) {
    if (response.headersSent || !isAlone) socket.destroy();
    else writeRawAnswer(socket, toAnswer(new ServiceError('VALIDATION_ERROR', TOO_SLOW, { status: 408 })));
    return;
  }
  const isUnread = socket.writableLength > 0 && socket.bytesWritten === exchange.bytesWritten;
  exchange.bytesWritten = socket.bytesWritten;
  exchange.stalledLooks = isUnread ? exchange.stalledLooks + 1 : 0;
  if (exchange.stalledLooks >= STALLED_LOOKS_MAX) socket.destroy();
}

const TOO_SLOW = 'The body arrived too slowly.';

const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 120_000;
const KEEP_ALIVE_MS = 72_000;
const TIMEOUT_CHECK_MS = 2_000;
const HEADERS_MAX_BYTES = 16 * 1024;
const CONNECTIONS_MAX = 10_000;
/** Of these, connections that have not sent the head of a request yet. */
const NEW_CONNECTIONS_MAX = 1_000;
/** Open files of the process that are neither connections to this server nor their attachments. */
const OTHER_FILES_MAX = 256;
const REQUESTS_PER_CONNECTION_MAX = 100_000;

/** Error codes of Node's parser for requests that have their own status. */
const PARSER_STATUS: Record<string, number> = {
  HPE_HEADER_OVERFLOW: 431,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

/**
 * Connections are open files, too, and each may send or receive an attachment, which is another one: with as many as the
 * process may have, nothing else could be opened.
 */
function connectionsMax(): number {
  const files = openFilesMax();
  return Math.min(CONNECTIONS_MAX, Math.max(Math.floor((files - OTHER_FILES_MAX) / 2), Math.floor(files / 3)));
}

/** Only Linux says how many files a process may open without a slow report; elsewhere it is a lot. */
function openFilesMax(): number {
  try {
    const [, files] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return files === undefined ? Number.POSITIVE_INFINITY : Number(files);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/**
 * A server that limits what a stranger can hold open, and that answers every refusal itself instead of Node. It speaks TLS if
 * it has a certificate.
 */
export function createHttpServer(listener: RequestListener, certificate?: ServerCertificate): Server {
  const options = {
    headersTimeout: HEADERS_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    connectionsCheckingInterval: TIMEOUT_CHECK_MS,
    maxHeaderSize: HEADERS_MAX_BYTES,
    // Node itself would refuse a request without Host, but without the envelope; the host guard does it instead.
    requireHostHeader: false,
  };
  const server =
    certificate === undefined ? createServer(options, listener) : createEncrypted(options, listener, certificate);
  server.maxConnections = connectionsMax();
  server.maxRequestsPerSocket = REQUESTS_PER_CONNECTION_MAX;
  makeRoom(server);
  server.on('connect', (_request, socket) => {
    socket.on('error', () => {});
    writeRawAnswer(socket, refusal(405));
  });
  server.on('checkExpectation', (_request, response) => {
    const answer = refusal(417);
    for (const [name, value] of answer.headers) response.setHeader(name, value);
    response.writeHead(answer.status, { connection: 'close', 'content-length': Buffer.byteLength(answer.body) });
    response.end(answer.body);
  });
  return server;
}

function createEncrypted(options: ServerOptions, listener: RequestListener, certificate: ServerCertificate): Server {
  const handshake = { handshakeTimeout: HEADERS_TIMEOUT_MS };
  const server = createTlsServer({ ...options, ...certificate.options, ...handshake }, listener);
  certificate.attach(server);
  // Without a finished handshake, an answer could not be encrypted and would wait forever.
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  return server;
}

const freshConnections = new WeakMap<Server, Map<string, Socket>>();

/** Notes that a connection has made a request: a handshake, which is not an event of the server's own. */
export function noteHandshake(server: Server, socket: Duplex): void {
  freshConnections.get(server)?.delete(peerOf(socket as Socket));
}

/** Names a connection. With TLS, a request's socket is not the one that was accepted, but has the same peer. */
const peerOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`;

/**
 * Before its first request a connection has no known caller, and connections that never send one could keep everyone
 * else out. The oldest is closed first, because a real client sends its request at once. If there is no room at all,
 * idle connections that have had an answer are closed, which clients must expect (RFC 9112 §9.5).
 */
function makeRoom(server: Server): void {
  const fresh = new Map<string, Socket>();
  freshConnections.set(server, fresh);
  const forget = ({ socket }: { readonly socket: Socket }): void => {
    fresh.delete(peerOf(socket));
  };
  const known = new WeakSet<Duplex>();
  server.on('connection', (socket: Socket) => {
    // It comes again after each proposal of another protocol that is not accepted, and has made a request by then.
    if (known.has(socket)) return;
    known.add(socket);
    const peer = peerOf(socket);
    fresh.set(peer, socket);
    socket.once('close', () => {
      if (fresh.get(peer) === socket) fresh.delete(peer);
    });
    const [oldest] = fresh.values();
    if (fresh.size > NEW_CONNECTIONS_MAX) oldest?.destroy();
  });
  // Not 'upgrade': with a listener for it, Node.js would leave handshakes unanswered until a listener answers them.
  for (const event of ['request', 'connect', 'checkExpectation']) server.on(event, forget);
  server.on('drop', () => server.closeIdleConnections());
}

/**
 * Answers a request that could not be parsed. If another answer is being sent, or an earlier request is still open,
 * ours would be mistaken for its answer: then the connection just ends.
 */
function answerUnparsable(error: Error & { code?: string }, socket: Duplex, inWork: readonly ServerResponse[]): void {
  const isFree = inWork.every((response) => !response.headersSent && !response.req.complete);
  if (error.code === 'ECONNRESET' || inWork.length > 1 || !isFree) socket.destroy();
  else writeRawAnswer(socket, refusal(PARSER_STATUS[error.code ?? ''] ?? 400));
}

function refusal(status: number) {
  return toAnswer(new ServiceError('VALIDATION_ERROR', 'The request is not valid HTTP for this service.', { status }));
}

export interface AppOptions {
  /** Already bound; it gets the handler for its requests. */
  readonly server: Server;
  readonly useListener: (listener: RequestListener) => void;
  readonly guardHost: HostGuard;
  readonly isBehindProxy: boolean;
  /** The address that the server is bound to. */
  readonly host: string;
  /** Where the REST interface publishes its metadata. The operator interface has none. */
  readonly metadataUrl?: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly tracer?: Tracer | undefined;
  /** Whether the lines that the work for a request logs, and its spans, name the request. The answer's own always do. */
  readonly isFollowed: (request: IncomingMessage) => boolean;
  readonly log: Log;
  readonly meter: Meter;
}

export interface App {
  readonly fastify: FastifyInstance;
  readonly otherMethods: OtherMethods;
  readonly exchanges: Exchanges;
  /** From now on each connection ends with its next answer. */
  leave(): void;
}

/** What a part of the service needs to register its addresses. */
export type AddressBook = Pick<App, 'fastify' | 'otherMethods'>;

/** The common part of all HTTP in the service: the guard, the envelope for errors, and sending. */
export function createApp(options: AppOptions): App {
  const exchanges = createExchanges(options.clock);
  const otherMethods = createOtherMethods();
  let isLeaving = false;
  const answerError = (error: unknown, reply: FastifyReply): FastifyReply =>
    sendAnswer(reply, answerOfError(error, options.log, scopeOf(reply.request.raw), options.metadataUrl), options.log);
  const fastify = Fastify({
    serverFactory: (listener) => {
      options.useListener((request, response) => {
        const scope = openScope(request, options);
        response.setHeader(REQUEST_ID_HEADER, scope.requestId);
        if (options.isFollowed(request)) {
          response.once('close', () => unfollow(request));
          follow(request, scope, () => listener(request, response));
        } else listener(request, response);
      });
      return options.server;
    },
    clientErrorHandler: (error, socket) => answerUnparsable(error, socket, exchanges.on(socket)),
    frameworkErrors: (error, _request, reply) => answerError(error, reply),
    rewriteUrl: ({ url = '' }) => (isDecodable(url) ? url : url.replaceAll('%', '%25')),
    // Only the proxy's own entry: the earlier ones in the header come from the caller.
    trustProxy: options.isBehindProxy && ((_address, hop) => hop === 0),
    exposeHeadRoutes: false,
    return503OnClosing: false,
    forceCloseConnections: false,
    routerOptions: { maxParamLength: PATH_PARAMETER_MAX_LENGTH },
  });
  fastify.addHook('onRequest', (request, reply, done) => {
    exchanges.begin(request.raw, reply.raw);
    if (exchanges.isDraining()) throw shuttingDown();
    // A load balancer then opens its next connection to another service.
    if (isLeaving) reply.raw.shouldKeepAlive = false;
    options.guardHost(request.raw);
    // On its own, Node.js sends the time of the machine.
    if (options.clock.isSystem !== true) reply.raw.setHeader('date', new Date(options.clock.now()).toUTCString());
    done();
  });
  if (seesAddresses(options)) boundByAddress(fastify, exchanges);
  const warnFull = rareWarning(options, 'connections_full');
  options.server.on('drop', () => {
    const { maxConnections } = options.server;
    const why = maxConnections < CONNECTIONS_MAX ? ': more need a higher limit on open files (ulimit -n)' : '';
    warnFull(
      new Error(`All ${maxConnections} connections are in use${why}. New ones are refused, idle ones are closed.`),
    );
  });
  const { debug } = options.log;
  if (debug !== undefined)
    fastify.addHook('onRequest', (request, _reply, done) => {
      debug('request_received', { method: request.method, address: request.ip });
      done();
    });
  fastify.addHook('onResponse', (request, reply, done) => {
    // The route, not the address: it contains no ids, handles or signatures (D-59).
    const { url = '*' } = request.routeOptions;
    const route = url.endsWith('*') ? (otherMethods.routeOf(request.raw) ?? 'none') : url;
    const { method } = request;
    const { statusCode: status, elapsedTime } = reply;
    options.meter.answered({ method, route, status, ms: elapsedTime });
    watchAnswer(options, scopeOf(request.raw), { method, route, status, ms: elapsedTime });
    done();
  });
  // Each scope says which bodies it reads; elsewhere none is read, so that an unknown address always gets the same
  // answer, no matter what was sent.
  fastify.removeAllContentTypeParsers();
  fastify.addContentTypeParser('*', (_request, _payload, done) => done(null));
  fastify.setErrorHandler((error, _request, reply) => answerError(error, reply));
  fastify.setNotFoundHandler((request, reply) => {
    const refusal = otherMethods.answer(request, reply);
    if (refusal === undefined) throw new ServiceError('NOT_FOUND');
    return refusal;
  });
  fastify.get(HEALTH_PATH, GET_AND_HEAD, (_request, reply) =>
    sendAnswer(reply, answerWith(200, JSON_TYPE, '{"ok":true}'), options.log),
  );
  return {
    fastify,
    otherMethods,
    exchanges,
    leave() {
      isLeaving = true;
    },
  };
}

/** A path that is not percent-encoded UTF-8 names something that does not exist, so it is routed as it is written. */
function isDecodable(url: string): boolean {
  if (!url.includes('%')) return true;
  try {
    decodeURIComponent(url.split('?', 1)[0] ?? '');
    return true;
  } catch {
    return false;
  }
}

interface RequestAnswered {
  readonly method: string;
  readonly route: string;
  readonly status: number;
  readonly ms: number;
}

/** Writes the access log line of a request, and its span. */
export function watchAnswer(
  { clock, log, tracer }: Watchers,
  scope: RequestScope | undefined,
  { ms, ...answer }: RequestAnswered,
): void {
  if (tracer !== undefined && scope?.trace?.isSampled === true)
    tracer.record({
      trace: scope.trace,
      kind: 'server',
      name: `${answer.method} ${answer.route}`,
      endedAtMs: clock.now(),
      ms,
      attributes: {
        'http.request.method': answer.method,
        'http.route': answer.route,
        'http.response.status_code': answer.status,
        'asp.request_id': scope.requestId,
      },
      error: answer.status < 500 ? undefined : String(answer.status),
    });
  const fields = { ...answer, ms: Math.round(ms), ...describeScope(scope) };
  if (answer.status < 500) log.info('request', fields);
  else log.warn('request', undefined, fields);
}

/** Before authentication, only the address tells strangers apart. */
function boundByAddress(fastify: FastifyInstance, exchanges: Exchanges): void {
  const refusal = 'Too many requests from this address are in progress.';
  const ofAddresses = createSemaphore({ max: REQUESTS_PER_ADDRESS_MAX, waitingMax: 0, refusal });
  const ofWiderNetworks = createSemaphore({ max: WIDER_FACTOR * REQUESTS_PER_ADDRESS_MAX, waitingMax: 0, refusal });
  fastify.addHook('onRequest', async (request, reply) => {
    exchanges.whenDone(reply.raw, await ofAddresses.acquire(toNetwork(request.ip)));
    const wider = toWiderNetwork(request.ip);
    if (wider !== undefined) exchanges.whenDone(reply.raw, await ofWiderNetworks.acquire(wider));
  });
}

const WHOLE_URL = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)/i;
const HOST_LENGTH = 'host'.length;
const HOST = /^(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i;

/** Refuses a request whose `Host` is missing, malformed or not this service's. */
export type HostGuard = (request: Pick<IncomingMessage, 'headers' | 'rawHeaders' | 'url'>) => void;

/**
 * `names`: the host names of a loopback service, or undefined if it is not on loopback. If a page of another site has
 * its name resolved to 127.0.0.1, it still sends its own name (DNS rebinding).
 */
export function createHostGuard(names: ReadonlySet<string> | undefined): HostGuard {
  return ({ headers, rawHeaders, url = '' }) => {
    // With two Host headers, a proxy in front of us may have used the other one (RFC 9112 §3.2).
    const isOne = countHosts(rawHeaders) === 1;
    // A whole URL as the request target takes precedence over Host (RFC 9112 §3.2.2).
    const host = WHOLE_URL.exec(url)?.[1] ?? headers.host;
    if (host === undefined || !isOne || !HOST.test(host))
      throw new ServiceError('VALIDATION_ERROR', 'The Host header is not valid.');
    if (names !== undefined && !names.has(host.toLowerCase()))
      throw new ServiceError('FORBIDDEN', 'This service does not use that name.');
  };
}

/** Names and values alternate. Not `headersDistinct`, which would collect the values of every header. */
function countHosts(rawHeaders: readonly string[]): number {
  let count = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? '';
    if (name.length === HOST_LENGTH && name.toLowerCase() === 'host') count += 1;
  }
  return count;
}

/** The names of a service that is bound to a loopback address. */
export function loopbackNames(port: number, publicUrl: string): ReadonlySet<string> {
  const names = ['127.0.0.1', 'localhost', '[::1]'].map((name) => (port === 80 ? name : `${name}:${port}`));
  return new Set([...names, new URL(publicUrl).host]);
}

/** After a restart all clients connect at once; those without a place would wait for TCP to try again. */
const BACKLOG_MAX = 4_096;

/** Binds the server; returns its port. */
export async function listen(server: Server, host: string, port: number): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(toStartError(error, host, port)));
    // One spelling of the loopback address, like everywhere else.
    const address = host === 'localhost' ? '127.0.0.1' : host.replace(/^\[|\]$/g, '');
    server.listen({ host: address, port, backlog: BACKLOG_MAX }, resolve);
  });
  return (server.address() as AddressInfo).port;
}

/** Accepts no more connections; resolves when the open ones have ended. */
export function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}

/** Ends all connections. Node's own function leaves those alone whose TLS handshake is not finished. */
export function endConnections(server: Server): void {
  server.closeAllConnections();
  for (const socket of freshConnections.get(server)?.values() ?? []) socket.destroy();
}

/** Accepts no more connections, and ends the open ones. */
export async function endServer(server: Server): Promise<void> {
  const closed = closeServer(server);
  endConnections(server);
  await closed;
}

/** Whether the requests of a server come from different addresses: on loopback, only a proxy tells callers apart. */
export function seesAddresses({ host, isBehindProxy }: Pick<AppOptions, 'host' | 'isBehindProxy'>): boolean {
  return isBehindProxy || !isLoopbackHost(host);
}

/** The URL of a server at this address. */
export function toOrigin(host: string, port: number, isEncrypted: boolean): string {
  const isBareV6 = host.includes(':') && !host.startsWith('[');
  return new URL(`${isEncrypted ? 'https' : 'http'}://${isBareV6 ? `[${host}]` : host}:${port}`).origin;
}

function toStartError(error: Error & { code?: string }, host: string, port: number): OperatorError {
  if (error.code === 'EADDRINUSE')
    return new OperatorError('PORT_IN_USE', `Port ${port} on ${host} is in use by another program.`, error);
  return new OperatorError('ADDRESS_NOT_AVAILABLE', `Cannot listen on ${host}:${port} (${error.code}).`, error);
}

/** Headers that a proxy adds; a proxy on this machine makes every peer look local. */
const TRACES = ['forwarded', 'via', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip'];

/** Whether a request comes from a program on this machine, and not through a proxy. */
export function isFromThisMachine({ socket, headers }: IncomingMessage): boolean {
  return isLoopbackPeer(socket.remoteAddress) && TRACES.every((name) => headers[name] === undefined);
}
