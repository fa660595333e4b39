import type { BodyOf, PathOf, ReplyOf } from '../../wire/endpoint.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { append } from '../events/append.js';
import type { Transaction } from '../store/database.js';
import { markSessionEnded } from '../store/session-rows.js';
import { requireTransition } from './lifecycle.js';

/** Participants keep the status they have (wire: Sessions). */
export async function endSession(
  context: ServiceContext,
  actor: AgentActor,
  input: { path: PathOf<'endSession'>; body: BodyOf<'endSession'> },
  transaction: Transaction,
): Promise<ReplyOf<'endSession'>> {
  const sessionId = input.path.session_id;
  await requireTransition(transaction, 'end', sessionId, actor.agentId);
  await append(context, transaction, sessionId, 1, async () => {
    await markSessionEnded(transaction, sessionId, context.clock.now());
    return [{ type: 'session.ended', payload: { ended_by: actor.handle } }];
  });
  return { ok: true };
}
