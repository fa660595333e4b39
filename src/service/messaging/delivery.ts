import type { Clock } from '../../kit/clock.js';
import { SOCKET_BUFFER_MAX_BYTES } from '../../wire/limit.js';
import { CLOSE_CODE } from '../../wire/realtime.js';
import type { Progress, ServiceContext } from '../core/context.js';
import type { ReadEventRow } from '../store/events.js';
import { findParticipation } from '../store/participants.js';
import { envelopeText, readVisibleRows } from './events.js';
import { closeForFault, encodeText, type LiveSocket } from './live-socket.js';

/** How far a socket is in each session that it receives, and which of them must be read further. */
export interface Positions {
  /** Records that a session has events up to `lastSequence`; a new session starts after `deliveredSequence`. */
  offer(sessionId: string, deliveredSequence: number, lastSequence: number): void;
  /** The session to read next, if there is one. */
  next(): string | undefined;
  /** Whether this one must be read further. */
  isBehind(sessionId: string): boolean;
  getProgress(sessionId: string): Progress | undefined;
  /** Records what was sent; if there is more, the session waits for its next turn. */
  move(sessionId: string, progress: Progress): void;
}

/** This many sessions are remembered. A forgotten one starts at the delivery cursor again. */
const REMEMBERED_MAX = 1_024;

export function createPositions(): Positions {
  /** Least recently used first. */
  const progress = new Map<string, Progress>();
  /** Sessions to read, longest waiting first, with the last known sequence. */
  const lastKnown = new Map<string, number>();
  const put = (sessionId: string, value: Progress): void => {
    progress.delete(sessionId);
    progress.set(sessionId, value);
    const [oldest] = progress.keys();
    if (progress.size > REMEMBERED_MAX && oldest !== undefined && !lastKnown.has(oldest)) progress.delete(oldest);
  };

  return {
    offer(sessionId, deliveredSequence, lastSequence) {
      const known = progress.get(sessionId);
      if ((known?.readThrough ?? 0) >= lastSequence) return;
      if (known === undefined) put(sessionId, { sent: deliveredSequence, readThrough: 0 });
      lastKnown.set(sessionId, Math.max(lastSequence, lastKnown.get(sessionId) ?? 0));
    },
    next() {
      const [sessionId] = lastKnown.keys();
      return sessionId;
    },
    isBehind: (sessionId) => lastKnown.has(sessionId),
    getProgress: (sessionId) => progress.get(sessionId),
    move(sessionId, moved) {
      put(sessionId, moved);
      const known = lastKnown.get(sessionId);
      if (known === undefined) return;
      lastKnown.delete(sessionId);
      if (moved.readThrough < known) lastKnown.set(sessionId, known);
    },
  };
}

/** Events sent meanwhile wait for the next pong, and would be sent again if the socket broke. */
const CONFIRM_INTERVAL_MS = 500;
/** Pauses that begin within this time end together. */
const TOGETHER_MS = 100;

/** The pauses of all sockets between two questions whether events have arrived, with few timers. */
export interface Pauses {
  /** Calls `onEnd` when the pause that begins now is over. */
  begin(onEnd: () => void): void;
  stop(): void;
}

export function createPauses(clock: Clock): Pauses {
  let latest: { readonly sinceMs: number; readonly ends: (() => void)[] } | undefined;
  const cancels = new Set<() => void>();
  let isStopped = false;
  return {
    begin(onEnd) {
      if (isStopped) return;
      const nowMs = clock.monotonic();
      if (latest === undefined || nowMs - latest.sinceMs >= TOGETHER_MS) {
        const ends: (() => void)[] = [];
        latest = { sinceMs: nowMs, ends };
        const cancel = clock.schedule(
          CONFIRM_INTERVAL_MS + TOGETHER_MS,
          () => {
            cancels.delete(cancel);
            for (const end of ends) end();
          },
          true,
        );
        cancels.add(cancel);
      }
      latest.ends.push(onEnd);
    },
    stop() {
      isStopped = true;
      for (const cancel of cancels) cancel();
    },
  };
}

/**
 * Moves delivery cursors once a pong has proved that the events arrived. It asks for one pong at a time, and for the
 * next one only after a pause.
 */
function createReceipts(
  { inboxes }: ServiceContext,
  socket: LiveSocket,
  positions: Positions,
  pauses: Pauses,
  isOver: () => boolean,
) {
  const expected = new Set<string>();
  let isAsking = false;

  const ask = (): void => {
    if (expected.size === 0 || isOver()) {
      isAsking = false;
      return;
    }
    isAsking = true;
    const batch: [sessionId: string, progress: Progress][] = [];
    for (const sessionId of expected) {
      const at = positions.getProgress(sessionId);
      if (at !== undefined) batch.push([sessionId, at]);
    }
    expected.clear();
    socket.confirm(() => {
      for (const [sessionId, progress] of batch) inboxes.delivered(socket.agentId, sessionId, progress);
      pauses.begin(ask);
    });
  };

  return {
    /** Whether the next event asks whether it has arrived. */
    get isFree() {
      return !isAsking;
    },
    /** The events of this session sent so far need confirmation. */
    expect(sessionId: string): void {
      expected.add(sessionId);
      if (!isAsking) ask();
    },
  };
}

/** Few, because an event can be large, and events that do not fit the buffer are read again. */
const EVENTS_PER_READ = 32;
const SLOW_READER_MS = 5_000;
/** No log is read for a socket that already has this much buffered. */
const ROOM_FOR_READING = SOCKET_BUFFER_MAX_BYTES / 2;

/** An event as the frame that every socket gets. */
export interface Frame {
  readonly sequence: number;
  readonly bytes: Buffer;
}

