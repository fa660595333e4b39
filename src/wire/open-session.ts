import { LIST_LIMIT_MAX } from './limit.js';
import type { ListSessionsReply, Session } from './schemas/session.js';

/** How many of the latest open sessions are searched for the one with an agent. */
const SEARCHED_MAX = 200;

/** The part of a query of `GET /sessions` that this search needs. */
interface OpenSessionsQuery {
  readonly state: 'active';
  readonly limit: number;
  readonly cursor?: string;
}

/**
 * The open sessions that a message to `handle` continues: those of only the two that `me` has joined. It never goes to a
 * group, because its text is meant for one agent.
 */
export async function findOpenSessions(
  me: string,
  handle: string,
  list: (query: OpenSessionsQuery) => Promise<Pick<ListSessionsReply, 'sessions' | 'next_cursor'>>,
): Promise<readonly Session[]> {
  const found: Session[] = [];
  let query: OpenSessionsQuery = { state: 'active', limit: LIST_LIMIT_MAX };
  for (let searched = 0; searched < SEARCHED_MAX; searched += LIST_LIMIT_MAX) {
    const { sessions, next_cursor: cursor } = await list(query);
    found.push(...sessions.filter((session) => isOfOnly(session, me, handle)));
    if (cursor === null) break;
    query = { ...query, cursor };
  }
  return found;
}

function isOfOnly({ state, participants }: Session, me: string, handle: string): boolean {
  const has = (name: string, ...statuses: string[]): boolean =>
    participants.some((one) => one.handle === name && statuses.includes(one.status));
  const count = handle === me ? 1 : 2;
  return state === 'active' && participants.length === count && has(me, 'joined') && has(handle, 'joined', 'invited');
}
