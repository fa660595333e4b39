import type { Handle } from '../../wire/handle.js';
import type { Query, Transaction } from '../core/database.js';
import type { Reach } from './inboxes.js';
import { queueAccountForPush } from './push.js';
import { insertRow, recordsIn } from './sql.js';

/** The address that the service calls with the events of an agent that has no connection. */
export interface WebhookRow {
  readonly agent_id: string;
  readonly account_id: string;
  readonly url: string;
  /** The key that signs each call, as its owner wrote it. */
  readonly secret: string;
  /** Counts the owner's changes, so that the result of an older call does not overwrite a newer choice. */
  readonly revision: number;
  readonly set_at: number;
  /** Whether a test must be answered before any event is sent. */
  readonly is_test_due: number;
  /** When there may be something to send; null: nothing is known. */
  readonly next_at: number | null;
  /** Until then, one process sends; null: none does. */
  readonly claimed_until: number | null;
  /** Calls since the last one that was answered. */
  readonly failures: number;
  readonly failing_since: number | null;
  /** Why the last call failed. */
  readonly failure: string | null;
  readonly answered_at: number | null;
  /** When the service gave up. */
  readonly off_at: number | null;
}

/** An owner's choice. Without `secret`, the old one stays; false: there is none. */
export async function putWebhook(
  transaction: Transaction,
  {
    agent_id,
    account_id,
    url,
    secret,
    set_at,
  }: Pick<WebhookRow, 'agent_id' | 'account_id' | 'url' | 'set_at'> & {
    readonly secret: string | undefined;
  },
): Promise<boolean> {
  const changed = await transaction.run(
    `UPDATE webhook SET url = $2, secret = COALESCE($3, secret), revision = revision + 1, set_at = $4, is_test_due = 1,
       next_at = $4, failures = 0, failing_since = NULL, failure = NULL, off_at = NULL,
       answered_at = CASE WHEN url = $2 THEN answered_at END WHERE agent_id = $1`,
    agent_id,
    url,
    secret ?? null,
    set_at,
  );
  if (changed > 0) return true;
  if (secret === undefined) return false;
  const row = { agent_id, account_id, url, secret, set_at, next_at: set_at };
  await insertRow(transaction, 'webhook', row);
  return true;
}

export function findWebhook(query: Query, agentId: string): Promise<WebhookRow | undefined> {
  return query.get<WebhookRow>('SELECT * FROM webhook WHERE agent_id = $1', agentId);
}

export async function deleteWebhook(transaction: Transaction, agentId: string): Promise<void> {
  await transaction.run('DELETE FROM webhook WHERE agent_id = $1', agentId);
  await transaction.run('DELETE FROM webhook_queue WHERE agent_id = $1', agentId);
}

/**
 * Queues the agents with a webhook whose inboxes these events may have reached. Each row is inserted and never updated,
 * so writers do not wait for each other.
 */
export async function queueForWebhooks(
  transaction: Transaction,
  reaches: readonly Pick<Reach, 'session_id'>[],
  position: number,
): Promise<void> {
  const asked = recordsIn(transaction.dialect, '$1', { session_id: 'TEXT' });
  await transaction.run(
    `INSERT INTO webhook_queue (agent_id, position)
     SELECT DISTINCT webhook.agent_id, CAST($2 AS BIGINT) FROM ${asked} CROSS JOIN participant CROSS JOIN webhook
     WHERE EXISTS (SELECT 1 FROM webhook) AND participant.session_id = asked.session_id
       AND webhook.agent_id = participant.agent_id
     ON CONFLICT (agent_id, position) DO NOTHING`,
    JSON.stringify(reaches.map(({ session_id }) => ({ session_id }))),
    position,
  );
}

/**
 * At the start of a service: events may have been distributed by one that queues nothing. `isAlone`: the processes that
 * have claimed webhooks are gone.
 */
export async function queueAllWebhooks(transaction: Transaction, now: number, isAlone: boolean): Promise<void> {
  if (isAlone)
    await transaction.run(
      'UPDATE webhook SET claimed_until = NULL, next_at = $1 WHERE claimed_until IS NOT NULL AND off_at IS NULL',
      now,
    );
  await transaction.run('UPDATE webhook SET next_at = $1 WHERE next_at IS NULL AND off_at IS NULL', now);
}

/** An agent for which there may be something to send. */
export type DueWebhook = Pick<WebhookRow, 'agent_id' | 'account_id'>;

/** A time that is further ahead than this is from before the clock was set back: no try is put off for that long. */
const AHEAD_MAX_MS = 2 * 60 * 60_000;

/** The next ones after an agent, in order. */
export function listDueWebhooks(query: Query, afterAgentId: string, now: number, limit: number): Promise<DueWebhook[]> {
  return query.all<DueWebhook>(
    `SELECT webhook.agent_id, webhook.account_id FROM (
       SELECT agent_id FROM webhook WHERE next_at <= $2 UNION SELECT agent_id FROM webhook WHERE next_at > $4
       UNION SELECT agent_id FROM webhook_queue) AS due
     CROSS JOIN webhook WHERE webhook.agent_id = due.agent_id AND due.agent_id > $1
     ORDER BY due.agent_id LIMIT $3`,
    afterAgentId,
    now,
    limit,
    now + AHEAD_MAX_MS,
  );
}

