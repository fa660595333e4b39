import { isMessageEvent } from '../../../wire/event.js';
import { REPLAY_LIMIT_MAX } from '../../../wire/limit.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { Message } from '../../../wire/schemas/message.js';
import { read } from '../../context/calls.js';
import type { Context } from '../../context/context.js';
import { unseenSession } from './participants.js';

/** Every existing event of a session that the acting agent may see, after a sequence, in order. */
export async function* readSessionEvents(
  context: Context,
  sessionId: string,
  after = 0,
): AsyncGenerator<EventEnvelope> {
  let cursor = after;
  for (;;) {
    const query = { after_sequence: cursor, limit: REPLAY_LIMIT_MAX };
    const path = { session_id: sessionId };
    const page = await read(context, 'replayEvents', { path, query }, unseenSession(sessionId));
    for (const event of page.events) if (event.sequence > cursor) yield event;
    const last = page.events.at(-1)?.sequence ?? cursor;
    if (page.next_cursor === null || last <= cursor) return;
    cursor = last;
  }
}

/** The messages among them. */
export async function* readSessionMessages(
  context: Context,
  sessionId: string,
  after?: number,
): AsyncGenerator<Message> {
  for await (const event of readSessionEvents(context, sessionId, after))
    if (isMessageEvent(event)) yield event.payload;
}

/** This many events are searched for the latest messages. */
const LAST_WINDOW = 100;

/** The last events of a session, in order. `last` is its last sequence, if known. */
export async function readLastEvents(context: Context, sessionId: string, last?: number): Promise<EventEnvelope[]> {
  const input = (after: number) => ({
    path: { session_id: sessionId },
    query: { after_sequence: Math.max(0, after), limit: LAST_WINDOW },
  });
  let page = await read(context, 'replayEvents', input((last ?? 0) - LAST_WINDOW), unseenSession(sessionId));
  const { last_sequence: end } = page;
  if (last === undefined && page.next_cursor !== null && end !== undefined)
    page = await read(context, 'replayEvents', input(end - LAST_WINDOW), unseenSession(sessionId));
  const events = [...page.events];
  const cursor = events.at(-1)?.sequence;
  if (page.next_cursor === null || cursor === undefined) return events;
  for await (const event of readSessionEvents(context, sessionId, cursor)) {
    events.push(event);
    if (events.length > LAST_WINDOW) events.shift();
  }
  return events;
}

/** The events of a session from the last one backward, as far as the caller takes them. */
export async function* readEventsBack(context: Context, sessionId: string): AsyncGenerator<EventEnvelope> {
  let events = await readLastEvents(context, sessionId);
  for (;;) {
    yield* events.toReversed();
    const first = events[0]?.sequence ?? 1;
    const after = Math.max(0, first - 1 - LAST_WINDOW);
    if (first <= 1) return;
    events = [];
    for await (const event of readSessionEvents(context, sessionId, after)) {
      if (event.sequence >= first) break;
      events.push(event);
    }
    // An agent that joined late does not see the beginning.
    if (events.length === 0) return;
  }
}

/** The messages among them. */
export async function readLastMessages(context: Context, sessionId: string, last?: number): Promise<Message[]> {
  const events = await readLastEvents(context, sessionId, last);
  return events.filter(isMessageEvent).map(({ payload }) => payload);
}
