import type { Query, Transaction } from './database.js';

export interface AccountRow {
  readonly id: string;
  /** The owner half of its agents' handles. */
  readonly username: string;
  readonly display_name: string;
  /** Null: nobody signs in with a password. */
  readonly password_hash: string | null;
  /** The operator trusts an account with what strangers may not have, such as open agents. */
  readonly tier: 'standard' | 'trusted';
  readonly is_local: number;
  readonly created_at: number;
  /** Nobody can act for it until the operator resumes it. */
  readonly suspended_at: number | null;
  /** Of all attachments that its agents have uploaded and that are still there. */
  readonly attachment_bytes: number;
}

/** False: the username is taken. */
export async function insertAccount(
  transaction: Transaction,
  row: Omit<AccountRow, 'suspended_at' | 'attachment_bytes'>,
): Promise<boolean> {
  const changed = await transaction.run(
    `INSERT INTO account (id, username, display_name, password_hash, tier, is_local, created_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7)
     ON CONFLICT (username) DO NOTHING`,
    row.id,
    row.username,
    row.display_name,
    row.password_hash,
    row.tier,
    row.is_local,
    row.created_at,
  );
  return changed === 1;
}

/** Suspended accounts are not found. Removed ones are found by nobody. */
export function findAccount(query: Query, accountId: string): Promise<AccountRow | undefined> {
  return query.get<AccountRow>(
    'SELECT * FROM account WHERE id = $1 AND suspended_at IS NULL AND removed_at IS NULL',
    accountId,
  );
}

/** Suspended accounts too. */
export function findAccountByUsername(query: Query, username: string): Promise<AccountRow | undefined> {
  return query.get<AccountRow>('SELECT * FROM account WHERE username = $1 AND removed_at IS NULL', username);
}

/** Whether anybody signs in with a password here. */
export async function hasPasswordAccounts(query: Query): Promise<boolean> {
  return (await query.get('SELECT 1 AS found FROM account WHERE password_hash IS NOT NULL LIMIT 1')) !== undefined;
}

export async function updatePasswordHash(transaction: Transaction, accountId: string, hash: string): Promise<void> {
  await transaction.run('UPDATE account SET password_hash = $2 WHERE id = $1', accountId, hash);
}

export async function markAccountSuspended(
  transaction: Transaction,
  accountId: string,
  suspendedAt: number | null,
): Promise<void> {
  await transaction.run('UPDATE account SET suspended_at = $2 WHERE id = $1', accountId, suspendedAt);
}

export async function updateTier(transaction: Transaction, accountId: string, tier: AccountRow['tier']): Promise<void> {
  await transaction.run('UPDATE account SET tier = $2 WHERE id = $1', accountId, tier);
}

/** Its name stays, so that nobody else ever has it; what it says of a person goes. */
export async function markAccountRemoved(
  transaction: Transaction,
  accountId: string,
  removedAt: number,
): Promise<void> {
  await transaction.run(
    'UPDATE account SET removed_at = $2, password_hash = NULL, display_name = username WHERE id = $1',
    accountId,
    removedAt,
  );
}

/** Adds to what an account's attachments take. False: that would be more than `max`. */
export async function addAttachmentBytes(
  transaction: Transaction,
  accountId: string,
  bytes: number,
  max: number,
): Promise<boolean> {
  const changed = await transaction.run(
    'UPDATE account SET attachment_bytes = attachment_bytes + $2 WHERE id = $1 AND attachment_bytes + $2 <= $3',
    accountId,
    bytes,
    max,
  );
  return changed === 1;
}
