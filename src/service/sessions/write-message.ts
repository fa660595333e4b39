import { ID_PREFIX } from '../../wire/id.js';
import type { Content, JsonObject, Message } from '../../wire/message.js';
import { claimAttachments } from '../attachments/claim-attachments.js';
import type { AgentActor, ServiceContext } from '../context.js';
import type { Transaction } from '../store/database.js';

/** The Message with this number; its attachments are claimed. What else came in the request stays out of it. */
export async function writeMessage(
  context: Pick<ServiceContext, 'clock' | 'ids'>,
  transaction: Transaction,
  actor: AgentActor,
  place: { readonly sessionId: string; readonly sequence: number },
  said: { readonly content: Content; readonly metadata?: JsonObject | undefined },
): Promise<Message> {
  const { sessionId, sequence } = place;
  const now = context.clock.now();
  const content = await claimAttachments(transaction, actor, sessionId, sequence, said.content, now);
  return {
    id: `${ID_PREFIX.message}${context.ids.ulid()}`,
    session_id: sessionId,
    sender: actor.handle,
    sequence,
    content,
    ...(said.metadata !== undefined && { metadata: said.metadata }),
    created_at: now,
  };
}
