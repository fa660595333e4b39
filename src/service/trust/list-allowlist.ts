import type { PathOf, ReplyOf } from '../../wire/endpoint.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { listAllowlistEntries } from '../store/allowlist-rows.js';
import type { Query } from '../store/database.js';
import { requireOwnList } from './own-list.js';

export async function listAllowlist(
  _context: ServiceContext,
  actor: AgentActor,
  input: { path: PathOf<'listAllowlist'> },
  query: Query,
): Promise<ReplyOf<'listAllowlist'>> {
  requireOwnList(actor, input.path);
  return { entries: await listAllowlistEntries(query, actor.agentId) };
}
