import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';

import { SOCKET_FRAME_MAX_BYTES } from '../../wire/limit.js';
import { CLOSE_CODE, EPOCH_HEADER } from '../../wire/realtime.js';
import type { TokenVerifier } from '../access-token/verify.js';
import { resourceMetadataUrl } from '../authorization-server/metadata.js';
import type { ServiceContext } from '../context.js';
import { answerOf, answerOfError } from '../rest/error-answer.js';
import type { HostGuard } from '../rest/host-guard.js';
import { keepToHttp, type Proposal } from '../rest/keep-to-http.js';
import { writeRawAnswer } from '../rest/raw-answer.js';
import { ServiceError } from '../service-error.js';
import { isShared } from '../store/database.js';
import { createDoor, type Place } from './admit-socket.js';
import { createFeed } from './feed.js';
import { createLiveSocket, type LiveSocket } from './live-socket.js';
import { createPresence } from './presence.js';
import { closeRevoked } from './revocations.js';

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
  /** From now on no handshake is accepted. */
  refuseNew(): void;
  /** Closes the open sockets, which is nobody's absence, and resolves when they are gone. */
  closeSockets(): Promise<void>;
  /** To be called once they are. */
  stop(): Promise<void>;
}

export interface RealtimeOptions {
  readonly verifier: TokenVerifier;
  readonly guardHost: HostGuard;
  /** By this name the others on these data know this process. */
  readonly processId: string;
  /** Resolves when no request of a connection is in work. */
  readonly whenFree: (socket: Duplex) => Promise<void>;
}

/** Answers the WebSocket handshakes of `server`, and gives each socket the events of its agent. */
export async function attachRealtime(
  server: Server,
  context: ServiceContext,
  { verifier, guardHost, whenFree, processId }: RealtimeOptions,
): Promise<Realtime> {
  const admit = createDoor(context, verifier, guardHost);
  const sockets = new Set<LiveSocket>();
  const presence = createPresence(context, processId, sockets);
  const feed = createFeed(context);
  const upgrade = createUpgrade(context);
  let isStopping = false;
  const requireRunning = (): void => {
    if (isStopping) throw shuttingDown();
  };
  const open = (live: LiveSocket, farewell: () => void): void => {
    keepIn(sockets, live, farewell);
    feed.add(live);
  };
  const welcome = async (handshake: Proposal, { actor, release }: Place): Promise<void> => {
    const owner = { ...actor, socketId: context.ids.ulid() };
    const farewell = (): void => {
      release();
      presence.closed(owner).catch((error) => context.log.error('presence_failed', error));
    };
    try {
      await presence.opened(owner);
      requireRunning();
      if (!upgrade(handshake, (ws) => open(createLiveSocket(context, owner, ws), farewell))) farewell();
    } catch (error) {
      farewell();
      throw error;
    }
  };
  const stopClosing = closeRevoked(context, processId, sockets);
  const stopWatchingEpochs = closeOnNewEpoch(context, sockets);

  onUpgrade(server, context, whenFree, async (handshake) => {
    requireRunning();
    await welcome(handshake, await admit(handshake.request));
  });

  await presence.start();
  return {
    refuseNew() {
      isStopping = true;
    },
    async closeSockets() {
      isStopping = true;
      presence.release();
      feed.stop();
      await closeAll(sockets);
    },
    async stop() {
      stopWatchingEpochs();
      await stopClosing();
      await presence.stop();
    },
  };
}

/** What the sockets have been given may be gone; their clients find out when they come back. */
function closeOnNewEpoch({ database, log }: ServiceContext, sockets: ReadonlySet<LiveSocket>): () => void {
  if (!isShared(database)) return () => {};
  return database.onNewEpoch(() => {
    log.info('new_epoch', { sockets: sockets.size });
    for (const socket of sockets) socket.close(CLOSE_CODE.outOfTouch, 'the data were restored');
  });
}

function keepIn(sockets: Set<LiveSocket>, live: LiveSocket, farewell: () => void): void {
  sockets.add(live);
  live.onClosed(() => {
    sockets.delete(live);
    farewell();
  });
}

function shuttingDown(): ServiceError {
  return new ServiceError('INTERNAL_ERROR', 'The service is shutting down.', { status: 503, retryAfterS: 1 });
}

/** What `answer` throws is the answer of the handshake. */
function onUpgrade(
  server: Server,
  context: ServiceContext,
  whenFree: RealtimeOptions['whenFree'],
  answer: (handshake: Proposal) => Promise<void>,
): void {
  const metadataUrl = resourceMetadataUrl(context.settings.addresses.wsUrl);
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    // A peer may reset the connection at any moment of what follows.
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
    answered().catch((error) => writeRawAnswer(socket, answerOfError(error, context.log, metadataUrl)));
  });
}

type Upgrade = (handshake: Proposal, open: (ws: WebSocket) => void) => boolean;

/** The protocol itself, without its own ideas about listening, paths and refusals. False: the connection came to nothing. */
function createUpgrade({ database }: ServiceContext): Upgrade {
  const server = new WebSocketServer(PROTOCOL);
  server.on('headers', (headers) => headers.push(`${EPOCH_HEADER}: ${database.epoch().token}`));
  server.on('wsClientError', (_error, socket) =>
    writeRawAnswer(socket, answerOf(new ServiceError('VALIDATION_ERROR'))),
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

async function closeAll(sockets: ReadonlySet<LiveSocket>): Promise<void> {
  const closing = [...sockets].map((socket) => new Promise<void>((resolve) => socket.onClosed(resolve)));
  for (const socket of sockets) socket.close(CLOSE_CODE.shuttingDown, 'shutting down');
  await Promise.all(closing);
}
