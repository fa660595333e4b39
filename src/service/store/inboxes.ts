import type { SessionState } from '../../wire/schemas/session.js';
import type { Query, SqlValue, Transaction } from '../core/database.js';
import { eventAt, recordsIn, toValues } from './sql.js';

/**
 * The unseen events of one session for one agent. Written after the commit, outside of anything that locks a session.
 */
export interface InboxRow {
  readonly agent_id: string;
  readonly session_id: string;
  readonly session_state: SessionState;
  /** When an event that the agent may see last happened. */
  readonly changed_at: number;
  /** The last event that the agent may see, as far as this row has followed the log. */
  readonly last_sequence: number;
  /** Everything up to here has reached one of its sockets. */
  readonly delivered_sequence: number;
  /** Whether it may see events past `delivered_sequence`. */
  readonly is_pending: number;
}

/**
 * The inbox of an agent that is new in a session, or invited again, with the number of the event it may see; 0: none.
 */
export interface Arrival {
  readonly agentId: string;
  readonly sequence: number;
}

/**
 * Opens a session in these inboxes. All writers take rows of inboxes in one order, so that two writers do not deadlock.
 */
export async function putInInboxes(
  transaction: Transaction,
  sessionId: string,
  arrivals: readonly Arrival[],
  now: number,
): Promise<void> {
  if (arrivals.length === 0) return;
  const requested = recordsIn(transaction.dialect, '$2', { agent_id: 'TEXT', sequence: 'BIGINT' });
  await transaction.run(
    `INSERT INTO inbox (agent_id, session_id, session_state, changed_at, last_sequence, delivered_sequence, is_pending)
     SELECT asked.agent_id, $1, 'active', $3, asked.sequence, 0, CASE WHEN asked.sequence > 0 THEN 1 ELSE 0 END
     FROM ${requested} WHERE TRUE ORDER BY asked.agent_id
     ON CONFLICT (agent_id, session_id) DO UPDATE SET session_state = 'active', changed_at = excluded.changed_at,
       last_sequence = excluded.last_sequence, is_pending = 1`,
    sessionId,
    JSON.stringify(arrivals.map(({ agentId, sequence }) => ({ agent_id: agentId, sequence }))),
    now,
  );
}

/** An event that is in the log, but in no inbox yet. */
export interface UnspreadRow {
  readonly position: number;
  readonly session_id: string;
  readonly sequence: number;
  readonly type: string;
  readonly created_at: number;
}

/**
 * SQLite remembers a position of the log. On PostgreSQL commits may overtake each other, so each event queues itself.
 */
const LAST_UNSPREAD = {
  sqlite: 'SELECT MAX(position) AS position FROM event WHERE position > (SELECT spread_position FROM inbox_progress)',
  postgres: 'SELECT MAX(position) AS position FROM inbox_queue',
} as const;
const UNSPREAD = {
  sqlite: `SELECT 1 AS found FROM event
    WHERE position > (SELECT spread_position FROM inbox_progress) AND position <= $1 LIMIT 1`,
  postgres: 'SELECT 1 AS found FROM inbox_queue WHERE position <= $1 LIMIT 1',
} as const;

/** The position of the last event that is in no inbox; undefined: there is none. */
export async function findLastUnspread(query: Query): Promise<number | undefined> {
  const row = await query.get<{ position: number | null }>(LAST_UNSPREAD[query.dialect]);
  return row?.position ?? undefined;
}

/** Whether an event up to this position is in no inbox. */
export async function isUnspread(query: Query, position: number): Promise<boolean> {
  return (await query.get(UNSPREAD[query.dialect], position)) !== undefined;
}

/**
 * Takes the next events that are in no inbox; they stay queued if the transaction does not commit. Several services
 * take different ones; with `all`, a service waits for the outcome of those that others have taken.
 */
export async function takeUnspread(
  transaction: Transaction,
  limit: number,
  which: 'free' | 'all',
): Promise<UnspreadRow[]> {
  if (transaction.dialect === 'postgres')
    return transaction.all<UnspreadRow>(
      `WITH taken AS (
         DELETE FROM inbox_queue WHERE position IN (
           SELECT position FROM inbox_queue ORDER BY position LIMIT $1 FOR UPDATE ${which === 'free' ? 'SKIP LOCKED' : ''})
         RETURNING position
       )
       SELECT event.position, event.session_id, event.sequence, event.type, event.created_at
       FROM taken ${eventAt('taken.position')}`,
      limit,
    );
  const rows = await listUnspread(transaction, limit);
  const last = rows.at(-1);
  if (last !== undefined) await transaction.run('UPDATE inbox_progress SET spread_position = $1', last.position);
  return rows;
}

