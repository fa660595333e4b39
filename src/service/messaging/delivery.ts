import type { Clock } from '../../kit/clock.js';
import { beatEvery } from '../../kit/repeat.js';
import { SOCKET_BUFFER_MAX_BYTES } from '../../wire/limit.js';
import { CLOSE_CODE } from '../../wire/realtime.js';
import type { Progress, ServiceContext } from '../core/context.js';
import type { ReadEventRow } from '../store/events.js';
import { findParticipation } from '../store/participants.js';
import { envelopeText, readVisibleRows } from './events.js';
import { type Asking, closeForFault, encodeText, type LiveSocket, toQuestion } from './live-socket.js';

/** This many sessions are remembered. A forgotten one starts at the delivery cursor again. */
const REMEMBERED_MAX = 1_024;

/**
 * How far a socket is in each session that it receives, and which of them must be read further. A class, like the others
 * here: there are many sockets, and each closure of each would take memory.
 */
class Positions {
  /** Least recently used first. */
  readonly #progress = new Map<string, Progress>();
  /** Sessions to read, longest waiting first, with the last known sequence. */
  readonly #lastKnown = new Map<string, number>();

  /** Records that a session goes up to `lastSequence`; a new session starts after `deliveredSequence`. */
  offer(sessionId: string, deliveredSequence: number, lastSequence: number): void {
    const known = this.#progress.get(sessionId);
    if ((known?.readThrough ?? 0) >= lastSequence) return;
    if (known === undefined) this.#put(sessionId, { sent: deliveredSequence, readThrough: 0 });
    this.#lastKnown.set(sessionId, Math.max(lastSequence, this.#lastKnown.get(sessionId) ?? 0));
  }

  /** The session to read next, if there is one. */
  next(): string | undefined {
    const [sessionId] = this.#lastKnown.keys();
    return sessionId;
  }

  /** Whether this one must be read further. */
  isBehind(sessionId: string): boolean {
    return this.#lastKnown.has(sessionId);
  }

  getProgress(sessionId: string): Progress | undefined {
    return this.#progress.get(sessionId);
  }

  /** Records what was sent; if there is more, the session waits for its next turn. */
  move(sessionId: string, moved: Progress): void {
    this.#put(sessionId, moved);
    const known = this.#lastKnown.get(sessionId);
    if (known === undefined) return;
    this.#lastKnown.delete(sessionId);
    if (moved.readThrough < known) this.#lastKnown.set(sessionId, known);
  }

  #put(sessionId: string, value: Progress): void {
    this.#progress.delete(sessionId);
    this.#progress.set(sessionId, value);
    if (this.#progress.size <= REMEMBERED_MAX) return;
    const [oldest] = this.#progress.keys();
    if (oldest !== undefined && !this.#lastKnown.has(oldest)) this.#progress.delete(oldest);
  }
}

/** Events sent in the meantime wait for the next pong, and would be sent again if the socket broke. */
const CONFIRM_INTERVAL_MS = 500;
/** Pauses that begin within this time end together. */
const TOGETHER_MS = 100;

/** The pauses of all sockets between two questions whether events have arrived, with few timers. */
export interface Pauses {
  /** The pause of this delivery begins now. */
  begin(delivery: Delivery): void;
  stop(): void;
}

/** `toEnd` ends the pauses that it is given. */
export function createPauses(clock: Clock, toEnd: (deliveries: readonly Delivery[]) => void): Pauses {
  let latest: { readonly sinceMs: number; readonly deliveries: Delivery[] } | undefined;
  const cancels = new Set<() => void>();
  let isStopped = false;
  return {
    begin(delivery) {
      if (isStopped) return;
      const nowMs = clock.monotonic();
      if (latest === undefined || nowMs - latest.sinceMs >= TOGETHER_MS) {
        const deliveries: Delivery[] = [];
        latest = { sinceMs: nowMs, deliveries };
        const cancel = clock.schedule(
          CONFIRM_INTERVAL_MS + TOGETHER_MS,
          () => {
            cancels.delete(cancel);
            toEnd(deliveries);
          },
          true,
        );
        cancels.add(cancel);
      }
      latest.deliveries.push(delivery);
    },
    stop() {
      isStopped = true;
      for (const cancel of cancels) cancel();
    },
  };
}

/** How far a session was when its events were asked about. */
interface Asked {
  readonly sessionId: string;
  readonly progress: Progress;
}

/** The sessions of each open question, oldest first. */
const NOTHING: readonly (readonly Asked[])[] = [];

/** Few, because an event can be large, and events that do not fit the buffer are read again. */
const EVENTS_PER_READ = 32;
/**
 * A socket is asked after each read, so that a slow reader confirms what it has read long before it gets to the end of
 * its buffer.
 */
const CHARACTERS_PER_READ = 64 * 1024;
const OPEN_QUESTIONS_MAX = 64;
const SLOW_READER_MS = 5_000;
/** No log is read for a socket that already has this much buffered. */
const ROOM_FOR_READING = SOCKET_BUFFER_MAX_BYTES / 2;

/** An event as the frame that every socket gets. */
export interface Frame {
  readonly sequence: number;
  readonly bytes: Buffer;
}

function toFrame(event: ReadEventRow): Frame {
  return { sequence: event.sequence, bytes: encodeText(envelopeText(event)) };
}

/** Consecutive events of a session on their way to many sockets. All of them get the same bytes. */
export class Batch {
  readonly sessionId: string;
  readonly frames: readonly Frame[];
  readonly first: number;
  readonly last: number;
  /** The payload of the ping after the last frame. Its pong repeats it. */
  readonly payload: Buffer;
  readonly #ping: Buffer;
  #lastAndPing: Buffer | undefined;

