import { type EventEnvelope, isMessageEvent } from '../../../wire/event.js';
import { REPLAY_LIMIT_MAX } from '../../../wire/limit.js';
import type { Message } from '../../../wire/message.js';
import { read } from '../../context/calls.js';
import type { Context } from '../../context/context.js';
import { unseenSession } from './facts.js';

/** Every event of a session that exists and that the acting agent may see, after a sequence, in order. */
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