/** The next events that are in no inbox, without taking them. */
const NEXT_UNSPREAD = {
  sqlite: `SELECT position, session_id, sequence, type, created_at FROM event
    WHERE position > (SELECT spread_position FROM inbox_progress) ORDER BY position LIMIT $1`,
  postgres: `SELECT event.position, event.session_id, event.sequence, event.type, event.created_at
    FROM (SELECT position FROM inbox_queue ORDER BY position LIMIT $1) AS queued ${eventAt('queued.position')}`,
} as const;

/** The first `limit` events that are in no inbox. */
export function listUnspread(query: Query, limit: number): Promise<UnspreadRow[]> {
  return query.all(NEXT_UNSPREAD[query.dialect], limit);
}

/** Agents by their ids, or all agents of an account. */
export type Members = AgentRange | { readonly accountId: string };

const isMember = (members: Members): { readonly condition: string; readonly values: readonly string[] } =>
  'accountId' in members
    ? {
        condition: 'participant.agent_id IN (SELECT id FROM agent WHERE account_id = $2)',
        values: [members.accountId],
      }
    : { condition: 'participant.agent_id BETWEEN $2 AND $3', values: [members.first, members.last] };

/** The same, each with 1 if one of these agents takes or took part in its session. */
export function listUnspreadFor(
  query: Query,
  members: Members,
  limit: number,
): Promise<(UnspreadRow & { readonly is_theirs: number })[]> {
  const { condition, values } = isMember(members);
  return query.all(
    `SELECT next.*, CASE WHEN EXISTS (SELECT 1 FROM participant
       WHERE participant.session_id = next.session_id AND ${condition}) THEN 1 ELSE 0 END AS is_theirs
     FROM (${NEXT_UNSPREAD[query.dialect]}) AS next`,
    limit,
    ...values,
  );
}

/** How far inboxes should follow the log of one session. */
export interface Reach {
  readonly session_id: string;
  readonly sequence: number;
  readonly changed_at: number;
  /** The last `session.ended` on the way, and its time; 0 if there is none. */
  readonly ended_sequence: number;
  readonly ended_at: number;
}

/** Those of these sessions that have, or had, at least `count` participants. */
export async function listLargeSessions(
  query: Query,
  sessionIds: readonly string[],
  count: number,
): Promise<ReadonlySet<string>> {
  const rows = await query.all<{ session_id: string }>(
    `SELECT asked.value AS session_id FROM ${toValues(query.dialect, '$1')} AS asked WHERE (
       SELECT COUNT(*) FROM (SELECT 1 FROM participant WHERE participant.session_id = asked.value LIMIT $2) AS its) = $2`,
    JSON.stringify(sessionIds),
    count,
  );
  return new Set(rows.map((row) => row.session_id));
}

/** Agents by their ids. */
export interface AgentRange {
  readonly first: string;
  readonly last: string;
}

/** The next `limit` participants of a session after an agent; undefined: there are no more. */
export async function findNextParticipants(
  query: Query,
  sessionId: string,
  after: string,
  limit: number,
): Promise<AgentRange | undefined> {
  const row = await query.get<{ first: string | null; last: string | null }>(
    `SELECT MIN(agent_id) AS first, MAX(agent_id) AS last FROM (
       SELECT agent_id FROM participant WHERE session_id = $1 AND agent_id > $2 ORDER BY agent_id LIMIT $3) AS next`,
    sessionId,
    after,
    limit,
  );
  const { first = null, last = null } = row ?? {};
  return first === null || last === null ? undefined : { first, last };
}

/**
 * Updates the inboxes of all participants up to there, by their current status: joined agents see every event, invited
 * agents see an end, and those who left see what happened before. An inbox that is already further is unchanged, so the
 * same events can be distributed twice. Returns how many inboxes changed. With `members`, only those of these agents.
 */
