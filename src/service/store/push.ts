import type { Query, Transaction } from '../core/database.js';
import type { UnspreadRow } from './inboxes.js';
import { pushLock } from './lock-names.js';
import { insertRow, recordsIn } from './sql.js';

/** The address and the keys with which the service reaches a signed-in browser that has no page open (RFC 8030, 8291). */
export interface PushSubscriptionRow {
  /** Of the browser's last sign-in, which may be over by time. */
  readonly session_hash: string;
  readonly account_id: string;
  readonly browser_name: string;
  readonly endpoint: string;
  /** In base64url, as are the next ones. */
  readonly p256dh: string;
  readonly auth: string;
  readonly created_at: number;
}

/** Replaces the subscription of the same sign-in, and those of other sign-ins of the same browser. */
export async function putPushSubscription(transaction: Transaction, row: PushSubscriptionRow): Promise<void> {
  await transaction.run(
    'DELETE FROM push_subscription WHERE session_hash = $1 OR endpoint = $2',
    row.session_hash,
    row.endpoint,
  );
  await insertRow(transaction, 'push_subscription', row);
}

/** Moves the subscription of a browser to its next sign-in to the same account. */
export async function rebindPushSubscription(
  transaction: Transaction,
  accountId: string,
  before: string,
  sessionHash: string,
): Promise<void> {
  await transaction.run(
    'UPDATE push_subscription SET session_hash = $3 WHERE session_hash = $2 AND account_id = $1',
    accountId,
    before,
    sessionHash,
  );
}

/** Those of an account, in the order in which they were made. */
export function listPushSubscriptions(query: Query, accountId: string): Promise<PushSubscriptionRow[]> {
  return query.all<PushSubscriptionRow>(
    'SELECT * FROM push_subscription WHERE account_id = $1 ORDER BY created_at, session_hash',
    accountId,
  );
}

/** Whether this sign-in has a subscription. */
export async function hasPushSubscription(query: Query, sessionHash: string): Promise<boolean> {
  const found = await query.get('SELECT 1 AS found FROM push_subscription WHERE session_hash = $1', sessionHash);
  return found !== undefined;
}

/** Whether a subscription still exists for its account. */
export async function isSubscribed(
  query: Query,
  { account_id: accountId, endpoint }: PushSubscriptionRow,
): Promise<boolean> {
  const found = await query.get(
    'SELECT 1 AS found FROM push_subscription WHERE endpoint = $2 AND account_id = $1',
    accountId,
    endpoint,
  );
  return found !== undefined;
}

/** Does nothing if it belongs to another account. */
export async function deletePushSubscription(
  transaction: Transaction,
  accountId: string,
  sessionHash: string,
): Promise<void> {
  await transaction.run(
    'DELETE FROM push_subscription WHERE session_hash = $2 AND account_id = $1',
    accountId,
    sessionHash,
  );
}

/** Those of all browsers of an account except the one with that hash. */
export async function deletePushSubscriptions(
  transaction: Transaction,
  accountId: string,
  exceptHash: string | undefined,
): Promise<void> {
  await transaction.run(
    'DELETE FROM push_subscription WHERE account_id = $1 AND session_hash <> $2',
    accountId,
    exceptHash ?? '',
  );
}

export async function deletePushSubscriptionOfSession(transaction: Transaction, sessionHash: string): Promise<void> {
  await transaction.run('DELETE FROM push_subscription WHERE session_hash = $1', sessionHash);
}

/** Its push service says that it no longer exists. */
export async function deleteDeadSubscription(transaction: Transaction, endpoint: string): Promise<void> {
  await transaction.run('DELETE FROM push_subscription WHERE endpoint = $1', endpoint);
}

/** An event that may need someone. */
type QueuedEvent = Pick<UnspreadRow, 'position' | 'session_id' | 'sequence' | 'type'>;

/** Events that bring a question: the message itself, and an agent that can see earlier ones from now on. */
const ASKING = [
  ['session.message', ' AND question.sequence = asked.sequence'],
  ['session.joined', ''],
] as const;
const QUEUED = { position: 'BIGINT', session_id: 'TEXT', sequence: 'BIGINT' } as const;

/**
 * Queues the accounts that must be looked at after these events, of those that have a subscription. Each event has its
 * own row, so writers do not wait for each other, nor for the one that takes the rows.
 */
