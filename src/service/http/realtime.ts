import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { wait } from '../../kit/clock.js';
import { repeat } from '../../kit/repeat.js';
import { REQUEST_ID_HEADER } from '../../wire/http.js';
import { SOCKET_FRAME_MAX_BYTES, SOCKETS_PER_AGENT_MAX } from '../../wire/limit.js';
import { CLOSE_CODE, EPOCH_HEADER, SOCKET_PATH } from '../../wire/realtime.js';
import type { AgentActor, OwnProcess, ServiceContext } from '../core/context.js';
import { isShared } from '../core/database.js';
import { ServiceError, shuttingDown } from '../core/errors.js';
import { follow, openScope, scopeOf, unfollow } from '../core/request-scope.js';
import { createSemaphore } from '../core/semaphore.js';
import { Feed } from '../messaging/feed.js';
import { LiveSocket, type SocketOwner, Upkeep } from '../messaging/live-socket.js';
import { createPresence } from '../messaging/presence.js';
import type { TokenVerifier, VerifiedToken } from '../oauth/access-tokens.js';
import { resourceMetadataUrl } from '../oauth/metadata.js';
import { listRevokedSockets } from '../store/processes.js';
import { answerOfError, toAnswer } from './answers.js';
import { type HostGuard, noteHandshake, watchAnswer, writeRawAnswer } from './app.js';
import { logCaller, readBearer, requireScopes } from './pipeline.js';
import { BASE_PATH } from './rest.js';

/** A request in which a client proposed another protocol; `head` is the data after its headers. */
interface Proposal {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
}

const OF_THE_PROPOSAL: ReadonlySet<string> = new Set(['upgrade', 'http2-settings']);

/**
 * Answers a proposed upgrade by continuing as before (RFC 9110 §7.8): Java's client sends `Upgrade: h2c` with its first
 * request. Node has detached the connection, so the server gets it again, with the request as it would have been
 * without the proposal.
 */
function keepToHttp(server: Server, { request, socket, head }: Proposal): void {
  if (socket.destroyed) return;
  const lines = [`${request.method} ${request.url} HTTP/${request.httpVersion}`];
  for (const [name, value] of listFields(request)) {
    const kept = name.toLowerCase() === 'connection' ? withoutProposal(value) : value;
    if (!OF_THE_PROPOSAL.has(name.toLowerCase())) lines.push(`${name}: ${kept}`);
  }
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]));
  // To a server with TLS, 'connection' would mean TLS within TLS.
  server.emit('encrypted' in socket ? 'secureConnection' : 'connection', socket);
}

function* listFields({ rawHeaders }: IncomingMessage): Generator<readonly [name: string, value: string]> {
  for (let index = 0; index + 1 < rawHeaders.length; index += 2)
    yield [rawHeaders[index] ?? '', rawHeaders[index + 1] ?? ''];
}

function withoutProposal(connection: string): string {
  const options = connection.split(',').map((option) => option.trim());
  return options.filter((option) => !OF_THE_PROPOSAL.has(option.toLowerCase())).join(', ');
}

/** The addresses of the socket (wire: Aliases). */
const PATHS: ReadonlySet<string> = new Set([SOCKET_PATH, '/', `${BASE_PATH}${SOCKET_PATH}`]);

const VERSION_HEADER = 'sec-websocket-version';
const VERSION = '13';

/** 16 bytes in base64 (RFC 6455 §4.1). */
const KEY = /^[+/0-9A-Za-z]{22}==$/;

/** One of the slots for an agent's sockets. */
interface SocketHost {
  readonly actor: AgentActor & VerifiedToken;
  /** Call this once the socket is closed, or if it never opened. */
  release(): void;
}

