import type { Query, Transaction } from './database.js';

/** A secret that lets its holder into an account once: by signing up, or by setting a password. */
export interface EntryLinkRow {
  readonly id: string;
  readonly purpose: 'sign-up' | 'password';
  readonly secret_hash: string;
  /** Whose password it sets, or who signed up with it. */
  readonly account_id: string | null;
  readonly created_at: number;
  readonly expires_at: number;
  readonly used_at: number | null;
}

export async function insertEntryLink(transaction: Transaction, row: Omit<EntryLinkRow, 'used_at'>): Promise<void> {
  await transaction.run(
    `INSERT INTO entry_link (id, purpose, secret_hash, account_id, created_at, expires_at)
     VALUES ($1, $2, $3, $4, $5, $6)`,
    row.id,
    row.purpose,
    row.secret_hash,
    row.account_id,
    row.created_at,
    row.expires_at,
  );
}

/** One that still counts. */
export function findEntryLink(
  query: Query,
  purpose: EntryLinkRow['purpose'],
  secretHash: string,
  now: number,
): Promise<EntryLinkRow | undefined> {
  return query.get<EntryLinkRow>(
    'SELECT * FROM entry_link WHERE secret_hash = $1 AND purpose = $2 AND used_at IS NULL AND expires_at > $3',
    secretHash,
    purpose,
    now,
  );
}

/** False: somebody used it first. */
export async function useEntryLink(
  transaction: Transaction,
  id: string,
  accountId: string,
  now: number,
): Promise<boolean> {
  const changed = await transaction.run(
    'UPDATE entry_link SET used_at = $3, account_id = $2 WHERE id = $1 AND used_at IS NULL AND expires_at > $3',
    id,
    accountId,
    now,
  );
  return changed === 1;
}

/** False: there is no such invitation. */
export async function deleteInvitation(transaction: Transaction, id: string): Promise<boolean> {
  return (await transaction.run("DELETE FROM entry_link WHERE id = $1 AND purpose = 'sign-up'", id)) === 1;
}

/** Those that set the password of an account. */
export async function deletePasswordLinks(transaction: Transaction, accountId: string): Promise<void> {
  await transaction.run("DELETE FROM entry_link WHERE account_id = $1 AND purpose = 'password'", accountId);
}

export function deleteEntryLinksExpiredBefore(transaction: Transaction, epochMs: number): Promise<number> {
  return transaction.run('DELETE FROM entry_link WHERE expires_at < $1', epochMs);
}
