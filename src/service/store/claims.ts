import type { Query, Transaction } from '../core/database.js';
import { whereSessionExists } from './sessions.js';

/** What a worker's claim of a session says. */
export interface ClaimRow {
  /** 0: given back. */
  readonly expires_at: number;
  readonly done: number;
  readonly attempt: number;
}

/** A worker's claim. With `expiresAt` 0, the worker gives the session back. */
export interface NewClaim {
  readonly sessionId: string;
  readonly agentId: string;
  readonly worker: string;
  readonly expiresAt: number;
  readonly done: number;
}

/** The worker's claim as it is now; undefined if another worker has one. */
export function putClaim(transaction: Transaction, claim: NewClaim, now: number): Promise<ClaimRow | undefined> {
  const { sessionId, agentId, worker, expiresAt, done } = claim;
  return transaction.get<ClaimRow>(
    `INSERT INTO claim (session_id, agent_id, worker, expires_at, done, attempt)
     SELECT $1, $2, $3, CAST($4 AS BIGINT), CAST($5 AS BIGINT), CAST($6 AS INTEGER) ${whereSessionExists(transaction, '$1')}
     ON CONFLICT (session_id, agent_id) DO UPDATE SET worker = excluded.worker, expires_at = excluded.expires_at,
       done = CASE WHEN excluded.done > claim.done THEN excluded.done ELSE claim.done END,
       attempt = CASE
         WHEN excluded.done > claim.done THEN excluded.attempt
         WHEN excluded.worker <> claim.worker OR claim.attempt = 0 THEN claim.attempt + excluded.attempt
         ELSE claim.attempt END
       WHERE claim.worker = excluded.worker OR claim.expires_at <= $7
     RETURNING expires_at, done, attempt`,
    sessionId,
    agentId,
    worker,
    expiresAt,
    done,
    expiresAt > now ? 1 : 0,
    now,
  );
}

export function findClaim(query: Query, sessionId: string, agentId: string): Promise<ClaimRow | undefined> {
  return query.get<ClaimRow>(
    'SELECT expires_at, done, attempt FROM claim WHERE session_id = $1 AND agent_id = $2',
    sessionId,
    agentId,
  );
}
