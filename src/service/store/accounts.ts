import type { Query, Transaction } from '../core/database.js';
import { insertRow } from './sql.js';

export interface AccountRow {
  readonly id: string;
  /** The owner half of its agents' handles. */
  readonly username: string;
  readonly display_name: string;
  /** Null: no one can sign in with a password. */
  readonly password_hash: string | null;
  /** Whether the operator trusts the account, which lets it have things that strangers may not, such as open agents. */
  readonly tier: 'standard' | 'trusted';
  readonly is_local: number;
  /** It may use the operator's area of the dashboard. */
  readonly is_operator: number;
  readonly created_at: number;
  /** When a field that others see last changed. */
  readonly updated_at: number;
  /** No one can act for it until the operator resumes it. */
  readonly suspended_at: number | null;
  /** Of all existing attachments that its agents have uploaded. */
  readonly attachment_bytes: number;
}

/** False: the username is taken. */
export async function insertAccount(
  transaction: Transaction,
  row: Omit<AccountRow, 'is_operator' | 'suspended_at' | 'attachment_bytes'>,
): Promise<boolean> {
  const changed = await insertRow(transaction, 'account', row, '(username) DO NOTHING');
  return changed === 1;
}

/** Suspended accounts are not found. Removed ones are never found. */
export function findAccount(query: Query, accountId: string): Promise<AccountRow | undefined> {
  return query.get<AccountRow>(
    'SELECT * FROM account WHERE id = $1 AND suspended_at IS NULL AND removed_at IS NULL',
    accountId,
  );
}

/** Including suspended accounts. */
export function findAccountById(query: Query, accountId: string): Promise<AccountRow | undefined> {
  return query.get<AccountRow>('SELECT * FROM account WHERE id = $1 AND removed_at IS NULL', accountId);
}

/** Including suspended accounts. */
export function findAccountByUsername(query: Query, username: string): Promise<AccountRow | undefined> {
  return query.get<AccountRow>('SELECT * FROM account WHERE username = $1 AND removed_at IS NULL', username);
}

/** Whether any account signs in with a password here. */
export async function hasPasswordAccounts(query: Query): Promise<boolean> {
  return (await query.get('SELECT 1 AS found FROM account WHERE password_hash IS NOT NULL LIMIT 1')) !== undefined;
}

export async function updatePasswordHash(transaction: Transaction, accountId: string, hash: string): Promise<void> {
  await transaction.run('UPDATE account SET password_hash = $2 WHERE id = $1', accountId, hash);
}

export async function updateDisplayName(
  transaction: Transaction,
  accountId: string,
  displayName: string,
  now: number,
): Promise<void> {
  await transaction.run(
    'UPDATE account SET display_name = $2, updated_at = $3 WHERE id = $1',
    accountId,
    displayName,
    now,
  );
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

export async function updateIsOperator(
  transaction: Transaction,
  accountId: string,
  isOperator: boolean,
): Promise<void> {
  await transaction.run('UPDATE account SET is_operator = $2 WHERE id = $1', accountId, isOperator ? 1 : 0);
}

/** Its name stays, so that no one else can ever have it; personal data is deleted. */
export async function markAccountRemoved(
  transaction: Transaction,
  accountId: string,
  removedAt: number,
): Promise<void> {
  await transaction.run(
    'UPDATE account SET removed_at = $2, password_hash = NULL, display_name = username, is_operator = 0 WHERE id = $1',
    accountId,
    removedAt,
  );
}

/** Adds to the size of an account's attachments. False: that would exceed `max`. */
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

/** A secret that lets its holder into an account once: to sign up, or to set a password. */
export interface EntryLinkRow {
  readonly id: string;
  readonly purpose: 'sign-up' | 'password';
  readonly secret_hash: string;
  /** The account whose password it sets, or that signed up with it. */
  readonly account_id: string | null;
  readonly created_at: number;
  readonly expires_at: number;
  readonly used_at: number | null;
}

export async function insertEntryLink(transaction: Transaction, row: Omit<EntryLinkRow, 'used_at'>): Promise<void> {
  await insertRow(transaction, 'entry_link', row);
}

/** One that is still valid. */
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

/** False: it was already used. */
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

/** Password links of an account. */
export async function deletePasswordLinks(transaction: Transaction, accountId: string): Promise<void> {
  await transaction.run("DELETE FROM entry_link WHERE account_id = $1 AND purpose = 'password'", accountId);
}

export function deleteEntryLinksExpiredBefore(transaction: Transaction, epochMs: number): Promise<number> {
  return transaction.run('DELETE FROM entry_link WHERE expires_at < $1', epochMs);
}