/** Decides on handshakes. Refusals happen before the protocol is switched, as an error of the API. */
function createAdmission(context: ServiceContext, verifier: TokenVerifier, guardHost: HostGuard) {
  const sockets = createSemaphore({
    max: SOCKETS_PER_AGENT_MAX,
    waitingMax: 0,
    refusal: 'This agent has too many sockets open.',
  });
  return async (request: IncomingMessage): Promise<SocketHost> => {
    guardHost(request);
    requireHandshake(request);
    const actor = await verifier.verify(readBearer(request.headers.authorization), context.settings.addresses.wsUrl);
    if (actor.kind !== 'agent') throw new ServiceError('FORBIDDEN');
    requireScopes(['realtime:read'], actor);
    logCaller(context.log, actor);
    await context.limits.take('general', actor.agentId);
    return { actor, release: await sockets.acquire(actor.agentId) };
  };
}

/** An Origin does not matter: no web page can set the Authorization header of a handshake, and some programs send one. */
function requireHandshake({ method, url = '', headers }: IncomingMessage): void {
  const [path = ''] = url.split('?', 1);
  if (!PATHS.has(path)) throw new ServiceError('NOT_FOUND');
  const isHandshake =
    method === 'GET' &&
    headers.upgrade?.toLowerCase() === 'websocket' &&
    KEY.test(headers['sec-websocket-key'] ?? '') &&
    headers[VERSION_HEADER] === VERSION;
  if (!isHandshake)
    throw new ServiceError('VALIDATION_ERROR', `This address accepts only a WebSocket handshake, version ${VERSION}.`);
}

const POLL_MS = 1_000;
const HANDSHAKE_MAX_MS = 30_000;

/**
 * Closes the sockets of this process whose grant is revoked (spec: POST /revoke). The notification says when to check,
 * and the store says which sockets; a lost notification, or one that came during a handshake, costs a second. The
 * returned function stops it.
 */
function closeRevoked(
  context: ServiceContext,
  processId: string,
  sockets: ReadonlySet<LiveSocket>,
): () => Promise<void> {
  const look = async (): Promise<void> => {
    if (sockets.size === 0) return;
    const ids = new Set(await context.database.read((query) => listRevokedSockets(query, processId)));
    if (ids.size === 0) return;
    for (const socket of sockets) if (ids.has(socket.socketId)) socket.close(CLOSE_CODE.tokenEnded, 'token revoked');
  };
  const { bus, clock } = context;
  /** A handshake that was in progress when a grant was revoked has ended by then. */
  let lookUntilMs = Number.NEGATIVE_INFINITY;
  const lookAgain = async (): Promise<void> => {
    if (!bus.isReliable || clock.monotonic() < lookUntilMs) await look();
  };
  const onFault = (error: unknown): void => context.log.error('revocations_failed', error);
  const isOurs = (grantId: string): boolean => [...sockets].some((socket) => socket.grantId === grantId);
  const stopListening = bus.listen((signal) => {
    if (signal.kind !== 'revoked') return;
    lookUntilMs = clock.monotonic() + HANDSHAKE_MAX_MS;
    if (isOurs(signal.grantId)) look().catch(onFault);
  });
  const stopLooking = repeat(clock, POLL_MS, lookAgain, onFault);
  return async () => {
    stopListening();
    await stopLooking();
  };
}

const CLOSING_HANDSHAKE_MS = 5_000;
const FRAGMENTS_MAX = 64;
const CHUNKS_MAX = 1_024;
const WEBSOCKET = /(?:^|,)\s*websocket\s*(?:,|$)/i;

const PROTOCOL = {
  noServer: true,
  clientTracking: false,
  perMessageDeflate: false,
  maxPayload: SOCKET_FRAME_MAX_BYTES,
  maxFragments: FRAGMENTS_MAX,
  maxBufferedChunks: CHUNKS_MAX,
  closeTimeout: CLOSING_HANDSHAKE_MS,
};

export interface Realtime {
  /** Stops accepting handshakes. */
  refuseNew(): void;
  /** Closes the open sockets one after the other, which does not count as anyone's absence, and resolves when they are gone. */
  closeSockets(): Promise<void>;
  /** Closes the sockets of one agent with this code, or without a closing handshake. Returns their number. */
  closeSocketsOf(agentId: string, code: number | undefined): number;
  /** Call this once they are gone. */
  stop(): Promise<void>;
}

