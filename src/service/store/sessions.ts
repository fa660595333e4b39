import type { SessionState } from '../../wire/schemas/session.js';
import type { Query, SqlValue, Transaction } from '../core/database.js';

export interface SessionRow {
  readonly id: string;
  readonly state: SessionState;
  readonly topic: string | null;
  /** The number of its newest event. */
  readonly last_sequence: number;
  readonly created_at: number;
  readonly ended_at: number | null;
}

export async function insertSession(
  transaction: Transaction,
  row: Pick<SessionRow, 'id' | 'topic' | 'created_at'>,
): Promise<void> {
  await transaction.run(
    `INSERT INTO session (id, state, topic, last_sequence, created_at, ended_at) VALUES ($1, 'active', $2, 0, $3, NULL)`,
    row.id,
    row.topic,
    row.created_at,
  );
}

/** Reserves the next `count` numbers of a session and returns the first. */
export async function reserveSequences(transaction: Transaction, sessionId: string, count: number): Promise<number> {
  const row = await transaction.get<{ last_sequence: number }>(
    'UPDATE session SET last_sequence = last_sequence + $2 WHERE id = $1 RETURNING last_sequence',
    sessionId,
    count,
  );
  if (row === undefined) throw new Error('A sequence was requested in a session that does not exist.');
  return row.last_sequence - count + 1;
}

/** The number of its newest event; 0: there is none. */
export async function findLastSequence(query: Query, sessionId: string): Promise<number> {
  const row = await query.get<Pick<SessionRow, 'last_sequence'>>(
    'SELECT last_sequence FROM session WHERE id = $1',
    sessionId,
  );
  return row?.last_sequence ?? 0;
}

/** Its participants keep their status from before it ended (spec: States, rule 1). */
export async function markSessionEnded(transaction: Transaction, sessionId: string, endedAt: number): Promise<void> {
  await transaction.run(`UPDATE session SET state = 'ended', ended_at = $2 WHERE id = $1`, sessionId, endedAt);
  await transaction.run(
    `UPDATE participant SET session_state = 'ended',
       was_joined_at_end = CASE WHEN status = 'joined' THEN 1 ELSE 0 END
     WHERE session_id = $1`,
    sessionId,
  );
}

export async function markSessionActive(transaction: Transaction, sessionId: string): Promise<void> {
  await transaction.run(`UPDATE session SET state = 'active', ended_at = NULL WHERE id = $1`, sessionId);
  await transaction.run(
    `UPDATE participant SET session_state = 'active', was_joined_at_end = 0 WHERE session_id = $1`,
    sessionId,
  );
}

/** A session as one agent's list shows it. */
export interface ListedRow extends SessionRow {
  /** When an event that the agent may see last happened in it. */
  readonly changed_at: number;
}

/** The position of a row in a list: most recently changed first, ties by session id. */
export interface ListPlace {
  readonly changedAt: number;
  readonly sessionId: string;
}

export const LIST_START: ListPlace = { changedAt: Number.MAX_SAFE_INTEGER, sessionId: '' };

const LISTED = `SELECT session.*, inbox.changed_at
  FROM inbox JOIN session ON session.id = inbox.session_id
  WHERE inbox.agent_id = $1 AND (inbox.changed_at, inbox.session_id) < ($2, $3)`;
const inState = (parameter: string): string => ` AND inbox.session_state = ${parameter}`;
const ORDER = ' ORDER BY inbox.changed_at DESC, inbox.session_id DESC LIMIT $4';

/** The sessions in which an agent has a participant row, after `place`. */
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

/**
 * The same for one agent of an account, without the sessions that another agent of the account lists because of a later
 * change.
 */
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
      JOIN inbox AS its ON its.agent_id = twin.agent_id AND its.session_id = twin.session_id
    WHERE twin.session_id = inbox.session_id AND agent.account_id = $5 AND agent.removed_at IS NULL
      AND (its.changed_at, its.agent_id) > (inbox.changed_at, inbox.agent_id))`;
  const parameters: SqlValue[] = [agentId, place.changedAt, place.sessionId, limit, accountId];
  if (state === undefined) return query.all<ListedRow>(LISTED + once + ORDER, ...parameters);
  return query.all<ListedRow>(LISTED + once + inState('$6') + ORDER, ...parameters, state);
}

/** The agent with which an account takes part in a session. */
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

/** The same for a session in the account's list. */
export async function findActingHandle(query: Query, accountId: string, sessionId: string): Promise<string> {
  const row = await findActingParticipant(query, accountId, sessionId);
  if (row === undefined) throw new Error('A listed session has none of the agents of the account.');
  return row.handle;
}
