import type { Transaction } from '../core/database.js';

/** What agents have done, and decided about each other; a table before those that it refers to. */
const TABLES = [
  ...['claim', 'handled', 'unanswered', 'dismissed_question', 'question', 'answer', 'taken', 'absence'],
  ...['seen_session', 'inbox', 'push_queue', 'push_notified', 'message_word', 'event', 'participant'],
  ...['deleted_session', 'session', 'idempotency_record', 'knock', 'block', 'allowlist_entry'],
] as const;

/** For tests: only accounts, agents with their pictures, and everything about signing in remain. */
export async function deleteDeeds(transaction: Transaction): Promise<void> {
  for (const table of TABLES) await transaction.run(`DELETE FROM ${table}`);
  await transaction.run('DELETE FROM attachment WHERE session_id IS NOT NULL');
}
