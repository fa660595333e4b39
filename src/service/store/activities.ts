import type { Query, Transaction } from '../core/database.js';
import { insertRow } from './sql.js';

/** Something that was done with an account. */
export interface ActivityRow {
  /** In order of time. */
  readonly id: string;
  readonly account_id: string;
  readonly kind: string;
  /** The thing that the action affected; may be empty. */
  readonly detail: string;
  /** The address it came from; empty if unknown. */
  readonly address: string;
  readonly browser_name: string;
  readonly created_at: number;
}

const KEPT_PER_ACCOUNT = 1_000;

/** Adds an entry. The latest thousand of an account are kept. */
export async function insertActivity(transaction: Transaction, row: ActivityRow): Promise<void> {
  await insertRow(transaction, 'activity', row);
  await transaction.run(
    `DELETE FROM activity WHERE account_id = $1 AND id <= (
       SELECT id FROM activity WHERE account_id = $1 ORDER BY id DESC LIMIT 1 OFFSET ${KEPT_PER_ACCOUNT})`,
    row.account_id,
  );
}

/** The next `limit` of an account before the one with `beforeId`, newest first. */
export function listActivities(
  query: Query,
  accountId: string,
  beforeId: string,
  limit: number,
): Promise<ActivityRow[]> {
  return query.all<ActivityRow>(
    'SELECT * FROM activity WHERE account_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3',
    accountId,
    beforeId,
    limit,
  );
}

export async function deleteActivitiesOfAccount(transaction: Transaction, accountId: string): Promise<void> {
  await transaction.run('DELETE FROM activity WHERE account_id = $1', accountId);
}

export function deleteActivitiesBefore(transaction: Transaction, epochMs: number): Promise<number> {
  return transaction.run('DELETE FROM activity WHERE created_at < $1', epochMs);
}

/** Whether there is a later entry of this kind. */
export async function hasActivitySince(
  query: Query,
  accountId: string,
  kind: string,
  epochMs: number,
): Promise<boolean> {
  const row = await query.get(
    'SELECT 1 AS found FROM activity WHERE account_id = $1 AND kind = $2 AND created_at > $3 LIMIT 1',
    accountId,
    kind,
    epochMs,
  );
  return row !== undefined;
}