export interface RealtimeOptions {
  readonly verifier: TokenVerifier;
  readonly guardHost: HostGuard;
  readonly own: OwnProcess;
  /** Resolves when a connection has no open request. */
  readonly whenFree: (socket: Duplex) => Promise<void>;
  /** Whether the lines that the work for a handshake logs, and its spans, name it. The answer's own always do. */
  readonly isFollowed: boolean;
}

/** Answers the WebSocket handshakes of `server`, and gives each socket the events of its agent. */
export async function attachRealtime(
  server: Server,
  context: ServiceContext,
  { verifier, guardHost, whenFree, own, isFollowed }: RealtimeOptions,
): Promise<Realtime> {
  const admit = createAdmission(context, verifier, guardHost);
  const sockets = new Set<LiveSocket>();
  const presence = createPresence(context, own, sockets);
  const feed = new Feed(context, own.processId);
  const upgrade = createUpgrade(context);
  const upkeep = new Upkeep(context.clock);
  let isStopping = false;
  const requireRunning = (): void => {
    if (isStopping) throw shuttingDown();
  };
  const open = (live: LiveSocket, since: number, onClosed: () => void): void => {
    keepIn(sockets, live, onClosed);
    feed.add(live, since);
  };
  const createOnClosed = (owner: SocketOwner, release: () => void) => (): void => {
    release();
    presence.closed(owner).catch((error) => context.log.error('presence_failed', error));
  };
  // What lives as long as the socket must not share a scope with the handshake: it would keep the request in memory.
  const accept = async (handshake: Proposal, { actor, release }: SocketHost): Promise<void> => {
    const { agentId, grantId, expiresAtMs } = actor;
    const owner = { socketId: context.ids.ulid(), agentId, grantId, expiresAtMs };
    const onClosed = createOnClosed(owner, release);
    const scope = scopeOf(handshake.request);
    try {
      const since = await presence.opened(owner);
      requireRunning();
      const isUpgraded = upgrade(handshake, (ws) =>
        open(new LiveSocket(context, upkeep, owner, { ws, connection: handshake.socket, scope }), since, onClosed),
      );
      if (!isUpgraded) onClosed();
    } catch (error) {
      onClosed();
      throw error;
    }
  };
  await presence.start();
  const stopClosing = closeRevoked(context, own.processId, sockets);
  const stopWatchingEpochs = closeOnNewEpoch(context, sockets);

  onUpgrade(server, context, { whenFree, isFollowed }, async (handshake) => {
    requireRunning();
    await accept(handshake, await admit(handshake.request));
  });

  return {
    refuseNew() {
      isStopping = true;
    },
    async closeSockets() {
      isStopping = true;
      presence.release();
      await closeAll(context, sockets);
      feed.stop();
    },
    closeSocketsOf(agentId, code) {
      const concerned = [...sockets].filter((socket) => socket.agentId === agentId);
      for (const socket of concerned)
        if (code === undefined) socket.drop();
        else socket.close(code, 'asked to close');
      return concerned.length;
    },
    async stop() {
      stopWatchingEpochs();
      await stopClosing();
      await presence.stop();
    },
  };
}

/** Delivered events may be gone; clients find out when they reconnect. */
function closeOnNewEpoch({ database, log }: ServiceContext, sockets: ReadonlySet<LiveSocket>): () => void {
  if (!isShared(database)) return () => {};
  return database.onNewEpoch(() => {
    log.info('new_epoch', { sockets: sockets.size });
    for (const socket of sockets) socket.close(CLOSE_CODE.outOfTouch, 'the data was restored');
  });
}

function keepIn(sockets: Set<LiveSocket>, live: LiveSocket, onClosed: () => void): void {
  sockets.add(live);
  live.onClosed(() => {
    sockets.delete(live);
    onClosed();
  });
}

