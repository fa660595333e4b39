import type { RawData, WebSocket } from 'ws';

import { beatEvery } from '../../kit/beat.js';
import { SOCKET_FRAMES_MAX } from '../../wire/limit.js';
import { CLOSE_CODE, PING_FRAME, PONG_FRAME } from '../../wire/realtime.js';
import type { ServiceContext } from '../context.js';
import type { Faults } from '../faults/faults.js';
import { DatabaseLostError } from '../store/database.js';
import { type BoundedSender, createBoundedSender } from './bounded-sender.js';
import { createProofs } from './proofs.js';

const KEEP_ALIVE_MS = 20_000;
const MISSED_PINGS_MAX = 2;
const CLIENT_PING_MAX_LENGTH = 64;

/** Whose socket it is, and what ends it. */
export interface SocketOwner {
  readonly socketId: string;
  readonly agentId: string;
  readonly grantId: string;
  readonly expiresAtMs: number;
}

/** A connection as the feed uses it. */
export interface LiveSocket extends SocketOwner, Pick<BoundedSender, 'send' | 'hasRoom'> {
  readonly isOpen: boolean;
  /** Whether everything sent before has arrived: true once the other side proves it, false when it never will. */
  confirm(): Promise<boolean>;
  close(code: number, reason: string): void;
  onClosed(listener: () => void): void;
}

/** A `ws` socket with a bounded buffer, a keep-alive and an end at its token's expiry. */
export function createLiveSocket(context: ServiceContext, owner: SocketOwner, ws: WebSocket): LiveSocket {
  const sender = createBoundedSender(ws);
  const { faults } = context;
  context.meter.socketOpened();
  const proofs = createProofs(ws);
  const closed: (() => void)[] = [
    keepAlive(context, ws),
    sender.release,
    faults?.endLater(() => ws.terminate()) ?? (() => {}),
    proofs.release,
    context.clock.schedule(
      owner.expiresAtMs - context.clock.now(),
      () => ws.close(CLOSE_CODE.tokenEnded, 'token expired'),
      true,
    ),
  ];
  ws.on('message', (data, isBinary) => {
    if (!isBinary && isClientPing(data)) sender.send(PONG_FRAME);
  });
  // A peer that breaks the protocol is closed by ws with the code that names the fault.
  ws.on('error', () => {});
  ws.on('close', (code) => {
    context.meter.socketClosed(code);
    for (const listener of closed) listener();
  });
  return {
    ...owner,
    get isOpen() {
      return ws.readyState === ws.OPEN;
    },
    send: faults === undefined ? sender.send : (frame) => sendAndPerhapsEnd(faults, sender, ws, frame),
    hasRoom: sender.hasRoom,
    confirm: proofs.ask,
    close: (code, reason) => ws.close(code, reason),
    onClosed: (listener) => closed.push(listener),
  };
}

/** What could not be read is not skipped: its reader comes again for it. */
export function closeForFault(socket: LiveSocket, error: unknown): void {
  if (error instanceof DatabaseLostError) socket.close(CLOSE_CODE.outOfTouch, 'the database does not answer');
  else socket.close(CLOSE_CODE.fault, 'delivery failed');
}

/** The event may arrive, and nobody will know. */
function sendAndPerhapsEnd(faults: Faults, sender: BoundedSender, ws: WebSocket, frame: string): boolean {
  const isSent = sender.send(frame);
  if (isSent && faults.endsSocket()) ws.terminate();
  return isSent;
}

/**
 * Pings, and ends a socket that has let two pings pass without a sign of life, or that says far more than it has reason to: no
 * rate limit counts frames. The answer stops it.
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
