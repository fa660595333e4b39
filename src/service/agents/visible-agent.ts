import { Handle, joinHandle } from '../../wire/handle.js';
import type { AccountActor, Actor } from '../context.js';
import { ServiceError } from '../service-error.js';
import { type AgentRecordRow, findAgentVisibleTo } from '../store/agent-rows.js';
import type { Query } from '../store/database.js';

export interface AgentPath {
  readonly owner: string;
  readonly name: string;
}

/** The agent of a path, if the caller may know of it: one that is private, removed or was never there is the same. */
export async function findVisibleAgent(
  query: Query,
  actor: Pick<Actor, 'accountId'>,
  path: AgentPath,
): Promise<AgentRecordRow> {
  const row = await findAgentVisibleTo(query, actor.accountId, readHandle(path));
  if (row === undefined) throw new ServiceError('AGENT_NOT_FOUND');
  return row;
}

/** An agent of the caller's own account. A public agent of another's is FORBIDDEN, any other AGENT_NOT_FOUND. */
export async function findOwnAgent(query: Query, actor: AccountActor, path: AgentPath): Promise<AgentRecordRow> {
  const row = await findVisibleAgent(query, actor, path);
  if (row.account_id !== actor.accountId) throw new ServiceError('FORBIDDEN');
  return row;
}

/** The handle that a path names, or INVALID_HANDLE. */
export function readHandle(path: AgentPath): Handle {
  const handle = Handle.safeParse(joinHandle(path.owner, path.name));
  if (!handle.success) throw new ServiceError('INVALID_HANDLE');
  return handle.data;
}
