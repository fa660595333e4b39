import { AGENT_SCOPES } from '../../../wire/scope.js';
import { findOwnAgent } from '../../agents/visible-agent.js';
import type { AgentActor } from '../../context.js';
import type { AgentRecordRow } from '../../store/agent-rows.js';
import type { Query } from '../../store/database.js';
import type { Visit } from '../visit.js';

/** The agent in the address: of another account's agents there are no addresses here. */
export function agentPathOf({ account, part }: Visit): { owner: string; name: string } {
  return { owner: account.username, name: part('name') };
}

/** Gives what an agent's own page needs; NOT_FOUND and its like are one page (D-101). */
export function requireAgent(visit: Visit, query: Query): Promise<AgentRecordRow> {
  return findOwnAgent(query, visit.actor, agentPathOf(visit));
}

/** The agent itself, for what is decided by agents alone: whom it lets in and whom it blocks. */
export function actingAs(visit: Visit, { id, handle }: AgentRecordRow): AgentActor {
  return { kind: 'agent', agentId: id, handle, accountId: visit.account.id, scopes: AGENT_SCOPES };
}
