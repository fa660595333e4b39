import type { EventEnvelope } from '../../wire/event.js';
import { LIST_LIMIT_MAX, REPLAY_LIMIT_MAX } from '../../wire/limit.js';
import type { Session } from '../../wire/session.js';
import { callEndpoint, type RestContext } from '../rest/call.js';

/** Small enough that a page of the largest messages fits an answer. */
const PAGE = 200;

/** A position in a session: a sequence, and the epoch of the data in which it was read, where the service has such. */
export interface Position {
  readonly after: number;
  readonly epoch?: string | undefined;
}

/** A page of a replay. */
export interface ReplayPage {
  readonly events: readonly EventEnvelope[];
  /** The epoch that the data are in now. */
  readonly epoch: string | undefined;
  /** The sequence after which the events begin: earlier than was asked where the data were restored. */
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
  while (position !== undefined) {
    const page: ReplayPage = await readPage(rest, sessionId, position, PAGE, signal);
    yield page;
    position = page.next === undefined ? undefined : { after: page.next, epoch: page.epoch };
  }
}

/**
 * The sequence after which the last `count` events lie. Sequences have no holes for who is joined, so it is found by
 * galloping and halving instead of reading the whole session.
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
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    const next = await eventAfter(middle);
    if (next === undefined) high = middle;
    else low = next;
    if (next !== undefined && next >= high) break;
  }
  return Math.max(0, low - count);
}

/** Every session of the agent, most recently changed first. @throws RequestError */
export async function* listSessions(rest: RestContext, signal: AbortSignal | undefined): AsyncGenerator<Session> {
  let cursor: string | undefined;
  do {
    const query = cursor === undefined ? { limit: LIST_LIMIT_MAX } : { limit: LIST_LIMIT_MAX, cursor };
    const { reply } = await callEndpoint(rest, 'listSessions', { query, signal });
    yield* reply.sessions;
    cursor = reply.next_cursor ?? undefined;
  } while (cursor !== undefined);
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
  // A service with epochs says where it resumed; that a cursor is past the end can be seen without one.
  const isPastEnd = events.length === 0 && lastSequence !== undefined && lastSequence < after;
  const last = events.at(-1)?.sequence;
  const cursor = next === null ? undefined : Number(next);
  const isAdvancing = cursor !== undefined && last !== undefined && Number.isSafeInteger(cursor) && cursor >= last;
  return {
    events,
    epoch: reply.epoch,
    after: reply.resumed_after ?? (isPastEnd ? lastSequence : after),
    next: isAdvancing ? cursor : undefined,
  };
}