/** A webhook that one process calls until `claimed_until`. */
export interface ClaimedWebhook extends WebhookRow {
  readonly claimed_until: number;
  readonly handle: Handle;
}

/** Agents for which nothing is sent: they are removed or paused, or their account is suspended. */
const IS_ACTIVE = `EXISTS (SELECT 1 FROM agent JOIN account ON account.id = agent.account_id
  WHERE agent.id = webhook.agent_id AND agent.removed_at IS NULL AND agent.is_paused = 0 AND account.suspended_at IS NULL)`;

/**
 * Takes a webhook until `until`, with everything that is queued for it. Undefined: another process has it, it rests, or
 * nothing may be sent for its agent; then it is looked at again at `later`.
 */
export async function claimWebhook(
  transaction: Transaction,
  agentId: string,
  { now, until, later }: { readonly now: number; readonly until: number; readonly later: number },
): Promise<ClaimedWebhook | undefined> {
  const tooLate = now + AHEAD_MAX_MS;
  const taken = await transaction.run(
    `UPDATE webhook SET claimed_until = $3, next_at = $3 WHERE agent_id = $1 AND off_at IS NULL
       AND (claimed_until IS NULL OR claimed_until <= $2 OR claimed_until > $4)
       AND (failures = 0 OR next_at <= $2 OR next_at > $4) AND ${IS_ACTIVE}`,
    agentId,
    now,
    until,
    tooLate,
  );
  const row = await transaction.get<WebhookRow & { readonly handle: Handle }>(
    `SELECT webhook.*, agent.handle FROM webhook JOIN agent ON agent.id = webhook.agent_id WHERE webhook.agent_id = $1`,
    agentId,
  );
  const claimedUntil = row?.claimed_until ?? 0;
  const isElsewhere = taken === 0 && claimedUntil > now && claimedUntil <= tooLate;
  // The process that has it may have looked at the inbox already, so the queue must remind of it again.
  if (isElsewhere) return undefined;
  await transaction.run('DELETE FROM webhook_queue WHERE agent_id = $1', agentId);
  if (taken > 0 && row !== undefined) return { ...row, claimed_until: until };
  await transaction.run(
    `UPDATE webhook SET next_at = $3
     WHERE agent_id = $1 AND off_at IS NULL AND (next_at IS NULL OR next_at <= $2 OR next_at > $4)`,
    agentId,
    now,
    later,
    tooLate,
  );
  return undefined;
}

/** Whether a claim still holds, and its owner still wants this address to be called. */
export async function holdsWebhook(query: Query, claim: ClaimedWebhook): Promise<boolean> {
  const found = await query.get(
    `SELECT 1 AS found FROM webhook WHERE agent_id = $1 AND claimed_until = $2 AND revision = $3 AND ${IS_ACTIVE}`,
    claim.agent_id,
    claim.claimed_until,
    claim.revision,
  );
  return found !== undefined;
}

/** The state of a webhook after a claim. */
export type WebhookResult = Pick<
  WebhookRow,
  'is_test_due' | 'next_at' | 'failures' | 'failing_since' | 'failure' | 'answered_at' | 'off_at'
>;

/** Ends a claim, and lets the owner be notified if the webhook is off. If the owner has changed the webhook in the meantime, only the claim ends, and the change is tried at once. */
export async function releaseWebhook(
  transaction: Transaction,
  claim: ClaimedWebhook,
  result: WebhookResult,
  now: number,
): Promise<void> {
  const { agent_id: agentId, claimed_until: until, revision } = claim;
  const released = await transaction.run(
    `UPDATE webhook SET claimed_until = NULL, is_test_due = $4, next_at = $5, failures = $6, failing_since = $7,
       failure = $8, answered_at = $9, off_at = $10
     WHERE agent_id = $1 AND claimed_until = $2 AND revision = $3`,
    agentId,
    until,
    revision,
    result.is_test_due,
    result.next_at,
    result.failures,
    result.failing_since,
    result.failure,
    result.answered_at,
    result.off_at,
  );
  if (released > 0) {
    if (result.off_at !== null) await queueAccountForPush(transaction, claim.account_id);
    return;
  }
  await transaction.run(
    'UPDATE webhook SET claimed_until = NULL, next_at = $3 WHERE agent_id = $1 AND claimed_until = $2',
    agentId,
    until,
    now,
  );
}

/** A webhook that the service gave up calling. */
export interface OffWebhookRow extends Pick<WebhookRow, 'failure'> {
  readonly handle: string;
  readonly name: string;
  readonly off_at: number;
}

/** Those of an account, latest first. */
export function listOffWebhooks(query: Query, accountId: string, limit: number): Promise<OffWebhookRow[]> {
  return query.all<OffWebhookRow>(
    `SELECT agent.handle, agent.name, webhook.failure, webhook.off_at
     FROM webhook JOIN agent ON agent.id = webhook.agent_id
     WHERE webhook.account_id = $1 AND webhook.off_at IS NOT NULL AND agent.removed_at IS NULL
     ORDER BY webhook.off_at DESC, agent.id LIMIT $2`,
    accountId,
    limit,
  );
}
