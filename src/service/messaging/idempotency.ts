import { hash } from 'node:crypto';
import { isErrorCode } from '../../wire/error.js';
import { IDEMPOTENCY_KEY_LIFETIME_S } from '../../wire/limit.js';
import type { ServiceContext } from '../core/context.js';
import { deleteInBatches, type Transaction } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import {
  deleteIdempotencyRecords,
  deleteIdempotencyRecordsOf,
  findIdempotencyRecord,
  type IdempotencyRow,
  putIdempotencyRecord,
} from '../store/idempotency-keys.js';
import { keyLock } from '../store/lock-names.js';

const LIFETIME_MS = IDEMPOTENCY_KEY_LIFETIME_S * 1000;

/** One logical operation: the same for every attempt (spec: Idempotency, rule 2). */
export interface KeyedOperation {
  /** The agent, or the account if it acts itself. */
  readonly actorId: string;
  /** Method and concrete path: one key in two sessions is two operations (D-20). */
  readonly endpoint: string;
  readonly key: string;
}

export interface KeyedRequest extends KeyedOperation {
  /** Equal for equal bodies (D-22). */
  readonly fingerprint: string;
  /** The locks of the work, if all of them are known before it begins. */
  readonly holds?: readonly string[] | undefined;
  /** The caller cannot choose another key, so a refusal must not outlast its reason: it leaves the key unused. */
  readonly isDerived?: boolean | undefined;
}

export interface KeyedAnswer {
  readonly status: number;
  /** The bytes of the first answer. */
  readonly body: string;
}

/**
 * Runs `work` once for a key and returns its answer to every later call with that key. The answer is recorded in the
 * transaction of the effect, so that no crash can come between them. Calls with the same key take turns, so of two
 * simultaneous calls the second finds the record of the first (D-23). A business refusal (404, 409) is an answer too:
 * the work's writes are rolled back, the refusal is recorded with what remains of it, and thrown only once the record is
 * durable. Every other failure rolls everything back, and the key stays unused (D-21); so does a refusal if the key is
 * derived (`isDerived`).
 */
export async function withIdempotency(
  context: Pick<ServiceContext, 'clock' | 'database'>,
  request: KeyedRequest,
  work: (transaction: Transaction) => Promise<KeyedAnswer>,
): Promise<KeyedAnswer> {
  const keyHash = hashKey(request.key);
  const { actorId, endpoint, fingerprint, holds, isDerived } = request;
  const result = await context.database.write(
    async (transaction) => {
      const now = context.clock.now();
      const known = await findRecord(transaction, { actorId, endpoint, keyHash }, now);
      if (known !== undefined) {
        if (known.fingerprint !== fingerprint) throw new ServiceError('IDEMPOTENCY_MISMATCH');
        return readResult(known.status, known.body);
      }
      const fresh = await runOnce(transaction, work);
      if (fresh.kind === 'refusal' && isDerived === true) return fresh;
      putIdempotencyRecord(transaction, {
        actor_id: actorId,
        endpoint,
        key_hash: keyHash,
        fingerprint,
        status: fresh.status,
        body: fresh.kind === 'answer' ? fresh.body : fresh.error.code,
        created_at: now,
      });
      return fresh;
    },
    holds && [keyLock(actorId, endpoint, keyHash), ...holds],
  );
  if (result.kind === 'refusal') throw result.error;
  return { status: result.status, body: result.body };
}

/** Whether the key already has its answer, or is about to get it from an open request. */
export function isKeyKnown(
  context: Pick<ServiceContext, 'clock' | 'database'>,
  { actorId, endpoint, key }: KeyedOperation,
): Promise<boolean> {
  return context.database.write(async (transaction) => {
    const known = await findRecord(transaction, { actorId, endpoint, keyHash: hashKey(key) }, context.clock.now());
    return known !== undefined;
  });
}

/** The record of a key that is still valid. No other transaction adds one before this one ends. */
async function findRecord(
  transaction: Transaction,
  { actorId, endpoint, keyHash }: { readonly actorId: string; readonly endpoint: string; readonly keyHash: string },
  now: number,
): Promise<IdempotencyRow | undefined> {
  const [, known] = await Promise.all([
    transaction.lock([keyLock(actorId, endpoint, keyHash)]),
    findIdempotencyRecord(transaction, actorId, endpoint, keyHash),
  ]);
  return known !== undefined && now < known.created_at + LIFETIME_MS ? known : undefined;
}

function hashKey(key: string): string {
  return hash('sha256', key, 'hex');
}

type KeyedResult =
  | { readonly kind: 'answer'; readonly status: number; readonly body: string }
  | { readonly kind: 'refusal'; readonly status: number; readonly error: ServiceError };

async function runOnce(
  transaction: Transaction,
  work: (transaction: Transaction) => Promise<KeyedAnswer>,
): Promise<KeyedResult> {
  try {
    return { kind: 'answer', ...(await transaction.attempt(work)) };
  } catch (error) {
    if (!(error instanceof ServiceError) || (error.status !== 404 && error.status !== 409)) throw error;
    await error.options.afterRefusal?.(transaction);
    return { kind: 'refusal', status: error.status, error };
  }
}

/** A refusal is stored as its code alone: its text is always that of the table. */
function readResult(status: number, body: string): KeyedResult {
  if (isErrorCode(body)) return { kind: 'refusal', status, error: new ServiceError(body) };
  return { kind: 'answer', status, body };
}

/** Deletes expired records. */
export function forgetOldKeys({ clock, database }: Pick<ServiceContext, 'clock' | 'database'>): Promise<number> {
  const moment = clock.now() - LIFETIME_MS;
  return deleteInBatches(database, (transaction, limit) => deleteIdempotencyRecords(transaction, moment, limit));
}

/** Deletes what an agent, or an account that acts itself, was answered. */
export async function forgetKeysOf({ database }: Pick<ServiceContext, 'database'>, actorId: string): Promise<void> {
  await deleteInBatches(database, (transaction, limit) => deleteIdempotencyRecordsOf(transaction, actorId, limit));
}