  constructor(sessionId: string, events: readonly ReadEventRow[]) {
    this.sessionId = sessionId;
    this.frames = events.map(toFrame);
    this.first = this.frames[0]?.sequence ?? 0;
    this.last = this.frames.at(-1)?.sequence ?? 0;
    const { payload, ping } = toQuestion(`${this.last} ${sessionId}`);
    this.payload = payload;
    this.#ping = ping;
  }

  /** The last frame, and the question whether everything has arrived. */
  get lastAndPing(): Buffer {
    this.#lastAndPing ??= Buffer.concat([...this.frames.slice(-1).map(({ bytes }) => bytes), this.#ping]);
    return this.#lastAndPing;
  }
}

/**
 * Sends a socket the events past its position in each session: just-committed events from memory, all others from the
 * log, in order, by the participant's status at that moment. The position starts at the agent's delivery cursor, and
 * that cursor follows only after a pong has proved that the events arrived (D-12).
 */
export class Delivery implements Asking {
  readonly #context: ServiceContext;
  readonly #socket: LiveSocket;
  readonly #pauses: Pauses;
  /** A socket that never got an event has none. */
  #knownPositions: Positions | undefined;
  /** The sessions whose events sent so far need confirmation. */
  #expected: Set<string> | undefined;
  #isStopped = false;
  #isSending = false;
  /** Live events ask for one pong at a time, and for the next one only after a pause. */
  #isAsking = false;
  /** The deliveries that pongs will confirm. */
  #asked = NOTHING;
  /** How many questions were answered. */
  #proofs = 0;
  /** The end of the log before the socket opened; 0: nothing depends on it. */
  readonly since: number;

  constructor(context: ServiceContext, socket: LiveSocket, pauses: Pauses, since: number) {
    this.#context = context;
    this.#socket = socket;
    this.#pauses = pauses;
    this.since = since;
  }