export async function spreadToInboxes(
  transaction: Transaction,
  reaches: readonly Reach[],
  members?: Members,
): Promise<number> {
  const { condition, values } = members === undefined ? { condition: '1 = 1', values: [] } : isMember(members);
  const requested = recordsIn(transaction.dialect, '$1', {
    session_id: 'TEXT',
    sequence: 'BIGINT',
    changed_at: 'BIGINT',
    ended_sequence: 'BIGINT',
    ended_at: 'BIGINT',
  });
  return await transaction.run(
    `INSERT INTO inbox (agent_id, session_id, session_state, changed_at, last_sequence, delivered_sequence, is_pending)
     SELECT reached.agent_id, reached.session_id, reached.session_state, reached.reached_at, reached.reach, 0, 1 FROM (
       SELECT participant.agent_id, participant.session_id, participant.session_state,
         CASE participant.status WHEN 'joined' THEN asked.sequence WHEN 'invited' THEN asked.ended_sequence
           ELSE COALESCE(participant.left_sequence, 0) END AS reach,
         CASE participant.status WHEN 'joined' THEN asked.changed_at WHEN 'invited' THEN asked.ended_at
           ELSE participant.left_at END AS reached_at
       FROM ${requested} CROSS JOIN participant WHERE participant.session_id = asked.session_id
         AND ${condition}
     ) AS reached WHERE NOT EXISTS (
       SELECT 1 FROM inbox AS its WHERE its.agent_id = reached.agent_id AND its.session_id = reached.session_id
         AND its.last_sequence >= reached.reach AND its.session_state = reached.session_state)
     ORDER BY reached.session_id, reached.agent_id
     ON CONFLICT (agent_id, session_id) DO UPDATE SET
       session_state = excluded.session_state,
       changed_at = CASE WHEN excluded.last_sequence > inbox.last_sequence THEN excluded.changed_at
         ELSE inbox.changed_at END,
       is_pending = CASE WHEN excluded.last_sequence > inbox.last_sequence
           AND excluded.last_sequence > inbox.delivered_sequence THEN 1
         ELSE inbox.is_pending END,
       last_sequence = CASE WHEN excluded.last_sequence > inbox.last_sequence THEN excluded.last_sequence
         ELSE inbox.last_sequence END`,
    JSON.stringify(reaches),
    ...values,
  );
}

/** How far an agent's sockets are in a session. */
export interface DeliveryRow {
  readonly agent_id: string;
  readonly session_id: string;
  /** The last event that has reached one of them. */
  readonly sent: number;
  /** The last event of the session when there was nothing more to send; 0 while there was. */
  readonly read_through: number;
}

/** PostgreSQL: an inbox that was deleted while this waited must not be inserted again. */
const HOLD_ITS = { sqlite: '', postgres: ' FOR UPDATE OF its' } as const;

/**
 * Moves delivery cursors forward, never back. An agent is no longer pending in a session once it got everything that
 * its inbox has.
 */
export async function advanceDeliveries(transaction: Transaction, rows: readonly DeliveryRow[]): Promise<void> {
  const requested = recordsIn(transaction.dialect, '$1', {
    agent_id: 'TEXT',
    session_id: 'TEXT',
    sent: 'BIGINT',
    read_through: 'BIGINT',
  });
  // The inserted row only carries the two numbers: the real row exists.
  await transaction.run(
    `INSERT INTO inbox (agent_id, session_id, session_state, changed_at, last_sequence, delivered_sequence, is_pending)
     SELECT its.agent_id, its.session_id, its.session_state, its.changed_at, asked.read_through, asked.sent, 0
     FROM ${requested} CROSS JOIN inbox AS its
     WHERE its.agent_id = asked.agent_id AND its.session_id = asked.session_id
     ORDER BY its.session_id, its.agent_id${HOLD_ITS[transaction.dialect]}
     ON CONFLICT (agent_id, session_id) DO UPDATE SET
       delivered_sequence = CASE WHEN excluded.delivered_sequence > inbox.delivered_sequence
         THEN excluded.delivered_sequence ELSE inbox.delivered_sequence END,
       is_pending = CASE WHEN inbox.last_sequence > excluded.last_sequence THEN inbox.is_pending ELSE 0 END`,
    JSON.stringify(rows),
  );
}

/** A session with something to deliver to an agent. */
export interface PendingRow {
  readonly agent_id: string;
  readonly session_id: string;
  readonly delivered_sequence: number;
  /** The last event of the session, whether or not the agent may see it. */
  readonly last_sequence: number;
}

const PENDING = `SELECT inbox.agent_id, inbox.session_id, inbox.delivered_sequence, session.last_sequence`;

/** Those of one agent, by session, after the session `afterSessionId`. */
export function listPending(
  query: Query,
  agentId: string,
  afterSessionId: string,
  limit: number,
): Promise<PendingRow[]> {
  return query.all<PendingRow>(
    `${PENDING} FROM inbox JOIN session ON session.id = inbox.session_id
     WHERE inbox.agent_id = $1 AND inbox.is_pending = 1 AND inbox.session_id > $2
     ORDER BY inbox.session_id LIMIT $3`,
    agentId,
    afterSessionId,
    limit,
  );
}

/** The number of sessions with undelivered events for an agent, counted up to `atMost`. */
export async function countPending(query: Query, agentId: string, atMost: number): Promise<number> {
  const row = await query.get<{ count: number }>(
    `SELECT COUNT(*) AS count FROM (
       SELECT session_id FROM inbox WHERE agent_id = $1 AND is_pending = 1 LIMIT $2) AS pending`,
    agentId,
    atMost,
  );
  return Number(row?.count ?? 0);
}

