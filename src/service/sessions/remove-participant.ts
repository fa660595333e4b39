import type { AgentActor, ServiceContext } from '../context.js';
import { append } from '../events/append.js';
import type { Transaction } from '../store/database.js';
import { sessionLock } from '../store/lock-names.js';
import { listSharedActive, markLeft, type ParticipantRow } from '../store/participant-rows.js';

/** Makes a participant `left`, with its `session.left`. */
export async function removeParticipant(
  context: Pick<ServiceContext, 'clock' | 'ids' | 'bus'>,
  transaction: Transaction,
  participant: Pick<ParticipantRow, 'session_id' | 'agent_id' | 'handle'>,
  reason: 'left' | 'grace_expired',
): Promise<void> {
  const { session_id: sessionId, agent_id: agentId, handle } = participant;
  await append(context, transaction, sessionId, 1, async (sequence) => {
    await markLeft(transaction, sessionId, agentId, sequence, context.clock.now());
    return [{ type: 'session.left', subjectAgentId: agentId, payload: { agent: handle, reason } }];
  });
}

/** Takes `otherIds` out of every active session they share with `actor`, as if they had left (D-30). */
export async function removeFromShared(
  context: Pick<ServiceContext, 'clock' | 'ids' | 'bus'>,
  transaction: Transaction,
  actor: Pick<AgentActor, 'agentId'>,
  otherIds: readonly string[],
): Promise<void> {
  const list = () => listSharedActive(transaction, actor.agentId, otherIds);
  const held = new Set((await list()).map((participant) => participant.session_id));
  await transaction.lock([...held].map(sessionLock));
  for (const participant of await list())
    if (held.has(participant.session_id)) await removeParticipant(context, transaction, participant, 'left');
}
