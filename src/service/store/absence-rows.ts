import type { Query, Transaction } from './database.js';
import type { ParticipantRow } from './participant-rows.js';

/** An agent that was disconnected from a session in which it is joined, and may come back. */
export interface AbsenceRow {
  readonly agent_id: string;
  readonly session_id: string;
  readonly since: number;
}

/** The absence stands from the moment it began. */
export async function insertAbsence(transaction: Transaction, row: AbsenceRow): Promise<void> {
  await transaction.run(
    `INSERT INTO absence (agent_id, session_id, since) VALUES ($1, $2, $3)
     ON CONFLICT (agent_id, session_id) DO NOTHING`,
    row.agent_id,
    row.session_id,
    row.since,
  );
}

/** False: another service has dealt with it. */
export async function deleteAbsence(transaction: Transaction, row: AbsenceRow): Promise<boolean> {
  const { agent_id: agentId, session_id: sessionId } = row;
  return (
    (await transaction.run('DELETE FROM absence WHERE agent_id = $1 AND session_id = $2', agentId, sessionId)) === 1
  );
}

export function listAbsencesOf(query: Query, agentId: string, limit: number): Promise<AbsenceRow[]> {
  return query.all<AbsenceRow>(
    'SELECT * FROM absence WHERE agent_id = $1 ORDER BY session_id LIMIT $2',
    agentId,
    limit,
  );
}

/** Oldest first. */
export function listAbsences(query: Query, limit: number): Promise<AbsenceRow[]> {
  return query.all<AbsenceRow>('SELECT * FROM absence ORDER BY since, agent_id, session_id LIMIT $1', limit);
}

/** Active sessions in which an agent is joined and not yet absent, by session, after `afterSessionId`. */
export function listPresences(
  query: Query,
  agentId: string,
  afterSessionId: string,
  limit: number,
): Promise<ParticipantRow[]> {
  return query.all<ParticipantRow>(
    `SELECT participant.* FROM participant
     WHERE agent_id = $1 AND status = 'joined' AND session_state = 'active' AND session_id > $2
       AND NOT EXISTS (SELECT 1 FROM absence
         WHERE absence.agent_id = participant.agent_id AND absence.session_id = participant.session_id)
     ORDER BY session_id LIMIT $3`,
    agentId,
    afterSessionId,
    limit,
  );
}
