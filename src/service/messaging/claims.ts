import type { Handler } from '../core/context.js';
import { ServiceError } from '../core/errors.js';
import { endClaim, findClaimEnd, insertHandled, isHandled, putClaim } from '../store/claims.js';
import { findParticipation } from '../store/participants.js';

/**
 * One of an agent's workers takes, keeps or gives back a session, for an event (wire: Workers). An agent that can read
 * the session can claim it, even if its only message came with the invitation.
 */
export const claimSession: Handler<'claimSession'> = async ({ clock }, { agentId }, input, transaction) => {
  const sessionId = input.path.session_id;
  const { worker, event_id: eventId, sequence, lease_ms: leaseMs, done = false } = input.body;
  const participation = await findParticipation(transaction, sessionId, agentId);
  if (participation === undefined) throw new ServiceError('NOT_FOUND');
  const claim = { sessionId, agentId, worker, eventId };
  if (done || leaseMs === 0) {
    if (done) await insertHandled(transaction, claim, sequence);
    await endClaim(transaction, claim);
    return { is_yours: false, is_done: await isHandled(transaction, claim), expires_in_ms: 0, attempt: 0 };
  }
  const now = clock.now();
  const attempt = await putClaim(transaction, { ...claim, expiresAt: now + leaseMs }, now);
  // Asked after the claim: the worker that had the session may have reported it a moment ago.
  const isDone = sequence < (participation.first_invited_sequence ?? 0) || (await isHandled(transaction, claim));
  if (attempt === undefined) {
    const end = await findClaimEnd(transaction, sessionId, agentId);
    if (end === undefined) throw new ServiceError('NOT_FOUND');
    return { is_yours: false, is_done: isDone, expires_in_ms: Math.max(0, end - now), attempt: 0 };
  }
  if (isDone) await endClaim(transaction, claim);
  return { is_yours: !isDone, is_done: isDone, expires_in_ms: isDone ? 0 : leaseMs, attempt: isDone ? 0 : attempt };
};
