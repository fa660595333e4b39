import type { EventEnvelope } from '../../wire/event.js';
import { LIST_LIMIT_MAX, REPLAY_LIMIT_MAX } from '../../wire/limit.js';
import type { Session } from '../../wire/session.js';
import { callEndpoint, type RestContext } from '../rest/call.js';

/** Small enough that a page of the largest messages fits an answer. */
const PAGE = 200;

/** The events of a session after a sequence, in order, to the end of what exists (spec: GET …/events). @throws RequestError */
export async function* replayEvents(
  rest: RestContext,
  sessionId: string,
  after: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<EventEnvelope> {
  let cursor: number | undefined = after;
  while (cursor !== undefined) {
    const page = await readPage(rest, sessionId, cursor, PAGE, signal);
    yield* page.events;
    cursor = page.next;
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
  const first = await readPage(rest, sessionId, 0, PAGE, signal);
  let low = first.events.at(-1)?.sequence ?? 0;
  if (first.next === undefined) return Math.max(0, low - count);
  let step = REPLAY_LIMIT_MAX;
  const eventAfter = async (sequence: number): Promise<number | undefined> =>
    (await readPage(rest, sessionId, sequence, 1, signal)).events[0]?.sequence;
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
  after: number,
  limit: number,
  signal: AbortSignal | undefined,
): Promise<{ events: EventEnvelope[]; next: number | undefined }> {
  const input = { path: { session_id: sessionId }, query: { after_sequence: after, limit }, signal };
  const { events, next_cursor: next } = (await callEndpoint(rest, 'replayEvents', input)).reply;
  const last = events.at(-1)?.sequence;
  const cursor = next === null ? undefined : Number(next);
  const isAdvancing = cursor !== undefined && last !== undefined && Number.isSafeInteger(cursor) && cursor >= last;
  return { events, next: isAdvancing ? cursor : undefined };
}
