import { LIST_LIMIT_MAX, REPLAY_LIMIT_MAX } from '../../wire/limit.js';
import type { EventEnvelope } from '../../wire/schemas/event.js';
import type { Session } from '../../wire/schemas/session.js';
import { RequestError } from '../http/request-error.js';
import { callEndpoint, type RestContext, readPages } from '../rest/call.js';
import type { TailItem } from './resume.js';

/** The state that a tail keeps for one session. */
interface Followed {
  /** The sequence of the last delivered event. */
  cursor: number;
  /** The epoch of the data in which it was read; undefined if the service has none, or has not sent it yet. */
  epoch: string | undefined;
  isEnded: boolean;
  hasLeft: boolean;
  /** The last end that was reported, so that each is reported once. */
  reported: 'ended' | 'left' | undefined;
}

/** Events that only an active session has. */
const OF_ACTIVE = ['session.reopened', 'session.message', 'session.invited', 'session.joined'];

/** The sessions of a tail: which events are new, and which sessions have ended. */
export class FollowedSessions {
  readonly #sessions = new Map<string, Followed>();
  readonly #handle: string | undefined;
  readonly #isEndTold: boolean;

  constructor(options: { readonly handle: string | undefined; readonly isEndReported: boolean }) {
    this.#handle = options.handle;
    this.#isEndTold = options.isEndReported;
  }

  get size(): number {
    return this.#sessions.size;
  }

