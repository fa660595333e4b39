import { SOCKET_BUFFER_MAX_BYTES } from '../../wire/limit.js';
import { CLOSE_CODE } from '../../wire/realtime.js';
import type { ServiceContext } from '../context.js';
import { envelopeText, readVisibleRows } from '../events/read-events.js';
import type { ReadEventRow } from '../store/event-rows.js';
import { findParticipation, type ParticipationRow } from '../store/participant-rows.js';
import { closeForFault, type LiveSocket } from './live-socket.js';
import { createPositions } from './positions.js';
import { createReceipts } from './receipts.js';

/** Few, because an event can be large and what does not fit the buffer is read again. */
const EVENTS_PER_READ = 32;
const SLOW_READER_MS = 5_000;
/** No log is read for a socket that has this much to swallow already. */
const ROOM_FOR_READING = SOCKET_BUFFER_MAX_BYTES / 2;

/** What one socket is being given. */
export interface Delivery {
  /** There may be events of this session past what the socket has. */
  offer(participation: ParticipationRow): void;
  stop(): void;
}

/**
 * Sends a socket the events past its position of each session that is offered to it: read from the log, in order, by the
 * participant's status at that moment. The position of a session starts at the agent's delivery cursor, and that cursor
 * follows only once a pong has proved that the events arrived (D-12).
 */
export function createDelivery(context: ServiceContext, socket: LiveSocket): Delivery {
  const positions = createPositions();
  let isStopped = false;
  let isSending = false;
  const isOver = (): boolean => isStopped || !socket.isOpen;
  const giveUp = (error: unknown): void => {
    if (!isOver()) fail(context, socket, error);
  };
  const receipts = createReceipts(context, socket, positions, { isOver, giveUp });

  /** One read of one session; the room that the next read must wait for. */
  const sendNext = async (sessionId: string): Promise<number> => {
    const before = positions.progressOf(sessionId)?.sent ?? 0;
    const { participation, events, hasMore } = await readNext(context, socket.agentId, sessionId, before);
    const { count, refusedBytes } = sendFrames(socket, events);
    for (let sent = 0; sent < count; sent += 1) context.meter.delivered();
    const isRead = count === events.length && !hasMore;
    const readThrough = isRead ? (participation?.last_sequence ?? Number.MAX_SAFE_INTEGER) : 0;
    positions.move(sessionId, { sent: events[count - 1]?.sequence ?? before, readThrough });
    if (count > 0 || participation?.is_pending === 1) receipts.expect(sessionId);
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

  return {
    offer({ session_id, delivered_sequence, last_sequence }) {
      positions.offer(session_id, delivered_sequence, last_sequence);
      if (!isSending) void sendAll();
    },
    stop() {
      isStopped = true;
    },
  };
}

function fail(context: ServiceContext, socket: LiveSocket, error: unknown): void {
  context.log.error('delivery_failed', error);
  closeForFault(socket, error);
}

/** Replay and live are this one read. */
async function readNext(context: ServiceContext, agentId: string, sessionId: string, after: number) {
  return await context.database.read(async (query) => {
    const participation = await findParticipation(query, sessionId, agentId);
    if (participation === undefined) return { participation, events: [], hasMore: false };
    return { participation, ...(await readVisibleRows(query, participation, after, EVENTS_PER_READ)) };
  });
}

/** Sends as many as the buffer takes. */
function sendFrames(socket: LiveSocket, events: readonly ReadEventRow[]): { count: number; refusedBytes: number } {
  for (const [count, event] of events.entries()) {
    const frame = envelopeText(event);
    if (!socket.send(frame)) return { count, refusedBytes: Buffer.byteLength(frame) };
  }
  return { count: events.length, refusedBytes: 0 };
}

/** A reader that leaves its buffer full for too long is closed; its cursor stays where it was (wire: Live delivery, slow readers). */
async function waitForRoom(context: ServiceContext, socket: LiveSocket, bytes: number): Promise<void> {
  const cancel = context.clock.schedule(
    SLOW_READER_MS,
    () => socket.close(CLOSE_CODE.tooSlow, 'reader too slow'),
    true,
  );
  await socket.hasRoom(bytes);
  cancel();
}
