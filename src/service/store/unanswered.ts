import type { UnansweredReason } from '../../wire/message.js';
import type { Query, Transaction } from '../core/database.js';
import { whereSessionExists } from './sessions.js';

/** A message that an agent does not answer, as it reported. */
export interface UnansweredRow {
  readonly agent_id: string;
  readonly session_id: string;
  readonly sequence: number;
  readonly reason: UnansweredReason;
  readonly reported_at: number;
}

/** Replaces the agent's last report on the session, also one that was dismissed. */
export async function putUnanswered(transaction: Transaction, row: UnansweredRow): Promise<void> {
  await transaction.run(
    `INSERT INTO unanswered (agent_id, session_id, sequence, reason, reported_at)
     SELECT $1, $2, CAST($3 AS BIGINT), $4, CAST($5 AS BIGINT) ${whereSessionExists(transaction, '$2')}
     ON CONFLICT (agent_id, session_id) DO UPDATE SET sequence = excluded.sequence, reason = excluded.reason,
       reported_at = excluded.reported_at, is_dismissed = 0`,
    row.agent_id,
    row.session_id,
    row.sequence,
    row.reason,
    row.reported_at,
  );
}

/** The agent answers in the session again. No caller needs an answer, so there is no wait. */
export function forgetUnanswered(transaction: Transaction, agentId: string, sessionId: string): void {
  transaction.send('DELETE FROM unanswered WHERE agent_id = $1 AND session_id = $2', agentId, sessionId);
}

/** A report, and whose it is. */
export interface UnansweredOfAccountRow extends UnansweredRow {
  readonly handle: string;
  readonly name: string;
  readonly topic: string | null;
}

/** Lists reports of the account's agents that came after a moment, about active sessions that they are in, latest first. */
export function listUnanswered(
  query: Query,
  accountId: string,
  after: number,
  limit: number,
): Promise<UnansweredOfAccountRow[]> {
  return query.all<UnansweredOfAccountRow>(
    `SELECT unanswered.agent_id, unanswered.session_id, unanswered.sequence, unanswered.reason, unanswered.reported_at,
       agent.handle, agent.name, session.topic
     FROM agent CROSS JOIN unanswered
     JOIN participant ON participant.session_id = unanswered.session_id AND participant.agent_id = agent.id
     JOIN session ON session.id = unanswered.session_id
     WHERE agent.account_id = $1 AND agent.removed_at IS NULL AND unanswered.agent_id = agent.id
       AND unanswered.reported_at > $2 AND unanswered.is_dismissed = 0
       AND participant.status = 'joined' AND participant.session_state = 'active'
     ORDER BY unanswered.reported_at DESC, unanswered.session_id, unanswered.agent_id LIMIT $3`,
    accountId,
    after,
    limit,
  );
}

/** Hides a report of one of the account's agents until the next one, or shows it again. */
export async function setUnansweredDismissed(
  transaction: Transaction,
  accountId: string,
  { session_id: sessionId, handle }: { readonly session_id: string; readonly handle: string },
  isDismissed: boolean,
): Promise<void> {
  await transaction.run(
    `UPDATE unanswered SET is_dismissed = $4 WHERE session_id = $2
       AND agent_id IN (SELECT id FROM agent WHERE account_id = $1 AND handle = $3)`,
    accountId,
    sessionId,
    handle,
    isDismissed ? 1 : 0,
  );
}
