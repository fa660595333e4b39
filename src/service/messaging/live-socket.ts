import type { Duplex } from 'node:stream';
import type { RawData, WebSocket } from 'ws';
import { beatEvery } from '../../kit/beat.js';
import { SOCKET_BUFFER_MAX_BYTES, SOCKET_FRAMES_MAX } from '../../wire/limit.js';
import { CLOSE_CODE, PING_FRAME, PONG_FRAME } from '../../wire/realtime.js';
import type { ServiceContext } from '../core/context.js';
import { isOutage } from '../core/errors.js';
import type { Faults } from '../core/faults.js';
import { keepScope } from '../core/request-scope.js';

const TEXT_FRAME = 0x81;
const PING_HEAD = 0x89;
const LENGTH_IN_2_BYTES = 126;
const LENGTH_IN_8_BYTES = 127;
const SHORT_MAX = 125;

/**
 * A whole text message as a server sends it: unmasked, in one frame, not compressed (RFC 6455 §5.2). Every socket gets
 * the same bytes.
 */
export function encodeText(text: string): Buffer {
  const length = Buffer.byteLength(text);
  const headerLength = length <= SHORT_MAX ? 2 : length <= 0xffff ? 4 : 10;
  const frame = Buffer.allocUnsafe(headerLength + length);
  frame[0] = TEXT_FRAME;
  if (headerLength === 2) frame[1] = length;
  else if (headerLength === 4) {
    frame[1] = LENGTH_IN_2_BYTES;
    frame.writeUInt16BE(length, 2);
  } else {
    frame[1] = LENGTH_IN_8_BYTES;
    frame.writeUIntBE(0, 2, 2);
    frame.writeUIntBE(length, 4, 6);
  }
  frame.write(text, headerLength);
  return frame;
}

function encodePing(text: string): Buffer {
  const frame = encodeText(text);
  frame[0] = PING_HEAD;
  return frame;
}

/** Sends frames over the connection of a `ws` socket, and limits how much may wait to be read by the other side. */
export interface BoundedSender {
  /** False, and nothing sent: the buffer has no room for this frame now. A single frame always fits. */
  send(frame: Buffer): boolean;
  /** Sends everything from `work` in one write. */
  together(work: () => void): void;
  /** Resolves when a frame of this many bytes fits, or the socket is closed. */
  hasRoom(bytes: number): Promise<void>;
  /** Call this when the socket is closed. */
  release(): void;
}

/**
 * `ws` builds a frame for each socket and writes it in two parts; we build it once and write it ourselves. It sends
 * nothing else than control frames over the same connection, each at once and as a whole, so frames never mix.
 */
export function createBoundedSender(ws: WebSocket, connection: Duplex): BoundedSender {
  const waiting: { bytes: number; resume: () => void }[] = [];
  let isDrainAwaited = false;
  const isOpen = (): boolean => ws.readyState === ws.OPEN;
  const fits = (bytes: number): boolean =>
    connection.writableLength === 0 || connection.writableLength + bytes <= SOCKET_BUFFER_MAX_BYTES;
  const wake = (): void => {
    for (const waiter of waiting.splice(0))
      if (isOpen() && !fits(waiter.bytes)) waiting.push(waiter);
      else waiter.resume();
  };
  const awaitDrain = (): void => {
    if (isDrainAwaited) return;
    isDrainAwaited = true;
    connection.once('drain', () => {
      isDrainAwaited = false;
      wake();
    });
  };
  return {
    send(frame) {
      if (!isOpen() || !fits(frame.length)) return false;
      // Only a reader that is behind can have someone waiting for its progress.
      if (connection.writableLength === 0) connection.write(frame);
      else connection.write(frame, wake);
      return true;
    },
    together(work) {
      connection.cork();
      try {
        work();
      } finally {
        connection.uncork();
      }
    },
    hasRoom(bytes) {
      if (!isOpen() || fits(bytes)) return Promise.resolve();
      awaitDrain();
      return new Promise((resume) => waiting.push({ bytes, resume }));
    },
    release: wake,
  };
}

/** Asks the other side's WebSocket layer to prove that it has read everything sent before (RFC 6455 §5.5.2, §5.5.3). */
export interface Proofs {
  /** Calls `onProof` once it did. One question at a time. */
  ask(onProof: () => void): void;
}

export function createProofs(ws: WebSocket, connection: Duplex): Proofs {
  let asked: { readonly payload: string; readonly onProof: () => void } | undefined;
  let count = 0;
  ws.on('pong', (data) => {
    if (asked === undefined || data.toString() !== asked.payload) return;
    const { onProof } = asked;
    asked = undefined;
    onProof();
  });
  return {
    ask(onProof) {
      if (ws.readyState !== ws.OPEN) return;
      count += 1;
      asked = { payload: String(count), onProof };
      connection.write(encodePing(asked.payload));
    },
  };
}

