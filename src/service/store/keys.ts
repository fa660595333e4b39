import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Query, Transaction } from '../core/database.js';
import { SIGNING_KEYS_LOCK } from './lock-names.js';

/** Sealed keys begin with this; those in the clear are JSON. */
export const SEALED_PREFIX = 'sealed-1:';

export interface SigningKeyRow {
  readonly kid: string;
  /** A JSON Web Key (RFC 7517) as JSON, sealed if the service has a key file. */
  readonly private_jwk: string;
  readonly public_jwk: string;
  readonly created_at: number;
  readonly signs_from: number;
  /** When the next key starts to sign; null if there is no next one. */
  readonly retired_at: number | null;
}

export function listSigningKeys(query: Query): Promise<SigningKeyRow[]> {
  return query.all<SigningKeyRow>('SELECT * FROM signing_key ORDER BY signs_from, kid');
}

/** False: there is already a key. */
export async function insertFirstSigningKey(transaction: Transaction, row: SigningKeyRow): Promise<boolean> {
  await transaction.lock([SIGNING_KEYS_LOCK]);
  const changed = await transaction.run(
    `INSERT INTO signing_key (kid, private_jwk, public_jwk, created_at, signs_from, retired_at)
     SELECT $1, $2, $3, CAST($4 AS BIGINT), CAST($5 AS BIGINT), NULL WHERE NOT EXISTS (SELECT 1 FROM signing_key)`,
    row.kid,
    row.private_jwk,
    row.public_jwk,
    row.created_at,
    row.signs_from,
  );
  return changed === 1;
}

/** Adds the key that replaces all others at its `signs_from`. False: another key is already about to take over. */
export async function insertNextSigningKey(transaction: Transaction, row: SigningKeyRow): Promise<boolean> {
  await transaction.lock([SIGNING_KEYS_LOCK]);
  const changed = await transaction.run(
    `INSERT INTO signing_key (kid, private_jwk, public_jwk, created_at, signs_from, retired_at)
     SELECT $1, $2, $3, CAST($4 AS BIGINT), CAST($5 AS BIGINT), NULL
     WHERE NOT EXISTS (SELECT 1 FROM signing_key WHERE signs_from > CAST($4 AS BIGINT))`,
    row.kid,
    row.private_jwk,
    row.public_jwk,
    row.created_at,
    row.signs_from,
  );
  if (changed === 0) return false;
  await transaction.run(
    'UPDATE signing_key SET retired_at = $2 WHERE kid <> $1 AND retired_at IS NULL',
    row.kid,
    row.signs_from,
  );
  return true;
}

/** Stores a private key in another form. */
export async function replacePrivateKey(
  transaction: Transaction,
  { kid, private_jwk: stored }: Pick<SigningKeyRow, 'kid' | 'private_jwk'>,
  replacement: string,
): Promise<void> {
  await transaction.lock([SIGNING_KEYS_LOCK]);
  await transaction.run(
    'UPDATE signing_key SET private_jwk = $3 WHERE kid = $1 AND private_jwk = $2',
    kid,
    stored,
    replacement,
  );
}

export function deleteSigningKeysRetiredBefore(transaction: Transaction, epochMs: number): Promise<number> {
  return transaction.run('DELETE FROM signing_key WHERE retired_at < $1', epochMs);
}

/** The purpose of each derived key: a seal for one purpose is invalid for another. */
export type KeyPurpose = 'download' | 'hidden-agent' | 'bells' | 'attachments';

/** HMAC-SHA-256 of `text` under the service's own secret. */
export async function seal(query: Query, purpose: KeyPurpose, text: string): Promise<Buffer> {
  const row = await query.get<{ secret: string }>('SELECT secret FROM service_key');
  if (row === undefined) throw new Error('The data has no service key.');
  const key = createHmac('sha256', Buffer.from(row.secret, 'base64url')).update(purpose).digest();
  return createHmac('sha256', key).update(text).digest();
}

/** The mark of the place where the attachments are; `mark` becomes it if there is none yet. Others wait for the commit. */
export async function claimHome(transaction: Transaction, mark: string): Promise<string> {
  await transaction.run('UPDATE service_key SET attachments_home = $1 WHERE attachments_home IS NULL', mark);
  const row = await transaction.get<{ home: string }>('SELECT attachments_home AS home FROM service_key');
  if (row === undefined) throw new Error('The data has no service key.');
  return row.home;
}

/** Whether `received`, base64url as a caller sent it, equals `expected`; in constant time. */
export function isSeal(received: string, expected: Buffer): boolean {
  const bytes = Buffer.from(received, 'base64url');
  return (
    bytes.length === expected.length && timingSafeEqual(bytes, expected) && bytes.toString('base64url') === received
  );
}