export function toFrame(event: ReadEventRow): Frame {
  return { sequence: event.sequence, bytes: encodeText(envelopeText(event)) };
}

/** The deliveries of one socket. */
export interface Delivery {
  /**
   * There may be events of this session up to `lastSequence`; the log knows. A new session starts after
   * `deliveredSequence`.
   */
  offer(sessionId: string, deliveredSequence: number, lastSequence: number): void;
  /** Whether it is known how far the socket is in this session. */
  knows(sessionId: string): boolean;
  /** Deliveries of this session start after `sent`. */
  begin(sessionId: string, sent: number): void;
  /**
   * Delivers the next events of a session that the agent has joined, in order and without a gap. A socket that is
   * elsewhere in that session, or has no room, reads them from the log.
   */
  give(sessionId: string, frames: readonly Frame[]): void;
  stop(): void;
}

/**
 * Sends a socket the events past its position in each session: just-committed events from memory, all others from the
 * log, in order, by the participant's status at that moment. The position starts at the agent's delivery cursor, and
 * that cursor follows only after a pong has proved that the events arrived (D-12).
 */
export function createDelivery(context: ServiceContext, socket: LiveSocket, pauses: Pauses): Delivery {
  const positions = createPositions();
  let isStopped = false;
  let isSending = false;
  const isOver = (): boolean => isStopped || !socket.isOpen;
  const giveUp = (error: unknown): void => {
    if (isOver()) return;
    context.log.error('delivery_failed', error);
    closeForFault(socket, error);
  };
  const receipts = createReceipts(context, socket, positions, pauses, isOver);

  /** One read of one session; returns the room that the next read must wait for. */
  const sendNext = async (sessionId: string): Promise<number> => {
    const before = positions.getProgress(sessionId)?.sent ?? 0;
    const { participation, events, hasMore } = await readNext(context, socket.agentId, sessionId, before);
    if (isOver()) return 0;
    const { count, refusedBytes } = sendFrames(socket, events);
    for (let sent = 0; sent < count; sent += 1) context.meter.delivered();
    const isRead = count === events.length && !hasMore;
    const readThrough = isRead ? (participation?.last_sequence ?? Number.MAX_SAFE_INTEGER) : 0;
    positions.move(sessionId, { sent: events[count - 1]?.sequence ?? before, readThrough });
    receipts.expect(sessionId);
    return Math.max(ROOM_FOR_READING, refusedBytes);
  };
  const sendAll = async (): Promise<void> => {
    isSending = true;
    try {
      let room = ROOM_FOR_READING;
      for (let sessionId = positions.next(); sessionId !== undefined; sessionId = positions.next()) {
        await waitForRoom(context, socket, room);
        if (isOver()) return;
        room = await sendNext(sessionId);
      }
    } catch (error) {
      giveUp(error);
    } finally {
      isSending = false;
    }
  };
  const offer = (sessionId: string, deliveredSequence: number, lastSequence: number): void => {
    positions.offer(sessionId, deliveredSequence, lastSequence);
    if (!isSending) void sendAll();
  };

  const giveNext = (sessionId: string, frames: readonly Frame[]): void => {
    const last = frames.at(-1)?.sequence ?? 0;
    const before = positions.getProgress(sessionId)?.sent ?? 0;
    // The events being read from the log come first; otherwise they would be sent twice.
    const isBehind = positions.isBehind(sessionId);
    let sent = before;
    for (const { sequence, bytes } of frames) {
      if (sequence <= sent) continue;
      if (isBehind || sequence !== sent + 1 || !socket.send(bytes)) break;
      sent = sequence;
      context.meter.delivered();
    }
    if (sent > before) {
      positions.move(sessionId, { sent, readThrough: sent });
      receipts.expect(sessionId);
    }
    if (sent < last) offer(sessionId, sent, last);
  };

  return {
    offer,
    knows: (sessionId) => positions.getProgress(sessionId) !== undefined,
    begin: (sessionId, sent) => positions.move(sessionId, { sent, readThrough: 0 }),
    give(sessionId, frames) {
      if (isOver()) return;
      // Followed by a ping that asks whether they have arrived.
      if (receipts.isFree || frames.length > 1) socket.together(() => giveNext(sessionId, frames));
      else giveNext(sessionId, frames);
    },
    stop() {
      isStopped = true;
    },
  };
}
/** Replay and live delivery share this read. */
async function readNext(context: ServiceContext, agentId: string, sessionId: string, after: number) {
  return await context.database.behind.read(async (query) => {
    const participation = await findParticipation(query, sessionId, agentId);
    if (participation === undefined) return { participation, events: [], hasMore: false };
    return { participation, ...(await readVisibleRows(query, participation, after, EVENTS_PER_READ)) };
  });
}

/** Sends as many as fit the buffer. */
function sendFrames(socket: LiveSocket, events: readonly ReadEventRow[]): { count: number; refusedBytes: number } {
  for (const [count, event] of events.entries()) {
    const { bytes } = toFrame(event);
    if (!socket.send(bytes)) return { count, refusedBytes: bytes.length };
  }
  return { count: events.length, refusedBytes: 0 };
}

/**
 * Closes a reader that leaves its buffer full for too long; its cursor stays where it was (wire: Live delivery, slow
 * readers).
 */
async function waitForRoom(context: ServiceContext, socket: LiveSocket, bytes: number): Promise<void> {
  const cancel = context.clock.schedule(
    SLOW_READER_MS,
    () => socket.close(CLOSE_CODE.tooSlow, 'reader too slow'),
    true,
  );
  await socket.hasRoom(bytes);
  cancel();
}
