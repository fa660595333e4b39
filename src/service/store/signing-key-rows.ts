import type { Query, Transaction } from './database.js';
import { SIGNING_KEYS_LOCK } from './lock-names.js';

export interface SigningKeyRow {
  readonly kid: string;
  /** JSON Web Keys (RFC 7517) as JSON. */
  readonly private_jwk: string;
  readonly public_jwk: string;
  readonly created_at: number;
  readonly signs_from: number;
  /** When the next key starts to sign; null while there is no next one. */
  readonly retired_at: number | null;
}

export function listSigningKeys(query: Query): Promise<SigningKeyRow[]> {
  return query.all<SigningKeyRow>('SELECT * FROM signing_key ORDER BY signs_from, kid');
}

/** False: there is a key already. */
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

/** Adds the key that takes over from all others at its `signs_from`. False: another key is about to take over already. */
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

export function deleteSigningKeysRetiredBefore(transaction: Transaction, epochMs: number): Promise<number> {
  return transaction.run('DELETE FROM signing_key WHERE retired_at < $1', epochMs);
}
