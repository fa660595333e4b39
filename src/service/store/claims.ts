import { CLAIM_MAX_MS } from '../../wire/limit.js';
import type { Query, Transaction } from '../core/database.js';
import { whereSessionExists } from './sessions.js';

/** A worker's claim of a session, for an event. */
export interface NewClaim {
  readonly sessionId: string;
  readonly agentId: string;
  readonly worker: string;
  readonly eventId: string;
  readonly expiresAt: number;
}

/** A claim that ends later than this from now is from before the clock was set back; clocks of services differ by less. */
const LONGEST_CLAIM_MS = 2 * CLAIM_MAX_MS;

/** Gives the session to the worker, and returns how many have claimed it for this event; undefined: another one has it. */
export async function putClaim(transaction: Transaction, claim: NewClaim, now: number): Promise<number | undefined> {
  const { sessionId, agentId, worker, eventId, expiresAt } = claim;
  const row = await transaction.get<{ attempt: number }>(
    `INSERT INTO claim (session_id, agent_id, worker, event_id, attempt, expires_at)
     SELECT $1, $2, $3, $4, 1, CAST($5 AS BIGINT) ${whereSessionExists(transaction, '$1')}
     ON CONFLICT (session_id, agent_id) DO UPDATE SET worker = excluded.worker, event_id = excluded.event_id,
       attempt = CASE WHEN claim.event_id <> excluded.event_id THEN 1
         WHEN claim.worker <> excluded.worker THEN claim.attempt + 1
         ELSE claim.attempt END,
       expires_at = excluded.expires_at
       WHERE claim.worker = excluded.worker OR claim.expires_at <= $6 OR claim.expires_at > $7
     RETURNING attempt`,
    sessionId,
    agentId,
    worker,
    eventId,
    expiresAt,
    now,
    now + LONGEST_CLAIM_MS,
  );
  return row?.attempt;
}

/** When the session is free; undefined: it was never claimed. */
export async function findClaimEnd(query: Query, sessionId: string, agentId: string): Promise<number | undefined> {
  const row = await query.get<{ expires_at: number }>(
    'SELECT expires_at FROM claim WHERE session_id = $1 AND agent_id = $2',
    sessionId,
    agentId,
  );
  return row?.expires_at;
}

/** Ends the worker's claim for an event, if it still has it. The row remembers the attempts. */
export async function endClaim(
  transaction: Transaction,
  { sessionId, agentId, worker, eventId }: Omit<NewClaim, 'expiresAt'>,
): Promise<void> {
  await transaction.run(
    'UPDATE claim SET expires_at = 0 WHERE session_id = $1 AND agent_id = $2 AND worker = $3 AND event_id = $4',
    sessionId,
    agentId,
    worker,
    eventId,
  );
}

/** Records that an event is done, if there is such an event. */
export async function insertHandled(
  transaction: Transaction,
  { sessionId, agentId, eventId }: Pick<NewClaim, 'sessionId' | 'agentId' | 'eventId'>,
  sequence: number,
): Promise<void> {
  await transaction.run(
    `INSERT INTO handled (session_id, event_id, agent_id) SELECT $1, $2, $3 ${whereSessionExists(transaction, '$1')}
       AND EXISTS (SELECT 1 FROM event WHERE session_id = $1 AND sequence = CAST($4 AS BIGINT) AND id = $2)
     ON CONFLICT (session_id, event_id, agent_id) DO NOTHING`,
    sessionId,
    eventId,
    agentId,
    sequence,
  );
}

export async function isHandled(
  query: Query,
  { sessionId, agentId, eventId }: Pick<NewClaim, 'sessionId' | 'agentId' | 'eventId'>,
): Promise<boolean> {
  const row = await query.get(
    'SELECT 1 AS found FROM handled WHERE session_id = $1 AND event_id = $2 AND agent_id = $3',
    sessionId,
    eventId,
    agentId,
  );
  return row !== undefined;
}
