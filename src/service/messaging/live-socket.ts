import type { Duplex } from 'node:stream';
import type { RawData, WebSocket } from 'ws';
import type { Clock } from '../../kit/clock.js';
import { beatEvery } from '../../kit/repeat.js';
import { SOCKET_BUFFER_MAX_BYTES, SOCKET_FRAMES_MAX } from '../../wire/limit.js';
import { CLOSE_CODE, PING_FRAME, PONG_FRAME } from '../../wire/realtime.js';
import type { ServiceContext } from '../core/context.js';
import { isOutage } from '../core/errors.js';
import type { Faults } from '../core/faults.js';
import { describeScope, type RequestScope } from '../core/request-scope.js';

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

/** A ping, and what its pong must say. */
export interface Question {
  readonly payload: Buffer;
  readonly ping: Buffer;
}

export function toQuestion(text: string): Question {
  const ping = encodeText(text);
  ping[0] = PING_HEAD;
  return { payload: Buffer.from(text), ping };
}

/** Wants to know that everything sent before a question was read. */
export interface Asking {
  /** The oldest `count` open questions are answered. */
  proved(count: number): void;
}

const NO_QUESTIONS: readonly Buffer[] = [];

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

/** What a handshake has opened. */
interface Opened {
  readonly ws: WebSocket;
  readonly connection: Duplex;
  /** The handshake, as the log names it. */
  readonly scope: RequestScope | undefined;
}

/** Sockets that open within this time are pinged together. */
const TOGETHER_MS = 1_000;

/** Sockets with a timer in common. */
interface Group {
  readonly sinceMs: number;
  readonly sockets: Set<LiveSocket>;
  readonly stop: () => void;
}

/** Pings the sockets of a process and closes those whose tokens expire: two timers for each socket would take memory. */
export class Upkeep {
  readonly #clock: Clock;
  #latest: Group | undefined;
  /** By the moment of their expiry, which is a whole second. */
  readonly #expiring = new Map<number, Group>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns those that are pinged together with this one. */
  add(socket: LiveSocket): Group {
    const sinceMs = this.#clock.monotonic();
    this.#expiryOf(socket.expiresAtMs, sinceMs).sockets.add(socket);
    if (this.#latest === undefined || sinceMs - this.#latest.sinceMs >= TOGETHER_MS) {
      const sockets = new Set<LiveSocket>();
      const stop = beatEvery(this.#clock, KEEP_ALIVE_MS, () => {
        for (const each of sockets) each.beat();
      });
      this.#latest = { sinceMs, sockets, stop };
    }
    this.#latest.sockets.add(socket);
    return this.#latest;
  }

  delete(socket: LiveSocket, pinged: Group): void {
    pinged.sockets.delete(socket);
    if (pinged.sockets.size === 0) {
      pinged.stop();
      if (this.#latest === pinged) this.#latest = undefined;
    }
    const expiring = this.#expiring.get(socket.expiresAtMs);
    expiring?.sockets.delete(socket);
    if (expiring?.sockets.size !== 0) return;
    expiring.stop();
    this.#expiring.delete(socket.expiresAtMs);
  }

  #expiryOf(atMs: number, sinceMs: number): Group {
    const known = this.#expiring.get(atMs);
    if (known !== undefined) return known;
    const sockets = new Set<LiveSocket>();
    const expire = (): void => {
      this.#expiring.delete(atMs);
      for (const socket of sockets) socket.close(CLOSE_CODE.tokenEnded, 'token expired');
    };
    const stop = this.#clock.schedule(atMs - this.#clock.now(), expire, true);
    const group = { sinceMs, sockets, stop };
    this.#expiring.set(atMs, group);
    return group;
  }
}

const PONG = encodeText(PONG_FRAME);
const ignore = (): void => {};

/**
 * A `ws` socket on its connection, with a bounded buffer, a keep-alive and an end at its token's expiry. `ws` builds a
 * frame for each socket and writes it in two parts; we build it once and write it ourselves. It sends nothing else than
 * control frames over the same connection, each at once and as a whole, so frames never mix. A class, because there are
 * many sockets: each closure of each would take memory.
 */
export class LiveSocket implements SocketOwner {
  readonly socketId: string;
  readonly agentId: string;
  readonly grantId: string;
  readonly expiresAtMs: number;
  readonly #ws: WebSocket;
  readonly #connection: Duplex;
  readonly #faults: Faults | undefined;
  #closed: readonly (() => void)[] = [];
  /** Callers that wait for room in the buffer, and the bytes they need. */
  #waiting: { readonly bytes: number; readonly resume: () => void }[] | undefined;
  #isDrainAwaited = false;
  /** The payloads of the pings that no pong has answered yet, oldest first. */
  #asked = NO_QUESTIONS;
  #asking: Asking | undefined;
  #asks = 0;
  #missedPings = 0;
  #frames = 0;

