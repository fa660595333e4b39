import type { EventEnvelope } from '../../../wire/event.js';
import { REPLAY_LIMIT_MAX } from '../../../wire/limit.js';
import type { Context } from '../../context/context.js';
import { read } from '../../context/write.js';

/** Every event of a session that exists and that the acting agent may see, after a sequence, in order. */
export async function* readSessionEvents(
  context: Context,
  sessionId: string,
  after = 0,
): AsyncGenerator<EventEnvelope> {
  const about = {
    subject: sessionId,
    messages: { NOT_FOUND: `${sessionId} cannot be seen by this agent.` },
    next: { NOT_FOUND: ['asp', 'session', 'list'] },
  };
  let cursor = after;
  for (;;) {
    const query = { after_sequence: cursor, limit: REPLAY_LIMIT_MAX };
    const page = await read(context, 'replayEvents', { path: { session_id: sessionId }, query }, about);
    for (const event of page.events) if (event.sequence > cursor) yield event;
    const last = page.events.at(-1)?.sequence ?? cursor;
    if (page.next_cursor === null || last <= cursor) return;
    cursor = last;
  }
}
