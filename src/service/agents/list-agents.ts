import type { QueryOf, ReplyOf } from '../../wire/endpoint.js';
import type { Actor, ServiceContext } from '../context.js';
import { listAgentsOfAccount } from '../store/agent-rows.js';
import { decodeCursor, encodeCursor } from '../store/cursor.js';
import type { Query } from '../store/database.js';
import { toAgent } from './agent-record.js';

/** The agents of the caller's own account, the oldest first; `q` is looked for in handles and display names. */
export async function listAgents(
  _context: ServiceContext,
  actor: Actor,
  input: { query: QueryOf<'listAgents'> },
  query: Query,
): Promise<ReplyOf<'listAgents'>> {
  const { q, limit, cursor } = input.query;
  const scope = ['agents', actor.accountId, q];
  const [afterId] = decodeCursor(scope, cursor, ['']);
  const rows = await listAgentsOfAccount(query, actor.accountId, { afterId, limit: limit + 1, text: q });
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  const hasMore = rows.length > limit && last !== undefined;
  return { agents: page.map(toAgent), next_cursor: hasMore ? encodeCursor(scope, [last.id]) : null };
}