  constructor(context: ServiceContext, upkeep: Upkeep, owner: SocketOwner, { ws, connection, scope }: Opened) {
    const { clock, faults, log, meter } = context;
    this.socketId = owner.socketId;
    this.agentId = owner.agentId;
    this.grantId = owner.grantId;
    this.expiresAtMs = owner.expiresAtMs;
    this.#ws = ws;
    this.#connection = connection;
    this.#faults = faults;
    meter.socketOpened();
    const openedMs = clock.monotonic();
    const pinged = upkeep.add(this);
    const stopFault = faults?.endLater(() => ws.terminate());
    ws.on('message', (data, isBinary) => {
      this.#hear();
      if (!isBinary && isClientPing(data)) this.#write(PONG);
    });
    ws.on('ping', () => this.#hear());
    ws.on('pong', (data) => {
      if (this.#takeProof(data)) this.#missedPings = 0;
      else this.#hear();
    });
    // If a peer violates the protocol, ws closes it with the matching code.
    ws.on('error', ignore);
    ws.on('close', (code) => {
      meter.socketClosed(code);
      log.info('socket_closed', {
        close_code: code,
        ms: Math.round(clock.monotonic() - openedMs),
        ...describeScope(scope),
      });
      upkeep.delete(this, pinged);
      this.#wake();
      stopFault?.();
      for (const listener of this.#closed) listener();
    });
  }

  get isOpen(): boolean {
    return this.#ws.readyState === this.#ws.OPEN;
  }

  /** False, and nothing sent: the buffer has no room for this frame now. A single frame always fits. */
  send(frame: Buffer): boolean {
    const isSent = this.#write(frame);
    // The event may arrive, but that remains unknown.
    if (isSent && this.#faults?.endsSocket() === true) this.#ws.terminate();
    return isSent;
  }

  /** What `work` sends travels together. */
  together<Result>(work: () => Result): Result {
    this.#connection.cork();
    try {
      return work();
    } finally {
      this.#connection.uncork();
    }
  }

  /** Resolves when a frame of this many bytes fits, or the socket is closed. */
  hasRoom(bytes: number): Promise<void> {
    if (!this.isOpen || this.#fits(bytes)) return Promise.resolve();
    if (!this.#isDrainAwaited) {
      this.#isDrainAwaited = true;
      this.#connection.once('drain', () => {
        this.#isDrainAwaited = false;
        this.#wake();
      });
    }
    this.#waiting ??= [];
    const waiting = this.#waiting;
    return new Promise((resume) => waiting.push({ bytes, resume }));
  }

  /**
   * Tells `asking` once the other side's WebSocket layer has proved that it has read everything sent before (RFC 6455
   * §5.5.2, §5.5.3). All questions of a socket come from one asker.
   */
  ask(asking: Asking): void {
    if (!this.isOpen) return;
    this.#asks += 1;
    const { payload, ping } = toQuestion(`${this.#asks} asked`);
    this.expect(payload, asking);
    this.#connection.write(ping);
  }

  /** The same when the question is sent already. */
  expect(payload: Buffer, asking: Asking): void {
    this.#asked = [...this.#asked, payload];
    this.#asking = asking;
  }

  close(code: number, reason: string): void {
    this.#ws.close(code, reason);
  }

  /** Pings, and ends a socket that missed two pings. */
  beat(): void {
    this.#frames = 0;
    if (this.#missedPings >= MISSED_PINGS_MAX) this.#ws.terminate();
    else if (this.isOpen) this.#ws.ping();
    this.#missedPings += 1;
  }

  /** Ends the connection without a closing handshake. */
  drop(): void {
    this.#ws.terminate();
  }

  onClosed(listener: () => void): void {
    // An array that grows takes room for 17.
    this.#closed = [...this.#closed, listener];
  }

  #write(frame: Buffer): boolean {
    if (!this.isOpen || !this.#fits(frame.length)) return false;
    // Only a reader that is behind can have someone wait for its progress.
    if (this.#connection.writableLength === 0) this.#connection.write(frame);
    else this.#connection.write(frame, () => this.#wake());
    return true;
  }

  #fits(bytes: number): boolean {
    const { writableLength } = this.#connection;
    return writableLength === 0 || writableLength + bytes <= SOCKET_BUFFER_MAX_BYTES;
  }

  #wake(): void {
    const waiting = this.#waiting;
    for (const waiter of waiting?.splice(0) ?? [])
      if (this.isOpen && !this.#fits(waiter.bytes)) waiting?.push(waiter);
      else waiter.resume();
  }

  /** A pong answers the questions before its own, too: a client may answer only the latest ping. */
  #takeProof(data: Buffer): boolean {
    const count = this.#asked.findIndex((payload) => payload.equals(data)) + 1;
    if (count === 0) return false;
    this.#asked = count === this.#asked.length ? NO_QUESTIONS : this.#asked.slice(count);
    this.#asking?.proved(count);
    return true;
  }

  /** Ends a socket that sends far more frames than it was asked for: no rate limit counts frames. */
  #hear(): void {
    this.#missedPings = 0;
    this.#frames += 1;
    if (this.#frames > SOCKET_FRAMES_MAX) this.#ws.close(CLOSE_CODE.tooManyFrames, 'too many frames');
  }
}

/** Unread events are not skipped: the client comes back for them. */
export function closeForFault(socket: LiveSocket, error: unknown): void {
  if (isOutage(error)) socket.close(CLOSE_CODE.outOfTouch, 'the database does not respond');
  else socket.close(CLOSE_CODE.fault, 'delivery failed');
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
