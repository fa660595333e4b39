import type { BodyOf, PathOf, ReplyOf } from '../../wire/endpoint.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { append } from '../events/append.js';
import type { Transaction } from '../store/database.js';
import { markJoined } from '../store/participant-rows.js';
import { requireTransition } from './lifecycle.js';

export async function joinSession(
  context: ServiceContext,
  actor: AgentActor,
  input: { path: PathOf<'joinSession'>; body: BodyOf<'joinSession'> },
  transaction: Transaction,
): Promise<ReplyOf<'joinSession'>> {
  const sessionId = input.path.session_id;
  const { transition } = await requireTransition(transaction, 'join', sessionId, actor.agentId);
  if (transition === 'none') return { ok: true };
  await append(context, transaction, sessionId, 1, async () => {
    await markJoined(transaction, sessionId, actor.agentId, context.clock.now());
    return [{ type: 'session.joined', payload: { agent: actor.handle } }];
  });
  return { ok: true };
}