const KEEP_ALIVE_MS = 20_000;
const MISSED_PINGS_MAX = 2;
const CLIENT_PING_MAX_LENGTH = 64;

/** The agent of the socket, and what ends it. */
export interface SocketOwner {
  readonly socketId: string;
  readonly agentId: string;
  readonly grantId: string;
  readonly expiresAtMs: number;
}

/** A connection as the feed uses it. */
export interface LiveSocket extends SocketOwner, Pick<BoundedSender, 'send' | 'together' | 'hasRoom'> {
  readonly isOpen: boolean;
  /** Calls `onProof` once the other side has proved that everything sent before has arrived. One question at a time. */
  confirm(onProof: () => void): void;
  close(code: number, reason: string): void;
  /** Ends the connection without a closing handshake. */
  drop(): void;
  onClosed(listener: () => void): void;
}

const PONG = encodeText(PONG_FRAME);

/** A `ws` socket on its connection, with a bounded buffer, a keep-alive and an end at its token's expiry. */
export function createLiveSocket(
  context: ServiceContext,
  owner: SocketOwner,
  ws: WebSocket,
  connection: Duplex,
): LiveSocket {
  const sender = createBoundedSender(ws, connection);
  const { faults } = context;
  context.meter.socketOpened();
  const openedMs = context.clock.monotonic();
  const proofs = createProofs(ws, connection);
  const closed: (() => void)[] = [
    keepAlive(context, ws),
    sender.release,
    faults?.endLater(() => ws.terminate()) ?? (() => {}),
    context.clock.schedule(
      owner.expiresAtMs - context.clock.now(),
      () => ws.close(CLOSE_CODE.tokenEnded, 'token expired'),
      true,
    ),
  ];
  ws.on('message', (data, isBinary) => {
    if (!isBinary && isClientPing(data)) sender.send(PONG);
  });
  // If a peer violates the protocol, ws closes it with the matching code.
  ws.on('error', () => {});
  const logClosed = keepScope((code: number) =>
    context.log.info('socket_closed', { close_code: code, ms: Math.round(context.clock.monotonic() - openedMs) }),
  );
  ws.on('close', (code) => {
    context.meter.socketClosed(code);
    logClosed(code);
    for (const listener of closed) listener();
  });
  return {
    ...owner,
    get isOpen() {
      return ws.readyState === ws.OPEN;
    },
    send: faults === undefined ? sender.send : (frame) => sendAndPerhapsEnd(faults, sender, ws, frame),
    together: sender.together,
    hasRoom: sender.hasRoom,
    confirm: proofs.ask,
    close: (code, reason) => ws.close(code, reason),
    drop: () => ws.terminate(),
    onClosed: (listener) => closed.push(listener),
  };
}

/** Unread events are not skipped: the client comes back for them. */
export function closeForFault(socket: LiveSocket, error: unknown): void {
  if (isOutage(error)) socket.close(CLOSE_CODE.outOfTouch, 'the database does not respond');
  else socket.close(CLOSE_CODE.fault, 'delivery failed');
}

/** The event may arrive, but that remains unknown. */
function sendAndPerhapsEnd(faults: Faults, sender: BoundedSender, ws: WebSocket, frame: Buffer): boolean {
  const isSent = sender.send(frame);
  if (isSent && faults.endsSocket()) ws.terminate();
  return isSent;
}

/**
 * Pings, and ends a socket that missed two pings, or that sends far more frames than it has reason to: no rate limit
 * counts frames. The returned function stops it.
 */
function keepAlive(context: ServiceContext, ws: WebSocket): () => void {
  let missedPings = 0;
  let frames = 0;
  const isAlive = (): void => {
    missedPings = 0;
    frames += 1;
    if (frames > SOCKET_FRAMES_MAX) ws.close(CLOSE_CODE.tooManyFrames, 'too many frames');
  };
  for (const event of ['message', 'ping', 'pong']) ws.on(event, isAlive);
  return beatEvery(context.clock, KEEP_ALIVE_MS, () => {
    frames = 0;
    if (missedPings >= MISSED_PINGS_MAX) return ws.terminate();
    missedPings += 1;
    if (ws.readyState === ws.OPEN) ws.ping();
  });
}

function isClientPing(data: RawData): boolean {
  if (!(data instanceof Buffer) || data.length > CLIENT_PING_MAX_LENGTH) return false;
  const text = data.toString();
  if (text === PING_FRAME) return true;
  try {
    const frame: unknown = JSON.parse(text);
    return typeof frame === 'object' && frame !== null && 'type' in frame && frame.type === 'ping';
  } catch {
    return false;
  }
}
