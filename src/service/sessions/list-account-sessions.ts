import type { QueryOf, ReplyOf } from '../../wire/endpoint.js';
import type { AccountActor, ServiceContext } from '../context.js';
import { listAgentsOfAccount } from '../store/agent-rows.js';
import { encodeCursor } from '../store/cursor.js';
import type { Query } from '../store/database.js';
import { findActingHandle, type ListedRow, listSessionsOfSibling } from '../store/session-list-rows.js';
import { readPlace } from './list-place.js';
import { viewSessions } from './session-view.js';

const AGENTS_PER_QUERY = 200;

/** One row a session, whichever and however many of the account's agents take part (wire: Sessions). */
export async function listAccountSessions(
  _context: ServiceContext,
  actor: AccountActor,
  input: { query: QueryOf<'listAccountSessions'> },
  query: Query,
): Promise<ReplyOf<'listAccountSessions'>> {
  const { rows, next } = await readAccountSessions(query, actor.accountId, input.query);
  return { sessions: rows.map(({ session, acting_handle }) => ({ session, acting_handle })), next_cursor: next };
}

type AccountSession = ReplyOf<'listAccountSessions'>['sessions'][number] & {
  /** When something that the account may see last happened in it. */
  readonly changedAt: number;
};

/** The same, and when each last changed. */
export async function readAccountSessions(
  query: Query,
  accountId: string,
  { state, limit, cursor }: QueryOf<'listAccountSessions'>,
): Promise<{ readonly rows: readonly AccountSession[]; readonly next: string | null }> {
  const scope = ['account sessions', accountId, state];
  const place = readPlace(scope, cursor);
  let found: ListedRow[] = [];
  for await (const agentId of eachAgent(query, accountId)) {
    const more = await listSessionsOfSibling(query, accountId, agentId, state, place, limit + 1);
    found = [...found, ...more].sort(latestFirst).slice(0, limit + 1);
  }
  const rows: AccountSession[] = [];
  for (const [index, session] of (await viewSessions(query, found.slice(0, limit))).entries())
    rows.push({
      session,
      acting_handle: await findActingHandle(query, accountId, session.id),
      changedAt: found[index]?.changed_at ?? 0,
    });
  const last = found[rows.length - 1];
  const hasMore = last !== undefined && found.length > rows.length;
  return { rows, next: hasMore ? encodeCursor(scope, [last.changed_at, last.id]) : null };
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
