import type { QueryOf, ReplyOf } from '../../wire/endpoint.js';
import type { AccountActor, ServiceContext } from '../context.js';
import { listAgentsOfAccount } from '../store/agent-rows.js';
import { encodeCursor } from '../store/cursor.js';
import type { Query } from '../store/database.js';
import { findActingHandle, type ListedRow, listSessionsOfSibling } from '../store/session-list-rows.js';
import { readPlace } from './list-place.js';
import { viewSession } from './session-view.js';

const AGENTS_PER_QUERY = 200;

/** One row a session, whichever and however many of the account's agents take part (wire: Sessions). */
export async function listAccountSessions(
  _context: ServiceContext,
  actor: AccountActor,
  input: { query: QueryOf<'listAccountSessions'> },
  query: Query,
): Promise<ReplyOf<'listAccountSessions'>> {
  const { state, limit, cursor } = input.query;
  const scope = ['account sessions', actor.accountId, state];
  const place = readPlace(scope, cursor);
  let rows: ListedRow[] = [];
  for await (const agentId of eachAgent(query, actor.accountId)) {
    const more = await listSessionsOfSibling(query, actor.accountId, agentId, state, place, limit + 1);
    rows = [...rows, ...more].sort(latestFirst).slice(0, limit + 1);
  }
  const page = rows.slice(0, limit);
  const sessions: ReplyOf<'listAccountSessions'>['sessions'] = [];
  for (const row of page)
    sessions.push({
      session: await viewSession(query, row),
      acting_handle: await findActingHandle(query, actor.accountId, row.id),
    });
  const last = page.at(-1);
  const hasMore = last !== undefined && rows.length > limit;
  return { sessions, next_cursor: hasMore ? encodeCursor(scope, [last.changed_at, last.id]) : null };
}

async function* eachAgent(query: Query, accountId: string): AsyncGenerator<string> {
  let afterId = '';
  while (true) {
    const agents = await listAgentsOfAccount(query, accountId, { afterId, limit: AGENTS_PER_QUERY });
    for (const agent of agents) yield agent.id;
    const last = agents.at(-1);
    if (last === undefined || agents.length < AGENTS_PER_QUERY) return;
    afterId = last.id;
  }
}

function latestFirst(a: ListedRow, b: ListedRow): number {
  return b.changed_at - a.changed_at || (a.id < b.id ? 1 : -1);
}
