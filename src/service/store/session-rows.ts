import type { SessionState } from '../../wire/session.js';
import type { Transaction } from './database.js';

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

/** Reserves the next `count` numbers of a session and gives the first. */
export async function reserveSequences(transaction: Transaction, sessionId: string, count: number): Promise<number> {
  const row = await transaction.get<{ last_sequence: number }>(
    'UPDATE session SET last_sequence = last_sequence + $2 WHERE id = $1 RETURNING last_sequence',
    sessionId,
    count,
  );
  if (row === undefined) throw new Error('A sequence was asked for in a session that does not exist.');
  return row.last_sequence - count + 1;
}

/** Its participants remember who was joined when it ended (spec: States, rule 1). */
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
