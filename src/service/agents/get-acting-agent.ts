import type { ReplyOf } from '../../wire/endpoint.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { type AgentRecordRow, findAgent } from '../store/agent-rows.js';
import type { Query } from '../store/database.js';
import { toAgent } from './agent-record.js';

export async function getActingAgent(
  _context: ServiceContext,
  actor: AgentActor,
  _input: unknown,
  query: Query,
): Promise<ReplyOf<'getActingAgent'>> {
  return toAgent(await findActingAgent(query, actor));
}

/** A token outlives the agent that was removed: what it acts as is nobody. */
export async function findActingAgent(query: Query, actor: Pick<AgentActor, 'agentId'>): Promise<AgentRecordRow> {
  const row = await findAgent(query, actor.agentId);
  if (row === undefined) throw new ServiceError('UNAUTHORIZED');
  return row;
}
