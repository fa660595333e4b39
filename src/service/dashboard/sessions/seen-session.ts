import type { Session } from '../../../wire/session.js';
import { type AccountView, findAccountView } from '../../events/account-view.js';
import { viewSession } from '../../sessions/session-view.js';
import type { Query } from '../../store/database.js';
import { listParticipants } from '../../store/participant-rows.js';

/** A session as an account sees it. */
export interface SeenSession {
  readonly session: Session;
  readonly view: AccountView;
}

/** Undefined: there is no such session, or none of the account's agents ever took part in it. */
export async function findSeenSession(
  query: Query,
  accountId: string,
  sessionId: string,
): Promise<SeenSession | undefined> {
  const view = await findAccountView(query, accountId, sessionId);
  if (view === undefined) return undefined;
  const [row] = view.participations;
  const facts = {
    id: row.session_id,
    state: row.session_state,
    topic: row.topic,
    created_at: row.session_created_at,
    ended_at: row.ended_at,
  };
  return { view, session: viewSession(facts, await listParticipants(query, row.session_id)) };
}
