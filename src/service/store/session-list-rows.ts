import type { SessionState } from '../../wire/session.js';
import type { Query, SqlValue } from './database.js';
import type { SessionRow } from './session-rows.js';

/** A session as one agent's list shows it. */
export interface ListedRow extends SessionRow {
  /** When something that the agent may see last happened in it. */
  readonly changed_at: number;
  readonly agent_id: string;
  readonly handle: string;
}

/** The place of a row in a list: most recently changed first, ties by session id. */
export interface ListPlace {
  readonly changedAt: number;
  readonly sessionId: string;
}

export const LIST_START: ListPlace = { changedAt: Number.MAX_SAFE_INTEGER, sessionId: '' };

const LISTED = `SELECT session.*, participant.changed_at, participant.agent_id, participant.handle
  FROM participant JOIN session ON session.id = participant.session_id
  WHERE participant.agent_id = $1
    AND (participant.changed_at, participant.session_id) < ($2, $3)`;
const inState = (parameter: string): string => ` AND participant.session_state = ${parameter}`;
const ORDER = ' ORDER BY participant.changed_at DESC, participant.session_id DESC LIMIT $4';

/** The sessions in which an agent has a participant row, those after `place`. */
export function listSessionsOfAgent(
  query: Query,
  agentId: string,
  state: SessionState | undefined,
  place: ListPlace,
  limit: number,
): Promise<ListedRow[]> {
  const parameters: SqlValue[] = [agentId, place.changedAt, place.sessionId, limit];
  if (state === undefined) return query.all<ListedRow>(LISTED + ORDER, ...parameters);
  return query.all<ListedRow>(LISTED + inState('$5') + ORDER, ...parameters, state);
}

/** The same of one agent among those of its account, without the sessions that stand in the list by a sibling's later change. */
export function listSessionsOfSibling(
  query: Query,
  accountId: string,
  agentId: string,
  state: SessionState | undefined,
  place: ListPlace,
  limit: number,
): Promise<ListedRow[]> {
  const once = ` AND NOT EXISTS (
    SELECT 1 FROM participant AS twin JOIN agent ON agent.id = twin.agent_id
    WHERE twin.session_id = participant.session_id AND agent.account_id = $5 AND agent.removed_at IS NULL
      AND (twin.changed_at, twin.agent_id) > (participant.changed_at, participant.agent_id))`;
  const parameters: SqlValue[] = [agentId, place.changedAt, place.sessionId, limit, accountId];
  if (state === undefined) return query.all<ListedRow>(LISTED + once + ORDER, ...parameters);
  return query.all<ListedRow>(LISTED + once + inState('$6') + ORDER, ...parameters, state);
}

/** The agent by which an account takes part in a session. */
export interface ActingRow {
  readonly agent_id: string;
  readonly handle: string;
}

/** Joined before invited before left, then by handle; undefined: no agent of the account takes part. */
export function findActingParticipant(
  query: Query,
  accountId: string,
  sessionId: string,
): Promise<ActingRow | undefined> {
  return query.get<ActingRow>(
    `SELECT participant.agent_id, participant.handle
     FROM participant JOIN agent ON agent.id = participant.agent_id
     WHERE participant.session_id = $1 AND agent.account_id = $2 AND agent.removed_at IS NULL
     ORDER BY CASE participant.status WHEN 'joined' THEN 0 WHEN 'invited' THEN 1 ELSE 2 END, participant.handle
     LIMIT 1`,
    sessionId,
    accountId,
  );
}

/** The same of a session that stands in the account's list. */
export async function findActingHandle(query: Query, accountId: string, sessionId: string): Promise<string> {
  const row = await findActingParticipant(query, accountId, sessionId);
  if (row === undefined) throw new Error('A listed session has none of the agents of the account.');
  return row.handle;
}
