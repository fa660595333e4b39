import type { Query, Transaction } from '../core/database.js';
import { whereSessionExists } from './sessions.js';
import { toValues } from './sql.js';

/** A recipient's report on a message: a row for each message and recipient, written when the recipient reports. */
export interface TakenRow {
  readonly agent_id: string;
  readonly taken_at: number;
}

/** Which of these sequence numbers belong to messages. */
export async function listMessageSequences(
  query: Query,
  sessionId: string,
  sequences: readonly number[],
): Promise<number[]> {
  const rows = await query.all<{ sequence: number }>(
    `SELECT event.sequence FROM ${toValues(query.dialect, '$2')} AS asked CROSS JOIN event
     WHERE event.session_id = $1 AND event.sequence = CAST(asked.value AS BIGINT) AND event.type = 'session.message'
     ORDER BY event.sequence`,
    sessionId,
    JSON.stringify(sequences),
  );
  return rows.map((row) => row.sequence);
}

/** The first report on each message is kept. */
export async function insertTaken(
  transaction: Transaction,
  sessionId: string,
  agentId: string,
  sequences: readonly number[],
  now: number,
): Promise<void> {
  await transaction.run(
    `INSERT INTO taken (session_id, sequence, agent_id, taken_at)
     SELECT $1, CAST(asked.value AS BIGINT), $2, $3 FROM ${toValues(transaction.dialect, '$4')} AS asked
     ${whereSessionExists(transaction, '$1')}
     ON CONFLICT (session_id, sequence, agent_id) DO NOTHING`,
    sessionId,
    agentId,
    now,
    JSON.stringify(sequences),
  );
}

/** The recipients that reported a message. */
export function listTaken(query: Query, sessionId: string, sequence: number): Promise<TakenRow[]> {
  return query.all<TakenRow>(
    'SELECT agent_id, taken_at FROM taken WHERE session_id = $1 AND sequence = $2',
    sessionId,
    sequence,
  );
}

export interface AnswerRow {
  readonly agent_id: string;
  readonly sequence: number;
}

/** Records that a message names the message it answers. The first answer of an agent is kept. */
export async function insertAnswer(
  transaction: Transaction,
  sessionId: string,
  messageId: string,
  answer: AnswerRow,
): Promise<void> {
  await transaction.run(
    `INSERT INTO answer (session_id, message_id, agent_id, sequence) VALUES ($1, $2, $3, $4)
     ON CONFLICT (session_id, message_id, agent_id) DO NOTHING`,
    sessionId,
    messageId,
    answer.agent_id,
    answer.sequence,
  );
}

/** The agents that answered a message. */
export function listAnswers(query: Query, sessionId: string, messageId: string): Promise<AnswerRow[]> {
  return query.all<AnswerRow>(
    'SELECT agent_id, sequence FROM answer WHERE session_id = $1 AND message_id = $2',
    sessionId,
    messageId,
  );
}

/** The participants that do not report. */
export async function listSilentAbout(query: Query, sessionId: string): Promise<Set<string>> {
  const rows = await query.all<{ agent_id: string }>(
    `SELECT participant.agent_id FROM participant JOIN agent ON agent.id = participant.agent_id
     WHERE participant.session_id = $1 AND agent.reports_taken = 0`,
    sessionId,
  );
  return new Set(rows.map((row) => row.agent_id));
}
