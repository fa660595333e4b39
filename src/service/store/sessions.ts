import type { SessionState } from '../../wire/schemas/session.js';
import type { Query, SqlValue, Transaction } from '../core/database.js';
import { toContaining, toValues } from './sql.js';

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

/** Reserves the `count` numbers after `last`. Fails if that is not the last one: the column accepts no null. */
export function continueSequence(transaction: Transaction, sessionId: string, last: number, count: number): void {
  transaction.send(
    'UPDATE session SET last_sequence = CASE WHEN last_sequence = $2 THEN $2 + $3 END WHERE id = $1',
    sessionId,
    last,
    count,
  );
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
export interface ListPosition {
  readonly changedAt: number;
  readonly sessionId: string;
}

export const LIST_START: ListPosition = { changedAt: Number.MAX_SAFE_INTEGER, sessionId: '' };

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
  position: ListPosition,
  limit: number,
): Promise<ListedRow[]> {
  const parameters: SqlValue[] = [agentId, position.changedAt, position.sessionId, limit];
  if (state === undefined) return query.all<ListedRow>(LISTED + ORDER, ...parameters);
  return query.all<ListedRow>(LISTED + inState('$5') + ORDER, ...parameters, state);
}

/** The sessions of an account that are wanted. */
export interface SessionFilter {
  readonly state?: SessionState | undefined;
  /** An agent of this handle takes or took part. */
  readonly counterpart?: string | undefined;
  /** Nothing happened in it since. */
  readonly since?: number | undefined;
  /** Without those where the agent has not answered its invitation. */
  readonly isAnswered?: boolean;
}

export interface FilteredRow extends ListedRow {
  /** 0: it is not wanted. A list of such rows has a known length, however few are wanted. */
  readonly is_match: number;
}

/**
 * The same for one agent of an account, with a mark on those that are wanted: none that another of its `siblings`
 * lists because of a later change.
 */
export function listFilteredSessions(
  query: Query,
  { accountId, agentId, isAlone }: { readonly accountId: string; readonly agentId: string; readonly isAlone: boolean },
  { state, counterpart, since, isAnswered = false }: SessionFilter,
  position: ListPosition,
  limit: number,
): Promise<FilteredRow[]> {
  const parameters: SqlValue[] = [agentId, position.changedAt, position.sessionId, limit];
  const put = (value: SqlValue): string => `$${parameters.push(value)}`;
  const unwanted: string[] = [];
  if (!isAlone)
    unwanted.push(`EXISTS (
    SELECT 1 FROM participant AS twin JOIN agent ON agent.id = twin.agent_id
      JOIN inbox AS its ON its.agent_id = twin.agent_id AND its.session_id = twin.session_id
    WHERE twin.session_id = inbox.session_id AND agent.account_id = ${put(accountId)} AND agent.removed_at IS NULL
      ${isAnswered ? "AND NOT (twin.status = 'invited' AND twin.session_state = 'active')" : ''}
      AND (its.changed_at, its.agent_id) > (inbox.changed_at, inbox.agent_id))`);
  if (counterpart !== undefined)
    unwanted.push(`NOT EXISTS (SELECT 1 FROM participant AS other
      WHERE other.session_id = inbox.session_id AND other.handle = ${put(counterpart)})`);
  if (isAnswered)
    unwanted.push(`EXISTS (SELECT 1 FROM participant AS mine WHERE mine.session_id = inbox.session_id
      AND mine.agent_id = inbox.agent_id AND mine.status = 'invited' AND mine.session_state = 'active')`);
  const isMatch = unwanted.length === 0 ? '1' : `CASE WHEN ${unwanted.join(' OR ')} THEN 0 ELSE 1 END`;
  const inRange =
    (state === undefined ? '' : inState(put(state))) +
    (since === undefined ? '' : ` AND inbox.changed_at >= ${put(since)}`);
  return query.all<FilteredRow>(
    `SELECT session.*, inbox.changed_at, ${isMatch} AS is_match
     FROM inbox JOIN session ON session.id = inbox.session_id
     WHERE inbox.agent_id = $1 AND (inbox.changed_at, inbox.session_id) < ($2, $3)${inRange}${ORDER}`,
    ...parameters,
  );
}

/**
 * The active sessions to which agents of an account are invited, newest first, from the one before `beforeId`; or those
 * of one agent.
 */