/** Errors that `answer` throws become the answer of the handshake. */
function onUpgrade(
  server: Server,
  context: ServiceContext,
  { whenFree, isFollowed }: Pick<RealtimeOptions, 'whenFree' | 'isFollowed'>,
  answer: (handshake: Proposal) => Promise<void>,
): void {
  const metadataUrl = resourceMetadataUrl(context.settings.addresses.wsUrl);
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    noteHandshake(server, socket);
    // A peer may reset the connection at any moment from here on.
    const onError = () => socket.destroy();
    socket.on('error', onError);
    if (!WEBSOCKET.test(request.headers.upgrade ?? '')) {
      const goOn = () => keepToHttp(server, { request, socket: socket.off('error', onError), head });
      return void whenFree(socket).then(goOn);
    }
    const answered = async (): Promise<void> => {
      await context.faults?.beforeHandshake();
      await answer({ request, socket, head });
    };
    const scope = openScope(request, context);
    const startedMs = context.clock.monotonic();
    const logStatus = (status: number): void =>
      watchAnswer(context, scope, {
        ...{ method: request.method ?? '', route: SOCKET_PATH, status },
        ms: context.clock.monotonic() - startedMs,
      });
    const end = (): Promise<void> =>
      answered().then(
        () => {
          // `ws` listens now, and this listener would keep the request in memory.
          socket.off('error', onError);
          logStatus(101);
        },
        (error) => {
          const refusal = answerOfError(error, context.log, scope, metadataUrl);
          const headers: [string, string][] = [[REQUEST_ID_HEADER, scope.requestId]];
          // A client of another version learns which one to use (RFC 6455 §4.4).
          if (request.headers[VERSION_HEADER] !== VERSION) headers.push([VERSION_HEADER, VERSION]);
          writeRawAnswer(socket, { ...refusal, headers: [...refusal.headers, ...headers] });
          logStatus(refusal.status);
        },
      );
    if (isFollowed) void follow(request, scope, end).finally(() => unfollow(request));
    else void end();
  });
}

type Upgrade = (handshake: Proposal, open: (ws: WebSocket) => void) => boolean;

/** The protocol itself, without its own listening, paths and refusals. False: the connection failed. */
function createUpgrade({ database }: ServiceContext): Upgrade {
  const server = new WebSocketServer(PROTOCOL);
  server.on('headers', (headers, request) => {
    headers.push(`${EPOCH_HEADER}: ${database.epoch().token}`);
    const scope = scopeOf(request);
    if (scope !== undefined) headers.push(`${REQUEST_ID_HEADER}: ${scope.requestId}`);
  });
  server.on('wsClientError', (_error, socket) =>
    writeRawAnswer(socket, toAnswer(new ServiceError('VALIDATION_ERROR'))),
  );
  return ({ request, socket, head }, open) => {
    let isOpen = false;
    server.handleUpgrade(request, socket, head, (ws) => {
      isOpen = true;
      open(ws);
    });
    return isOpen;
  };
}

/** 2,500 clients a second come back to the other services, or all of them in this time. */
const CLOSING_MAX_MS = 4_000;
const CLOSING_PAUSE_MS = 10;
const CLOSES_PER_MS = 2.5;
/** Without other services, clients only wait until this one has ended and the next one has started. */
const CLOSES_PER_MS_ALONE = 10;

async function closeAll({ clock, database }: ServiceContext, sockets: ReadonlySet<LiveSocket>): Promise<void> {
  const open = [...sockets];
  const closing = open.map((socket) => new Promise<void>((resolve) => socket.onClosed(resolve)));
  const perMs = Math.max(database.isExclusive ? CLOSES_PER_MS_ALONE : CLOSES_PER_MS, open.length / CLOSING_MAX_MS);
  const startedMs = clock.monotonic();
  for (let closed = 0; closed < open.length; ) {
    if (closed > 0) await wait(clock, CLOSING_PAUSE_MS);
    const due = Math.ceil((clock.monotonic() - startedMs + CLOSING_PAUSE_MS) * perMs);
    for (const socket of open.slice(closed, due)) socket.close(CLOSE_CODE.shuttingDown, 'shutting down');
    closed = due;
  }
  await Promise.all(closing);
}
