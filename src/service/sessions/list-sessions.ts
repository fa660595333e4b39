import type { QueryOf, ReplyOf } from '../../wire/endpoint.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { encodeCursor } from '../store/cursor.js';
import type { Query } from '../store/database.js';
import { listSessionsOfAgent } from '../store/session-list-rows.js';
import { readPlace } from './list-place.js';
import { viewSessions } from './session-view.js';

export async function listSessions(
  _context: ServiceContext,
  actor: AgentActor,
  input: { query: QueryOf<'listSessions'> },
  query: Query,
): Promise<ReplyOf<'listSessions'>> {
  const { state, limit, cursor } = input.query;
  const scope = ['sessions', actor.agentId, state];
  const rows = await listSessionsOfAgent(query, actor.agentId, state, readPlace(scope, cursor), limit + 1);
  const viewed = await viewSessions(query, rows.slice(0, limit));
  const sessions = viewed.map((session, index) => {
    const row = rows[index];
    const me = session.participants.find(({ handle }) => handle === row?.handle);
    // Who is not joined sees less than what happened.
    return row !== undefined && me?.status === 'joined' ? { ...session, last_sequence: row.last_sequence } : session;
  });
  const last = rows[sessions.length - 1];
  const hasMore = last !== undefined && rows.length > sessions.length;
  return { sessions, next_cursor: hasMore ? encodeCursor(scope, [last.changed_at, last.id]) : null };
}
