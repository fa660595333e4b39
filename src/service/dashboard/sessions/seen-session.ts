import { AGENT_SCOPES } from '../../../wire/scope.js';
import type { Session } from '../../../wire/session.js';
import type { AgentActor, ServiceContext } from '../../context.js';
import { getSession } from '../../sessions/get-session.js';
import type { Query } from '../../store/database.js';
import { findParticipation, type ParticipationRow } from '../../store/participant-rows.js';
import { findActingParticipant } from '../../store/session-list-rows.js';

/** A session as the account sees it: as its acting participant does, and no other way. */
export interface SeenSession {
  readonly actor: AgentActor;
  readonly session: Session;
  readonly participation: ParticipationRow;
}

/** Undefined: there is no such session, or no agent of the account takes part in it. */
export async function findSeenSession(
  context: ServiceContext,
  query: Query,
  accountId: string,
  sessionId: string,
): Promise<SeenSession | undefined> {
  const acting = await findActingParticipant(query, accountId, sessionId);
  const participation = acting && (await findParticipation(query, sessionId, acting.agent_id));
  if (acting === undefined || participation === undefined) return undefined;
  const actor: AgentActor = {
    kind: 'agent',
    agentId: acting.agent_id,
    handle: acting.handle,
    accountId,
    scopes: AGENT_SCOPES,
  };
  const session = await getSession(context, actor, { path: { session_id: sessionId } }, query);
  return { actor, session, participation };
}
