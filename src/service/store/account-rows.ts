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
}

/** False: the username is taken. */
export async function insertAccount(transaction: Transaction, row: AccountRow): Promise<boolean> {
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

export function findAccount(query: Query, accountId: string): Promise<AccountRow | undefined> {
  return query.get<AccountRow>('SELECT * FROM account WHERE id = $1', accountId);
}

export function findAccountByUsername(query: Query, username: string): Promise<AccountRow | undefined> {
  return query.get<AccountRow>('SELECT * FROM account WHERE username = $1', username);
}

/** Whether anybody signs in with a password here. */
export async function hasPasswordAccounts(query: Query): Promise<boolean> {
  return (await query.get('SELECT 1 AS found FROM account WHERE password_hash IS NOT NULL LIMIT 1')) !== undefined;
}

export async function updatePasswordHash(transaction: Transaction, accountId: string, hash: string): Promise<void> {
  await transaction.run('UPDATE account SET password_hash = $2 WHERE id = $1', accountId, hash);
}
