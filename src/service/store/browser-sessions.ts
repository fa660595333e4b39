import type { Query, Transaction } from '../core/database.js';
import type { AccountRow } from './accounts.js';
import { deletePushSubscription, deletePushSubscriptionOfSession, deletePushSubscriptions } from './push.js';
import { insertRow } from './sql.js';

/** A signed-in browser. */
export interface AccountSessionRow {
  readonly id_hash: string;
  readonly account_id: string;
  /** The address of the sign-in. */
  readonly address: string;
  /** The browser's own name. */
  readonly browser_name: string;
  readonly created_at: number;
  /** When its person last proved who they are. */
  readonly confirmed_at: number;
  readonly expires_at: number;
}

export async function insertAccountSession(transaction: Transaction, row: AccountSessionRow): Promise<void> {
  await insertRow(transaction, 'account_session', row);
}

export function findSignedInAccount(query: Query, idHash: string, now: number): Promise<AccountRow | undefined> {
  return query.get<AccountRow>(
    `SELECT account.* FROM account_session JOIN account ON account.id = account_session.account_id
     WHERE account_session.id_hash = $1 AND account_session.expires_at > $2
       AND account.suspended_at IS NULL AND account.removed_at IS NULL`,
    idHash,
    now,
  );
}

/** Whether the person in front of that browser has proved who they are since then. */
export async function wasConfirmedSince(query: Query, idHash: string, epochMs: number): Promise<boolean> {
  const found = await query.get(
    'SELECT 1 AS found FROM account_session WHERE id_hash = $1 AND confirmed_at >= $2',
    idHash,
    epochMs,
  );
  return found !== undefined;
}

export async function markConfirmed(transaction: Transaction, idHash: string, now: number): Promise<void> {
  await transaction.run('UPDATE account_session SET confirmed_at = $2 WHERE id_hash = $1', idHash, now);
}

/** The next `limit` of an account after a position, newest first. */
export function listAccountSessions(
  query: Query,
  accountId: string,
  now: number,
  position: { readonly createdAt: number; readonly idHash: string },
  limit: number,
): Promise<AccountSessionRow[]> {
  return query.all<AccountSessionRow>(
    `SELECT * FROM account_session
     WHERE account_id = $1 AND expires_at > $2 AND (created_at < $3 OR (created_at = $3 AND id_hash < $4))
     ORDER BY created_at DESC, id_hash DESC LIMIT $5`,
    accountId,
    now,
    position.createdAt,
    position.idHash,
    limit,
  );
}

/** Does nothing if it belongs to another account. The browser is not notified anymore, either. */
export async function deleteAccountSessionOf(
  transaction: Transaction,
  accountId: string,
  idHash: string,
): Promise<void> {
  await deletePushSubscription(transaction, accountId, idHash);
  await transaction.run('DELETE FROM account_session WHERE id_hash = $2 AND account_id = $1', accountId, idHash);
}

/** The browser is not notified anymore, either. */
export async function deleteAccountSession(transaction: Transaction, idHash: string): Promise<void> {
  await deletePushSubscriptionOfSession(transaction, idHash);
  await transaction.run('DELETE FROM account_session WHERE id_hash = $1', idHash);
}

/** Their browsers are still notified. */
export function deleteAccountSessionsExpiredBefore(transaction: Transaction, epochMs: number): Promise<number> {
  return transaction.run('DELETE FROM account_session WHERE expires_at < $1', epochMs);
}

/** Signs an account out everywhere except in the browser with that hash. The others are not notified anymore, either. */
export async function deleteAccountSessions(
  transaction: Transaction,
  accountId: string,
  exceptHash: string | undefined,
): Promise<void> {
  await deletePushSubscriptions(transaction, accountId, exceptHash);
  await transaction.run(
    'DELETE FROM account_session WHERE account_id = $1 AND id_hash <> $2',
    accountId,
    exceptHash ?? '',
  );
}

/** The addresses of an account's signed-in browsers. */
export async function listSignInAddresses(query: Query, accountId: string): Promise<string[]> {
  const rows = await query.all<{ address: string }>(
    'SELECT DISTINCT address FROM account_session WHERE account_id = $1 LIMIT 100',
    accountId,
  );
  return rows.map((row) => row.address);
}
