import type { PathOf, QueryOf } from '../../wire/endpoint.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import type { Query } from '../store/database.js';
import { findParticipation } from '../store/participant-rows.js';
import { envelopeText, readVisibleRows } from './read-events.js';
import { ReplyText } from './reply-text.js';

/** The cursor names an event that the caller has just seen, so that it tells nothing about those it may not see. */
export async function replayEvents(
  _context: ServiceContext,
  actor: AgentActor,
  input: { path: PathOf<'replayEvents'>; query: QueryOf<'replayEvents'> },
  query: Query,
): Promise<ReplyText> {
  const participation = await findParticipation(query, input.path.session_id, actor.agentId);
  if (participation === undefined) throw new ServiceError('NOT_FOUND');
  const { after_sequence: after, limit } = input.query;
  const { events, hasMore } = await readVisibleRows(query, participation, after, limit);
  const nextCursor = hasMore ? String(events.at(-1)?.sequence ?? after) : null;
  return new ReplyText(`{"events":[${events.map(envelopeText).join()}],"next_cursor":${JSON.stringify(nextCursor)}}`);
}
