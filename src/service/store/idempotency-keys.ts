import type { Query, Transaction } from '../core/database.js';

export interface IdempotencyRow {
  readonly actor_id: string;
  readonly endpoint: string;
  readonly key_hash: string;
  readonly fingerprint: string;
  readonly status: number;
  readonly body: string;
  readonly created_at: number;
}

export function findIdempotencyRecord(
  query: Query,
  actorId: string,
  endpoint: string,
  keyHash: string,
): Promise<IdempotencyRow | undefined> {
  return query.get<IdempotencyRow>(
    'SELECT * FROM idempotency_record WHERE actor_id = $1 AND endpoint = $2 AND key_hash = $3',
    actorId,
    endpoint,
    keyHash,
  );
}

/** Replaces a forgotten record with the same key. */
export function putIdempotencyRecord(transaction: Transaction, row: IdempotencyRow): void {
  transaction.send(
    `INSERT INTO idempotency_record (actor_id, endpoint, key_hash, fingerprint, status, body, created_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7)
     ON CONFLICT (actor_id, endpoint, key_hash) DO UPDATE
       SET fingerprint = excluded.fingerprint, status = excluded.status, body = excluded.body,
         created_at = excluded.created_at`,
    row.actor_id,
    row.endpoint,
    row.key_hash,
    row.fingerprint,
    row.status,
    row.body,
    row.created_at,
  );
}

/** Deletes at most `limit` of the records created at or before `moment`; returns how many. */
export function deleteIdempotencyRecords(transaction: Transaction, moment: number, limit: number): Promise<number> {
  return transaction.run(
    `DELETE FROM idempotency_record WHERE (actor_id, endpoint, key_hash) IN
       (SELECT actor_id, endpoint, key_hash FROM idempotency_record WHERE created_at <= $1
        ORDER BY created_at LIMIT $2)`,
    moment,
    limit,
  );
}

/** Deletes at most `limit` of the records of an agent, or of an account that acts itself; returns how many. */
export function deleteIdempotencyRecordsOf(transaction: Transaction, actorId: string, limit: number): Promise<number> {
  return transaction.run(
    `DELETE FROM idempotency_record WHERE (actor_id, endpoint, key_hash) IN
       (SELECT actor_id, endpoint, key_hash FROM idempotency_record WHERE actor_id = $1
        ORDER BY endpoint, key_hash LIMIT $2)`,
    actorId,
    limit,
  );
}
