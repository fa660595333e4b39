import type { Query, Transaction } from '../core/database.js';

/** A session that ended a while ago. */
export interface EndedRow {
  readonly id: string;
  readonly ended_at: number;
  /** 0: something has happened in it since, such as a departure. */
  readonly is_quiet: number;
}

/** A position in the order of ends. */
export type EndPosition = Pick<EndedRow, 'id' | 'ended_at'>;

export const FIRST_END: EndPosition = { id: '', ended_at: 0 };

const LAST_EVENT = 'event.session_id = session.id AND event.sequence = session.last_sequence';

/** The next `limit` sessions that ended at `before` or earlier and were not reopened, after a position. */
export function listEnded(query: Query, before: number, after: EndPosition, limit: number): Promise<EndedRow[]> {
  return query.all<EndedRow>(
    `SELECT id, ended_at,
       CASE WHEN (SELECT event.created_at FROM event WHERE ${LAST_EVENT}) <= $1 THEN 1 ELSE 0 END AS is_quiet
     FROM session WHERE state = 'ended' AND ended_at <= $1 AND (ended_at, id) > ($2, $3)
     ORDER BY ended_at, id LIMIT $4`,
    before,
    after.ended_at,
    after.id,
    limit,
  );
}

/** What decides whether a session may be deleted. */
export interface HeldSession {
  readonly state: 'active' | 'ended';
  /** Of its last event; null: it has none. */
  readonly last_position: number | null;
  readonly last_at: number | null;
}

/** PostgreSQL: a transaction that adds a row about the session waits from now on, and then finds no session. */
const HOLD = { sqlite: '', postgres: ' FOR UPDATE' } as const;

export function holdSession(transaction: Transaction, sessionId: string): Promise<HeldSession | undefined> {
  return transaction.get<HeldSession>(
    `SELECT state, (SELECT event.position FROM event WHERE ${LAST_EVENT}) AS last_position,
       (SELECT event.created_at FROM event WHERE ${LAST_EVENT}) AS last_at
     FROM session WHERE id = $1${HOLD[transaction.dialect]}`,
    sessionId,
  );
}

/** Whether only agents of this account, removed ones included, have ever taken part in it. */
export async function isOfOneAccount(query: Query, sessionId: string, accountId: string): Promise<boolean> {
  const other = await query.get(
    `SELECT 1 AS found FROM participant JOIN agent ON agent.id = participant.agent_id
     WHERE participant.session_id = $1 AND agent.account_id <> $2 LIMIT 1`,
    sessionId,
    accountId,
  );
  return other === undefined;
}

/**
 * From the commit on, the session has never existed for anyone. What only its participants could find remains, to be
 * deleted in pieces.
 */
export async function deleteSession(transaction: Transaction, sessionId: string): Promise<void> {
  const [begin, end] = ['/', '0'].map((next) => `POST /sessions/${sessionId}${next}`);
  await transaction.run(
    `DELETE FROM idempotency_record WHERE (actor_id, endpoint, key_hash) IN (
       SELECT record.actor_id, record.endpoint, record.key_hash
       FROM participant CROSS JOIN idempotency_record AS record
       WHERE participant.session_id = $1 AND record.actor_id = participant.agent_id
         AND record.endpoint >= $2 AND record.endpoint < $3)`,
    sessionId,
    begin as string,
    end as string,
  );
  await transaction.run(
    `DELETE FROM inbox WHERE (agent_id, session_id) IN (
       SELECT agent_id, session_id FROM participant WHERE session_id = $1)`,
    sessionId,
  );
  for (const table of ['absence', 'seen_session', 'share_link', 'dismissed_question', 'unanswered', 'participant'])
    await transaction.run(`DELETE FROM ${table} WHERE session_id = $1`, sessionId);
  await transaction.run('DELETE FROM session WHERE id = $1', sessionId);
  await transaction.run('INSERT INTO deleted_session (id) VALUES ($1)', sessionId);
}

/** Deleted sessions of which something remains. */
export async function listDeletedSessions(query: Query, limit: number): Promise<string[]> {
  const rows = await query.all<{ id: string }>('SELECT id FROM deleted_session ORDER BY id LIMIT $1', limit);
  return rows.map(({ id }) => id);
}

/** Nothing of it remains. */
export async function forgetDeletedSession(transaction: Transaction, sessionId: string): Promise<void> {
  await transaction.run('DELETE FROM deleted_session WHERE id = $1', sessionId);
}

/** The keys of the tables that grow with a session. */
const KEY = {
  handled: 'session_id, event_id, agent_id',
  taken: 'session_id, sequence, agent_id',
  answer: 'session_id, message_id, agent_id',
  question: 'session_id, sequence',
  event: 'session_id, sequence',
} as const;

/** How much a step has deleted. */
export interface DeletedRows {
  readonly events: number;
  /** Whether more rows may remain. */
  readonly hasMore: boolean;
}

/** Deletes at most `limit` events of a deleted session, and as many rows of each other kind about them. */
export async function deleteRowsOfSession(
  transaction: Transaction,
  sessionId: string,
  limit: number,
): Promise<DeletedRows> {
  const counts: number[] = [];
  for (const [table, key] of Object.entries(KEY)) {
    const count = await transaction.run(
      `DELETE FROM ${table} WHERE (${key}) IN (
         SELECT ${key} FROM ${table} WHERE session_id = $1 ORDER BY ${key} LIMIT $2)`,
      sessionId,
      limit,
    );
    counts.push(count);
  }
  return { events: counts.at(-1) ?? 0, hasMore: counts.some((count) => count === limit) };
}

/** What agents have done, and decided about each other; a table before those that it refers to. */
const ACTIVITY_TABLES = [
  ...['claim', 'handled', 'unanswered', 'dismissed_question', 'question', 'answer', 'taken', 'absence'],
  ...[
    'seen_session',
    'share_link',
    'inbox',
    'push_queue',
    'push_notified',
    'webhook_queue',
    'webhook',
    'message_word',
    'event',
    'participant',
  ],
  ...['deleted_session', 'session', 'idempotency_record', 'knock', 'block', 'allowlist_entry'],
] as const;

/** For tests: only accounts, agents with their pictures, and everything about signing in remain. */
export async function deleteAllButAgents(transaction: Transaction): Promise<void> {
  for (const table of ACTIVITY_TABLES) await transaction.run(`DELETE FROM ${table}`);
  await transaction.run('DELETE FROM attachment WHERE session_id IS NOT NULL');
}