export function listInvitedSessions(
  query: Query,
  accountId: string,
  agentId: string | undefined,
  beforeId: string,
  limit: number,
): Promise<ListedRow[]> {
  const { gather } = INVITED[query.dialect];
  const newest = `SELECT participant.session_id FROM participant
    WHERE participant.agent_id = agent.id AND participant.status = 'invited' AND participant.session_state = 'active'
      AND participant.session_id < $2
    ORDER BY participant.session_id DESC LIMIT $3`;
  const parameters: SqlValue[] = [accountId, beforeId, limit];
  return query.all<ListedRow>(
    `SELECT session.*, found.changed_at FROM (
       SELECT inbox.session_id, MAX(inbox.changed_at) AS changed_at FROM agent
       CROSS JOIN ${toValues(query.dialect, `(SELECT ${gather}(newest.session_id) FROM (${newest}) AS newest)`)} AS each
       CROSS JOIN inbox
       WHERE agent.account_id = $1 AND agent.removed_at IS NULL
         ${agentId === undefined ? '' : `AND agent.id = $${parameters.push(agentId)}`}
         AND inbox.agent_id = agent.id AND inbox.session_id = each.value
       GROUP BY inbox.session_id ORDER BY inbox.session_id DESC LIMIT $3
     ) AS found CROSS JOIN session WHERE session.id = found.session_id ORDER BY session.id DESC`,
    ...parameters,
  );
}

const INVITED = { sqlite: { gather: 'json_group_array' }, postgres: { gather: 'json_agg' } } as const;

/** How far the people of an account have read in each of these sessions. */
export async function listSeen(
  query: Query,
  accountId: string,
  sessionIds: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const rows = await query.all<{ session_id: string; sequence: number }>(
    `SELECT seen_session.session_id, seen_session.sequence FROM ${toValues(query.dialect, '$2')} AS asked
     CROSS JOIN seen_session WHERE seen_session.account_id = $1 AND seen_session.session_id = asked.value`,
    accountId,
    JSON.stringify(sessionIds),
  );
  return new Map(rows.map((row) => [row.session_id, row.sequence]));
}

/** PostgreSQL: a session that is being deleted counts as deleted. */
const UNLESS_DELETED = { sqlite: '', postgres: ' FOR KEY SHARE' } as const;

/** A condition for a row about a session whose writer does not hold the session. */
export function whereSessionExists({ dialect }: Query, sessionId: string): string {
  return `WHERE EXISTS (SELECT 1 FROM session WHERE session.id = ${sessionId}${UNLESS_DELETED[dialect]})`;
}

/** Someone has read up to there. It never goes back. */
export async function putSeen(
  transaction: Transaction,
  accountId: string,
  sessionId: string,
  sequence: number,
): Promise<void> {
  await transaction.run(
    `INSERT INTO seen_session (account_id, session_id, sequence)
     SELECT $1, $2, CAST($3 AS BIGINT) ${whereSessionExists(transaction, '$2')}
     ON CONFLICT (account_id, session_id) DO UPDATE SET sequence = excluded.sequence
       WHERE excluded.sequence > seen_session.sequence`,
    accountId,
    sessionId,
    sequence,
  );
}

/** A session that was found by its topic. */
export type TopicRow = Pick<ListedRow, 'id' | 'topic' | 'state' | 'changed_at'>;

/**
 * Sessions of these agents whose topic contains a text, in any case, most recently changed first. Of each agent, the
 * `walkedMax` sessions that changed last are looked at.
 */
export async function findSessionsByTopic(
  query: Query,
  agentIds: readonly string[],
  text: string,
  { walkedMax, limit }: { readonly walkedMax: number; readonly limit: number },
): Promise<TopicRow[]> {
  const found = new Map<string, TopicRow>();
  const pattern = toContaining(text);
  for (const agentId of agentIds) {
    const rows = await query.all<TopicRow>(
      `SELECT session.id, session.topic, session.state, recent.changed_at FROM (
         SELECT session_id, changed_at FROM inbox WHERE agent_id = $1
         ORDER BY changed_at DESC, session_id DESC LIMIT $2
       ) AS recent JOIN session ON session.id = recent.session_id
       WHERE LOWER(session.topic) LIKE $3 ESCAPE '!'
       ORDER BY recent.changed_at DESC, recent.session_id DESC LIMIT $4`,
      agentId,
      walkedMax,
      pattern,
      limit,
    );
    for (const row of rows) {
      const known = found.get(row.id);
      if (known === undefined || known.changed_at < row.changed_at) found.set(row.id, row);
    }
  }
  return [...found.values()].sort((one, other) => other.changed_at - one.changed_at).slice(0, limit);
}