export async function queueForPush(transaction: Transaction, events: readonly QueuedEvent[]): Promise<void> {
  const toRecords = (wanted: readonly QueuedEvent[]): string =>
    JSON.stringify(wanted.map(({ position, session_id, sequence }) => ({ position, session_id, sequence })));
  const asked = recordsIn(transaction.dialect, '$1', QUEUED);
  const invitations = events.filter(({ type }) => type === 'session.invited');
  if (invitations.length > 0)
    await transaction.run(
      `INSERT INTO push_queue (account_id, position)
       SELECT agent.account_id, asked.position FROM ${asked}
       CROSS JOIN event CROSS JOIN agent
       WHERE event.session_id = asked.session_id AND event.sequence = asked.sequence AND agent.id = event.subject_agent_id
         AND EXISTS (SELECT 1 FROM push_subscription WHERE push_subscription.account_id = agent.account_id)
       ON CONFLICT (account_id, position) DO NOTHING`,
      toRecords(invitations),
    );
  const questions: Omit<QueuedEvent, 'type'>[] = [];
  for (const [of, isIts] of ASKING) {
    const asking = events.filter(({ type }) => type === of);
    if (asking.length === 0) continue;
    const found = await transaction.all<Omit<QueuedEvent, 'type'>>(
      `SELECT asked.position, asked.session_id, asked.sequence FROM ${asked}
       WHERE EXISTS (SELECT 1 FROM question WHERE question.session_id = asked.session_id${isIts})`,
      toRecords(asking),
    );
    questions.push(...found);
  }
  if (questions.length === 0) return;
  await transaction.run(
    `INSERT INTO push_queue (account_id, position)
     SELECT DISTINCT agent.account_id, asked.position FROM ${asked}
     CROSS JOIN participant CROSS JOIN agent
     WHERE participant.session_id = asked.session_id AND agent.id = participant.agent_id
       AND EXISTS (SELECT 1 FROM push_subscription WHERE push_subscription.account_id = agent.account_id)
     ON CONFLICT (account_id, position) DO NOTHING`,
    JSON.stringify(questions),
  );
}

/** Queues an account for something that is not an event: one row for the whole account. */
export async function queueAccountForPush(transaction: Transaction, accountId: string): Promise<void> {
  await transaction.run(
    `INSERT INTO push_queue (account_id, position)
     SELECT account_id, 0 FROM push_subscription WHERE account_id = $1 LIMIT 1
     ON CONFLICT (account_id, position) DO NOTHING`,
    accountId,
  );
}

/** The next queued accounts after one, in order. */
export async function listQueuedForPush(query: Query, afterAccountId: string, limit: number): Promise<string[]> {
  const rows = await query.all<{ account_id: string }>(
    'SELECT DISTINCT account_id FROM push_queue WHERE account_id > $1 ORDER BY account_id LIMIT $2',
    afterAccountId,
    limit,
  );
  return rows.map((row) => row.account_id);
}

/** An account for which something happened that no event tells: how often, and when it last did. */
export interface StirredRow {
  readonly account_id: string;
  readonly at: number;
  readonly times: number;
}

/** The accounts with a subscription at which a stranger knocked, or an agent of which stopped answering, after a moment. */
export function listStirredAccounts(query: Query, after: number): Promise<StirredRow[]> {
  return query.all<StirredRow>(
    `SELECT agent.account_id, MAX(stirred.at) AS at, COUNT(*) AS times FROM (
       SELECT agent_id, last_at AS at FROM knock WHERE last_at > $1
       UNION ALL SELECT agent_id, reported_at AS at FROM unanswered WHERE reported_at > $1
     ) AS stirred CROSS JOIN agent
     WHERE agent.id = stirred.agent_id AND EXISTS (SELECT 1 FROM push_subscription WHERE push_subscription.account_id = agent.account_id)
     GROUP BY agent.account_id`,
    after,
  );
}

/** Everyone who notifies an account waits here for the others, and sees what they have recorded. */
export async function holdPush(transaction: Transaction, accountId: string): Promise<void> {
  await transaction.lock([pushLock(accountId)]);
}

/** An entry about which an account was notified. */
export interface NotifiedRow {
  readonly need: string;
  readonly notified_at: number;
}

export function listNotified(query: Query, accountId: string): Promise<NotifiedRow[]> {
  return query.all<NotifiedRow>('SELECT need, notified_at FROM push_notified WHERE account_id = $1', accountId);
}

/** Forgets the queue up to now. The caller looks at everything afterwards. */
export async function clearPushQueue(transaction: Transaction, accountId: string): Promise<void> {
  await transaction.run('DELETE FROM push_queue WHERE account_id = $1', accountId);
}

/** Records that the account was notified about `needs`, and forgets those that are over. */
export async function updateNotified(
  transaction: Transaction,
  accountId: string,
  { needs, over, now }: { readonly needs: readonly string[]; readonly over: readonly string[]; readonly now: number },
): Promise<void> {
  for (const need of over)
    await transaction.run('DELETE FROM push_notified WHERE account_id = $1 AND need = $2', accountId, need);
  for (const need of needs)
    await insertRow(
      transaction,
      'push_notified',
      { account_id: accountId, need, notified_at: now },
      '(account_id, need) DO NOTHING',
    );
}

/** Forgets all entries about which an account was notified. */
export async function deleteNotified(transaction: Transaction, accountId: string): Promise<void> {
  await transaction.run('DELETE FROM push_notified WHERE account_id = $1', accountId);
}

/** The key pair that identifies the service to push services (RFC 8292), as `private public`, in base64url. */
export async function claimPushKeys(transaction: Transaction, fresh: string): Promise<string> {
  await transaction.run('UPDATE service_key SET push_keys = $1 WHERE push_keys IS NULL', fresh);
  const row = await transaction.get<{ keys: string }>('SELECT push_keys AS keys FROM service_key');
  if (row === undefined) throw new Error('The data has no service key.');
  return row.keys;
}

/** The public half of that key pair. The service makes it before it answers requests. */
export async function findPushKey(query: Query): Promise<string> {
  const row = await query.get<{ keys: string | null }>('SELECT push_keys AS keys FROM service_key');
  return row?.keys?.split(' ')[1] ?? '';
}
