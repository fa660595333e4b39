import type { PathOf, ReplyOf } from '../../wire/endpoint.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import type { Query } from '../store/database.js';
import { findParticipation, listParticipants } from '../store/participant-rows.js';
import { viewSession } from './session-view.js';

/** For current and former participants alike (spec: GET /sessions/{session_id}). */
export async function getSession(
  _context: ServiceContext,
  actor: AgentActor,
  input: { path: PathOf<'getSession'> },
  query: Query,
): Promise<ReplyOf<'getSession'>> {
  const participation = await findParticipation(query, input.path.session_id, actor.agentId);
  if (participation === undefined) throw new ServiceError('NOT_FOUND');
  const session = {
    id: participation.session_id,
    state: participation.session_state,
    topic: participation.topic,
    created_at: participation.session_created_at,
    ended_at: participation.ended_at,
  };
  return viewSession(session, await listParticipants(query, session.id));
}
