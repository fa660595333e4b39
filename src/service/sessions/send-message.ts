import type { BodyOf, PathOf, ReplyOf } from '../../wire/endpoint.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { append } from '../events/append.js';
import type { Transaction } from '../store/database.js';
import { listJoinedOpenAgents } from '../store/participant-rows.js';
import { requireTransition } from './lifecycle.js';
import { writeMessage } from './write-message.js';

/**
 * The limits are asked after the eligibility, or a 429 would tell that the session exists (D-19), and after the claim of the
 * attachments: a message that is refused costs nothing of them (D-44).
 */
export async function sendMessage(
  context: ServiceContext,
  actor: AgentActor,
  input: { path: PathOf<'sendMessage'>; body: BodyOf<'sendMessage'> },
  transaction: Transaction,
): Promise<ReplyOf<'sendMessage'>> {
  const sessionId = input.path.session_id;
  await requireTransition(transaction, 'send', sessionId, actor.agentId);
  const openAgents = await listJoinedOpenAgents(transaction, sessionId, actor.agentId);
  let messageId = '';
  const sequence = await append(context, transaction, sessionId, 1, async (first) => {
    const place = { sessionId, sequence: first };
    const message = await writeMessage(context, transaction, actor, place, input.body);
    await context.limits.takeAll([
      { name: 'sendMessage', subjectId: sessionId },
      ...openAgents.map((agentId) => ({ name: 'sendToOpenAgent', subjectId: agentId }) as const),
    ]);
    messageId = message.id;
    return [{ type: 'session.message', payload: message }];
  });
  return { message_id: messageId, sequence };
}