  get ids(): string[] {
    return [...this.#sessions.keys()];
  }

  has(sessionId: string): boolean {
    return this.#sessions.has(sessionId);
  }

  /** The sequence after which this session continues; 0 if it is new. */
  getCursor(sessionId: string): number {
    return this.#sessions.get(sessionId)?.cursor ?? 0;
  }

  follow(sessionId: string, { after, epoch }: Position, known: { isEnded?: boolean; hasLeft?: boolean } = {}): void {
    const { isEnded = false, hasLeft = false } = known;
    this.#sessions.set(sessionId, { cursor: after, epoch, isEnded, hasLeft, reported: undefined });
  }

  /** Where this session continues. */
  getPosition(sessionId: string): Position {
    const session = this.#sessions.get(sessionId);
    return { after: session?.cursor ?? 0, epoch: session?.epoch };
  }

  /** Whether the delivered events of this session are known to be part of the data in this epoch. */
  isIn(sessionId: string, epoch: string | undefined): boolean {
    return epoch === undefined || this.#sessions.get(sessionId)?.epoch === epoch;
  }

  /** Records that this session continues after `after` in this epoch: the events delivered after that are gone. */
  enter(sessionId: string, { after, epoch }: Position): void {
    const session = this.#sessions.get(sessionId);
    if (session === undefined) return;
    session.epoch = epoch ?? session.epoch;
    if (after >= session.cursor) return;
    session.cursor = after;
    session.isEnded = false;
    session.reported = undefined;
  }

  drop(sessionId: string): void {
    this.#sessions.delete(sessionId);
  }

  /** Whether this event was not delivered yet; it then counts as delivered. */
  accept(event: EventEnvelope, epoch: string | undefined): boolean {
    const session = this.#sessions.get(event.session_id);
    if (session === undefined) {
      this.follow(event.session_id, { after: event.sequence, epoch });
      return true;
    }
    if (event.sequence <= session.cursor) return false;
    session.cursor = event.sequence;
    const isMine = this.#isMine(event.payload['agent']);
    if (event.type === 'session.ended') session.isEnded = true;
    // A service need not have an event for reopening (spec: Events).
    if (OF_ACTIVE.includes(event.type)) session.isEnded = false;
    if (event.type === 'session.left' && isMine) session.hasLeft = true;
    if (event.type === 'session.joined' && isMine) session.hasLeft = false;
    if (event.type === 'session.invited' && this.#isMine(event.payload['invitee'])) session.hasLeft = false;
    return true;
  }

  /** Records that the acting agent left, if the event does not say who did. */
  leave(sessionId: string): void {
    const session = this.#sessions.get(sessionId);
    if (session !== undefined) session.hasLeft = true;
  }

  #isMine(handle: unknown): boolean {
    return this.#handle !== undefined && handle === this.#handle;
  }

  /** The end of a session, if there is one that was not reported yet. */
  takeEnd(sessionId: string): TailItem | undefined {
    const session = this.#sessions.get(sessionId);
    if (session === undefined || !this.#isEndTold) return undefined;
    const reason = session.hasLeft ? 'left' : session.isEnded ? 'ended' : undefined;
    if (reason === session.reported) return undefined;
    session.reported = reason;
    return reason === undefined ? undefined : { kind: 'end', sessionId, reason };
  }
}

/** A page of the largest messages fits in an answer; one of `REPLAY_LIMIT_MAX` fits unless they are large. */
const PAGE = 200;

/** A position in a session: a sequence, and the epoch of the data in which it was read, if the service has epochs. */
export interface Position {
  readonly after: number;
  readonly epoch?: string | undefined;
}

/** A page of a replay. */
export interface ReplayPage {
  readonly events: readonly EventEnvelope[];
  /** The current epoch of the data. */
  readonly epoch: string | undefined;
  /** The sequence after which the events begin: earlier than requested if the data was restored. */
  readonly after: number;
  readonly next: number | undefined;
}

/** The events of a session after a position, in order, to the end of what exists (spec: GET …/events). @throws RequestError */
export async function* replayPages(
  rest: RestContext,
  sessionId: string,
  { after, epoch }: Position,
  signal: AbortSignal | undefined,
): AsyncGenerator<ReplayPage> {
  let position: Position | undefined = { after, epoch };
  let limit = PAGE;
  let limitMax = REPLAY_LIMIT_MAX;
  const read = async (from: Position): Promise<ReplayPage> => {
    try {
      return await readPage(rest, sessionId, from, limit, signal);
    } catch (error) {
      const mayBeTooLarge = error instanceof RequestError && error.code === 'ASP_BAD_ANSWER' && limit > PAGE;
      if (!mayBeTooLarge) throw error;
      limitMax = limit = PAGE;
      return readPage(rest, sessionId, from, limit, signal);
    }
  };
  while (position !== undefined) {
    const page: ReplayPage = await read(position);
    yield page;
    position = page.next === undefined ? undefined : { after: page.next, epoch: page.epoch };
    // A backlog: each request costs as much as many events.
    limit = limitMax;
  }
}

/**
 * The sequence before the last `count` events. Sequences have no gaps for joined agents, so galloping and halving find
 * it without reading the whole session.
 */
export async function findStartOfLast(
  rest: RestContext,
  sessionId: string,
  count: number,
  signal: AbortSignal | undefined,
): Promise<number> {
  const first = await readPage(rest, sessionId, { after: 0 }, PAGE, signal);
  let low = first.events.at(-1)?.sequence ?? 0;
  if (first.next === undefined) return Math.max(0, low - count);
  let step = REPLAY_LIMIT_MAX;
  const eventAfter = async (sequence: number): Promise<number | undefined> =>
    (await readPage(rest, sessionId, { after: sequence }, 1, signal)).events[0]?.sequence;
  let found = await eventAfter(low);
  while (found !== undefined) {
    low = found;
    found = await eventAfter(low + step);
    if (found !== undefined) step *= 2;
  }
  let high = low + step;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const next = await eventAfter(middle);
    if (next === undefined) high = middle;
    else low = next;
  }
  return Math.max(0, low - count);
}

/** Every session of the agent, most recently changed first. @throws RequestError */
export async function* listSessions(rest: RestContext, signal: AbortSignal | undefined): AsyncGenerator<Session> {
  const input = { query: { limit: LIST_LIMIT_MAX }, signal };
  for await (const { sessions } of readPages('listSessions', input, (next) => callEndpoint(rest, 'listSessions', next)))
    yield* sessions;
}

async function readPage(
  rest: RestContext,
  sessionId: string,
  { after, epoch }: Position,
  limit: number,
  signal: AbortSignal | undefined,
): Promise<ReplayPage> {
  const query = { after_sequence: after, limit, ...(epoch !== undefined && { epoch }) };
  const { reply } = await callEndpoint(rest, 'replayEvents', { path: { session_id: sessionId }, query, signal });
  const { events, next_cursor: next, last_sequence: lastSequence } = reply;
  // A service with epochs says where it resumed; without epochs, only a cursor past the end shows it.
  const isPastEnd = events.length === 0 && lastSequence !== undefined && lastSequence < after;
  const start = reply.resumed_after ?? (isPastEnd ? lastSequence : after);
  const last = events.at(-1)?.sequence ?? 0;
  return { events, epoch: reply.epoch, after: start, next: next !== null && last > start ? last : undefined };
}
