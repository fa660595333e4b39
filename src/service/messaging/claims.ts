import type { Handler } from '../core/context.js';
import { ServiceError } from '../core/errors.js';
import { findClaim, putClaim } from '../store/claims.js';
import { findParticipation } from '../store/participants.js';

/**
 * One of an agent's workers takes, keeps or gives back the session (wire: Workers). An agent that can read the session can
 * claim it, even if its only message came with the invitation.
 */
export const claimSession: Handler<'claimSession'> = async ({ clock }, { agentId }, input, transaction) => {
  const sessionId = input.path.session_id;
  const { worker, lease_ms: leaseMs, done = 0 } = input.body;
  if ((await findParticipation(transaction, sessionId, agentId)) === undefined) throw new ServiceError('NOT_FOUND');
  const now = clock.now();
  const expiresAt = leaseMs > 0 ? now + leaseMs : 0;
  const own = await putClaim(transaction, { sessionId, agentId, worker, expiresAt, done }, now);
  const row = own ?? (await findClaim(transaction, sessionId, agentId));
  if (row === undefined) throw new ServiceError('NOT_FOUND');
  return {
    is_yours: own !== undefined && leaseMs > 0,
    expires_in_ms: Math.max(0, row.expires_at - now),
    done: row.done,
    attempt: row.attempt,
  };
};
