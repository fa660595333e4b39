import type { BodyOf, PathOf, ReplyOf } from '../../wire/endpoint.js';
import type { AgentActor, ServiceContext } from '../context.js';
import type { Transaction } from '../store/database.js';
import { requireTransition } from './lifecycle.js';
import { removeParticipant } from './remove-participant.js';

export async function leaveSession(
  context: ServiceContext,
  actor: AgentActor,
  input: { path: PathOf<'leaveSession'>; body: BodyOf<'leaveSession'> },
  transaction: Transaction,
): Promise<ReplyOf<'leaveSession'>> {
  const { participation } = await requireTransition(transaction, 'leave', input.path.session_id, actor.agentId);
  await removeParticipant(context, transaction, participation, 'left');
  return { ok: true };
}
