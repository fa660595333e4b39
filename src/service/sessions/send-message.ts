import type { BodyOf, PathOf, ReplyOf } from '../../wire/endpoint.js';
import { ownerGlobOf } from '../../wire/handle.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { append } from '../events/append.js';
import type { Budget } from '../limits/rate-limits.js';
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
  const openAgents = await listJoinedOpenAgents(transaction, sessionId, {
    agentId: actor.agentId,
    handle: actor.handle,
    glob: ownerGlobOf(actor.handle),
  });
  let messageId = '';
  const sequence = await append(context, transaction, sessionId, 1, async (first) => {
    const place = { sessionId, sequence: first };
    const message = await writeMessage(context, transaction, actor, place, input.body);
    await context.limits.takeAll([
      { name: 'sendMessage', subjectId: sessionId },
      ...openAgents.flatMap(({ agent_id: agentId, is_listed: isListed }) => budgetsOf(actor, agentId, isListed === 1)),
    ]);
    messageId = message.id;
    return [{ type: 'session.message', payload: message }];
  });
  return { message_id: messageId, sequence };
}

/** One stranger must not use up all that an open agent is reached by: whom the agent does not list has a share of it. */
function budgetsOf({ accountId }: AgentActor, agentId: string, isListed: boolean): Budget[] {
  const ofAll: Budget = { name: 'sendToOpenAgent', subjectId: agentId };
  return isListed ? [ofAll] : [ofAll, { name: 'sendAsStranger', subjectId: `${agentId} ${accountId}` }];
}
