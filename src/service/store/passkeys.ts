import type { Query, Transaction } from '../core/database.js';
import { insertRow } from './sql.js';

/** Of one account. */
export const PASSKEYS_MAX = 20;

/** A key pair of an account. The private half never leaves the device that made it. */
export interface PasskeyRow {
  readonly id: string;
  /** The authenticator's own name for it, in base64url. */
  readonly credential_id: string;
  readonly account_id: string;
  readonly name: string;
  /** In base64url. */
  readonly public_key: string;
  /** How often it has signed, if its authenticator counts; 0 otherwise. */
  readonly sign_count: number;
  /** How browsers reach it, separated by spaces. */
  readonly transports: string;
  readonly created_at: number;
  readonly last_used_at: number | null;
}

/** False: there is one with this credential id. */
export async function insertPasskey(transaction: Transaction, row: PasskeyRow): Promise<boolean> {
  return (await insertRow(transaction, 'passkey', row, '(credential_id) DO NOTHING')) === 1;
}

export function findPasskey(query: Query, credentialId: string): Promise<PasskeyRow | undefined> {
  return query.get<PasskeyRow>('SELECT * FROM passkey WHERE credential_id = $1', credentialId);
}

/** In the order in which they were added. */
export function listPasskeys(query: Query, accountId: string): Promise<PasskeyRow[]> {
  const sql = 'SELECT * FROM passkey WHERE account_id = $1 ORDER BY id LIMIT $2';
  return query.all<PasskeyRow>(sql, accountId, PASSKEYS_MAX);
}

/** False if it was removed, or if its counter is too low, which means that it was copied. */
export async function markPasskeyUsed(
  transaction: Transaction,
  id: string,
  signCount: number,
  now: number,
): Promise<boolean> {
  const changed = await transaction.run(
    `UPDATE passkey SET sign_count = $2, last_used_at = $3
     WHERE id = $1 AND (sign_count < $2 OR (sign_count = 0 AND $2 = 0))`,
    id,
    signCount,
    now,
  );
  return changed === 1;
}

export async function deletePasskey(transaction: Transaction, accountId: string, id: string): Promise<void> {
  await transaction.run('DELETE FROM passkey WHERE id = $2 AND account_id = $1', accountId, id);
}

export async function deletePasskeysOfAccount(transaction: Transaction, accountId: string): Promise<number> {
  return transaction.run('DELETE FROM passkey WHERE account_id = $1', accountId);
}

/** False: it was used before. */
export async function markChallengeUsed(transaction: Transaction, hash: string, expiresAt: number): Promise<boolean> {
  const row = { challenge_hash: hash, expires_at: expiresAt };
  return (await insertRow(transaction, 'used_challenge', row, '(challenge_hash) DO NOTHING')) === 1;
}

export function deleteUsedChallengesBefore(transaction: Transaction, epochMs: number): Promise<number> {
  return transaction.run('DELETE FROM used_challenge WHERE expires_at < $1', epochMs);
}
