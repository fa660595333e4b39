import type { Query, Transaction } from '../core/database.js';
import { whereSessionExists } from './sessions.js';

/** A message that offers choices for its answer. */
export interface QuestionRow {
  readonly session_id: string;
  readonly sequence: number;
  readonly asked_at: number;
}

/** Records a question. No caller needs an answer, so there is no wait. */
export function putQuestion(
  transaction: Transaction,
  { session_id: sessionId, sequence, asked_at: askedAt }: QuestionRow,
  { messageId, agentId }: { readonly messageId: string; readonly agentId: string },
): void {
  transaction.send(
    'INSERT INTO question (session_id, sequence, message_id, agent_id, asked_at) VALUES ($1, $2, $3, $4, $5)',
    sessionId,
    sequence,
    messageId,
    agentId,
    askedAt,
  );
}

/** How many of an agent's active sessions are searched for questions: those that changed last. */
const LOOKED_AT_MAX = 100;
const LATEST = `SELECT inbox.session_id FROM inbox WHERE inbox.agent_id = agent.id AND inbox.session_state = 'active'
  ORDER BY inbox.changed_at DESC, inbox.session_id DESC LIMIT ${LOOKED_AT_MAX}`;
/**
 * The last question to each agent in each of its latest sessions. SQLite cannot join a list that
 * depends on the row before it, and PostgreSQL would look at every question of a session for a list of pairs.
 */
const ASKED = {
  sqlite: `agent CROSS JOIN question
    WHERE (question.session_id, question.sequence) IN (SELECT latest.session_id, (
      SELECT MAX(its.sequence) FROM question AS its
      WHERE its.session_id = latest.session_id AND its.agent_id <> agent.id) FROM (${LATEST}) AS latest)`,
  postgres: `agent CROSS JOIN LATERAL (${LATEST}) AS latest CROSS JOIN LATERAL (
      SELECT its.* FROM question AS its WHERE its.session_id = latest.session_id AND its.agent_id <> agent.id
      ORDER BY its.sequence DESC LIMIT 1) AS question
    WHERE TRUE`,
} as const;

/** A question that waits for an account. */
export interface OpenQuestionRow extends QuestionRow {
  /** 0: the agents that can answer it are only invited. */
  readonly is_joined: number;
}

/**
 * Whether another agent of the account shows it the question (`entitledThrough` in messaging/events.ts): an invited agent
 * sees no messages itself.
 */
const SEEN_BY_ANOTHER = `EXISTS (SELECT 1 FROM participant AS seer CROSS JOIN agent AS own
  WHERE seer.session_id = question.session_id AND own.id = seer.agent_id AND own.account_id = $1
    AND (seer.status = 'joined' OR question.sequence <= CASE WHEN seer.status = 'left' AND seer.joined_at IS NOT NULL
      THEN seer.left_sequence ELSE seer.joined_through END))`;

/**
 * The last question in each active session that an agent of the account has joined, or is invited to while the account
 * sees the question, if it was asked after a moment, latest first. Its sender is another agent, no one but its sender has
 * answered it, and the account has not dismissed it.
 */
export function listOpenQuestions(
  query: Query,
  accountId: string,
  after: number,
  limit: number,
): Promise<OpenQuestionRow[]> {
  const statusIs = (status: string): string => `EXISTS (SELECT 1 FROM participant
    WHERE participant.session_id = question.session_id AND participant.agent_id = agent.id AND participant.status = '${status}')`;
  const isJoined = statusIs('joined');
  return query.all<OpenQuestionRow>(
    `SELECT question.session_id, question.sequence, question.asked_at,
       MAX(CASE WHEN ${isJoined} THEN 1 ELSE 0 END) AS is_joined FROM ${ASKED[query.dialect]}
       AND agent.account_id = $1 AND agent.removed_at IS NULL AND question.asked_at > $2
       AND (${isJoined} OR ${statusIs('invited')} AND ${SEEN_BY_ANOTHER})
       AND NOT EXISTS (SELECT 1 FROM answer WHERE answer.session_id = question.session_id
         AND answer.message_id = question.message_id AND answer.agent_id <> question.agent_id)
       AND NOT EXISTS (SELECT 1 FROM dismissed_question AS dismissed WHERE dismissed.account_id = $1
         AND dismissed.session_id = question.session_id AND dismissed.sequence = question.sequence)
     GROUP BY question.session_id, question.sequence, question.asked_at
     ORDER BY question.asked_at DESC, question.session_id, question.sequence LIMIT $3`,
    accountId,
    after,
    limit,
  );
}

/** The account sees the question no longer among what waits. Dismissing it twice is the same as once. */
export async function dismissQuestion(
  transaction: Transaction,
  accountId: string,
  { session_id: sessionId, sequence }: Pick<QuestionRow, 'session_id' | 'sequence'>,
): Promise<void> {
  await transaction.run(
    `INSERT INTO dismissed_question (account_id, session_id, sequence)
     SELECT $1, $2, CAST($3 AS BIGINT) ${whereSessionExists(transaction, '$2')} ON CONFLICT DO NOTHING`,
    accountId,
    sessionId,
    sequence,
  );
}

/** The account sees a question again that it dismissed. */
export async function restoreQuestion(
  transaction: Transaction,
  accountId: string,
  { session_id: sessionId, sequence }: Pick<QuestionRow, 'session_id' | 'sequence'>,
): Promise<void> {
  await transaction.run(
    'DELETE FROM dismissed_question WHERE account_id = $1 AND session_id = $2 AND sequence = $3',
    accountId,
    sessionId,
    sequence,
  );
}