/** Those of all agents that have a socket in a process, by agent and session, after the position `after`. */
export function listPendingOfProcess(
  query: Query,
  processId: string,
  after: { readonly agentId: string; readonly sessionId: string },
  limit: number,
): Promise<PendingRow[]> {
  return query.all<PendingRow>(
    `${PENDING} FROM (SELECT DISTINCT agent_id FROM socket WHERE process_id = $1 AND agent_id >= $2) AS held
     CROSS JOIN inbox CROSS JOIN session
     WHERE inbox.agent_id = held.agent_id AND inbox.is_pending = 1
       AND (inbox.agent_id, inbox.session_id) > ($2, $3) AND session.id = inbox.session_id
     ORDER BY inbox.agent_id, inbox.session_id LIMIT $4`,
    processId,
    after.agentId,
    after.sessionId,
    limit,
  );
}

/** The delivery cursors of these agents in one session. */
export async function listDelivered(
  query: Query,
  sessionId: string,
  agentIds: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const requested = recordsIn(query.dialect, '$2', { agent_id: 'TEXT' });
  const rows = await query.all<Pick<InboxRow, 'agent_id' | 'delivered_sequence'>>(
    `SELECT inbox.agent_id, inbox.delivered_sequence FROM ${requested} CROSS JOIN inbox
     WHERE inbox.agent_id = asked.agent_id AND inbox.session_id = $1`,
    sessionId,
    JSON.stringify(agentIds.map((agentId): { agent_id: SqlValue } => ({ agent_id: agentId }))),
  );
  return new Map(rows.map((row) => [row.agent_id, row.delivered_sequence]));
}

/** An agent that does not collect its events. */
export interface StalledAgentRow {
  readonly handle: string;
  readonly name: string;
  /** The oldest waiting event among those that were read. */
  readonly waiting_since: number;
  /** When a program last got or used a token for it. */
  readonly seen_at: number;
}

/** How many sessions of one agent are read. */
const LOOKED_AT_MAX = 100;

/**
 * Agents of an account that have connected before, and have not been seen since an event arrived that has been waiting
 * since before `before`. No socket lives longer than the token that opened it. Invitations do not count.
 */
export function listStalledAgents(
  query: Query,
  accountId: string,
  before: number,
  limit: number,
): Promise<StalledAgentRow[]> {
  const pending = `SELECT inbox.session_id, inbox.changed_at FROM inbox
    WHERE inbox.agent_id = agent.id AND inbox.is_pending = 1 ORDER BY inbox.session_id LIMIT ${LOOKED_AT_MAX}`;
  return query.all<StalledAgentRow>(
    `SELECT handle, name, waiting_since, seen_at FROM (
       SELECT agent.id, agent.handle, agent.name,
         (SELECT MIN(pending.changed_at) FROM (${pending}) AS pending
          JOIN participant ON participant.session_id = pending.session_id AND participant.agent_id = agent.id
          WHERE participant.status = 'joined') AS waiting_since,
         (SELECT MAX(seen.at) FROM (
            SELECT MAX(last_used_at) AS at FROM oauth_client WHERE oauth_client.agent_id = agent.id
            UNION ALL SELECT MAX(last_used_at) AS at FROM refresh_family WHERE refresh_family.agent_id = agent.id
          ) AS seen) AS seen_at
       FROM agent
       WHERE agent.account_id = $1 AND agent.removed_at IS NULL
     ) AS look WHERE waiting_since < $2 AND seen_at < waiting_since ORDER BY waiting_since, id LIMIT $3`,
    accountId,
    before,
    limit,
  );
}

/** A session of an agent, and the last event that the agent may see of it once it has joined. */
export interface RecentSessionRow {
  readonly session_id: string;
  readonly through: number;
  readonly changed_at: number;
}

/** The sessions of an agent that changed after a moment, latest first. An agent that never joined has seen nothing. */
export function listRecentSessions(
  query: Query,
  agentId: string,
  after: number,
  limit: number,
): Promise<RecentSessionRow[]> {
  return query.all<RecentSessionRow>(
    `SELECT inbox.session_id, CASE WHEN participant.status = 'joined' THEN inbox.last_sequence
         WHEN participant.status = 'left' AND participant.joined_at IS NOT NULL THEN COALESCE(participant.left_sequence, 0)
         ELSE COALESCE(participant.joined_through, 0) END AS through,
       inbox.changed_at
     FROM inbox JOIN participant ON participant.session_id = inbox.session_id AND participant.agent_id = inbox.agent_id
     WHERE inbox.agent_id = $1 AND inbox.changed_at > $2
     ORDER BY inbox.changed_at DESC, inbox.session_id DESC LIMIT $3`,
    agentId,
    after,
    limit,
  );
}