  /**
   * There may be events of this session up to `lastSequence`; the log knows. A new session starts after
   * `deliveredSequence`.
   */
  offer(sessionId: string, deliveredSequence: number, lastSequence: number): void {
    this.#positions.offer(sessionId, deliveredSequence, lastSequence);
    if (!this.#isSending) void this.#sendAll();
  }

  /** Whether it is known how far the socket is in this session. */
  knows(sessionId: string): boolean {
    return this.#knownPositions?.getProgress(sessionId) !== undefined;
  }

  /** Deliveries of this session start after `sent`. */
  begin(sessionId: string, sent: number): void {
    this.#positions.move(sessionId, { sent, readThrough: 0 });
  }

  /**
   * Delivers the next events of a session that the agent has joined, in order and without a gap. A socket that is
   * elsewhere in that session, or has no room, reads them from the log.
   */
  give(batch: Batch): void {
    if (this.#isOver) return;
    if (batch.frames.length === 1) this.#giveNext(batch);
    else this.#socket.together(() => this.#giveNext(batch));
  }

  /** The events that were asked about have arrived. */
  proved(count: number): void {
    const { agentId } = this.#socket;
    for (const { sessionId, progress } of this.#asked.slice(0, count).flat())
      this.#context.inboxes.delivered(agentId, sessionId, progress);
    this.#asked = count === this.#asked.length ? NOTHING : this.#asked.slice(count);
    this.#proofs += count;
    if (this.#asked === NOTHING) this.#pauses.begin(this);
  }

  /** The pause since the last proof is over. */
  askAgain(): void {
    this.#ask();
  }

  stop(): void {
    this.#isStopped = true;
  }

  get #positions(): Positions {
    this.#knownPositions ??= new Positions();
    return this.#knownPositions;
  }

  get #isOver(): boolean {
    return this.#isStopped || !this.#socket.isOpen;
  }

  #giveNext(batch: Batch): void {
    const { sessionId, last } = batch;
    const before = this.#positions.getProgress(sessionId)?.sent ?? 0;
    // The events being read from the log come first; otherwise they would be sent twice.
    const isBehind = this.#positions.isBehind(sessionId);
    let sent = before;
    for (const { sequence, bytes } of batch.frames) {
      if (sequence <= sent) continue;
      const asks = sequence === last && !this.#isAsking;
      if (isBehind || sequence !== sent + 1 || !this.#socket.send(asks ? batch.lastAndPing : bytes)) break;
      sent = sequence;
      this.#context.meter.delivered();
    }
    if (sent > before) {
      const progress = { sent, readThrough: sent };
      this.#positions.move(sessionId, progress);
      if (sent < last || this.#isAsking) this.#expect(sessionId);
      else this.#expectProof(batch.payload, [{ sessionId, progress }]);
    }
    if (sent < last) this.offer(sessionId, sent, last);
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true;
    try {
      let room = ROOM_FOR_READING;
      for (let id = this.#positions.next(); id !== undefined; id = this.#positions.next()) {
        await this.#waitForRoom(room);
        if (this.#isOver) return;
        room = await this.#sendNext(id);
      }
    } catch (error) {
      if (this.#isOver) return;
      this.#context.log.error('delivery_failed', error);
      closeForFault(this.#socket, error);
    } finally {
      this.#isSending = false;
    }
  }

  /** One read of one session; returns the room that the next read must wait for. */
  async #sendNext(sessionId: string): Promise<number> {
    const before = this.#positions.getProgress(sessionId)?.sent ?? 0;
    const { agentId } = this.#socket;
    const read = await readNext(this.#context, agentId, sessionId, before, CHARACTERS_PER_READ);
    if (this.#isOver) return 0;
    const { participation, events, hasMore } = read;
    const { count, refusedBytes } = this.#socket.together(() => sendFrames(this.#socket, events));
    for (let sent = 0; sent < count; sent += 1) this.#context.meter.delivered();
    const isRead = count === events.length && !hasMore;
    const readThrough = isRead ? (participation?.last_sequence ?? Number.MAX_SAFE_INTEGER) : 0;
    this.#positions.move(sessionId, { sent: events[count - 1]?.sequence ?? before, readThrough });
    this.#expect(sessionId, OPEN_QUESTIONS_MAX);
    return Math.max(ROOM_FOR_READING, refusedBytes);
  }

  /**
   * Closes a reader that leaves its buffer full for too long and confirms nothing; its cursor stays where it was (wire:
   * Live delivery, slow readers).
   */
  async #waitForRoom(bytes: number): Promise<void> {
    let proofs = this.#proofs;
    const stop = beatEvery(this.#context.clock, SLOW_READER_MS, () => {
      if (this.#proofs === proofs) this.#socket.close(CLOSE_CODE.tooSlow, 'reader too slow');
      proofs = this.#proofs;
    });
    await this.#socket.hasRoom(bytes);
    stop();
  }

  /** These events need confirmation. The socket is asked now unless this many questions are open, or the pause lasts. */
  #expect(sessionId: string, openMax = 0): void {
    this.#expected ??= new Set();
    this.#expected.add(sessionId);
    if (!this.#isAsking || this.#asked.length < openMax) this.#ask();
  }

  /** Moves delivery cursors once a pong has proved that the events sent so far have arrived. */
  #ask(): void {
    const expected = this.#expected;
    this.#isAsking = expected !== undefined && expected.size > 0 && !this.#isOver;
    if (expected === undefined || !this.#isAsking) return;
    const asked: Asked[] = [];
    for (const sessionId of expected) {
      const progress = this.#positions.getProgress(sessionId);
      if (progress !== undefined) asked.push({ sessionId, progress });
    }
    expected.clear();
    this.#asked = [...this.#asked, asked];
    this.#socket.ask(this);
  }

  /** The question has been sent. */
  #expectProof(payload: Buffer, asked: readonly Asked[]): void {
    this.#isAsking = true;
    this.#asked = [...this.#asked, asked];
    this.#socket.expect(payload, this);
  }
}

/** The next events of a session for an agent. Replay and all kinds of delivery share this read. */
export async function readNext(
  context: Pick<ServiceContext, 'database'>,
  agentId: string,
  sessionId: string,
  after: number,
  maxCharacters?: number,
) {
  return await context.database.behind.read(async (query) => {
    const participation = await findParticipation(query, sessionId, agentId);
    if (participation === undefined) return { participation, events: [], hasMore: false };
    return { participation, ...(await readVisibleRows(query, participation, after, EVENTS_PER_READ, maxCharacters)) };
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
