import type { Client } from '../client/client.js';
import { findInReplyTo } from '../wire/message.js';
import type { Message } from '../wire/schemas/message.js';

/** The known facts about the message whose reply is awaited. */
interface Asked {
  readonly me: string;
  readonly sessionId: string;
  readonly sequence?: number | undefined;
  /** If undefined, it is learned from the message itself when the message arrives. */
  readonly messageId?: string | undefined;
  /** The one agent that was asked. */
  readonly handle?: string | undefined;
  readonly signal: AbortSignal;
}

/** Whether no one but the two is in the session. */
export async function isAmongTwo(
  client: Client,
  { me, sessionId, sender, signal }: Pick<Asked, 'me' | 'sessionId' | 'signal'> & { readonly sender: string },
): Promise<boolean> {
  const { reply } = await client.call('getSession', { path: { session_id: sessionId }, signal });
  return reply.participants.every((one) => one.status === 'left' || one.handle === me || one.handle === sender);
}

/**
 * Whether no reply can come: everyone else has left, and nothing has happened since the event that was read last. A reader
 * that is behind sees one agent leave, while another one has answered since and left, too.
 */
export async function isOver(
  client: Client,
  { me, sessionId, sequence, signal }: Pick<Asked, 'me' | 'sessionId' | 'signal'> & { readonly sequence: number },
): Promise<boolean> {
  if (!(await isAmongTwo(client, { me, sessionId, sender: me, signal }))) return false;
  const query = { after_sequence: sequence, limit: 1 };
  const { reply } = await client.call('replayEvents', { path: { session_id: sessionId }, query, signal });
  return reply.events.length === 0;
}

/** Whether a message of the session is the reply. Call it with the messages in order. */
export type IsReply = (message: Message) => Promise<boolean>;

/**
 * Recognizes the reply among the messages of a session. Several callers may wait in one session, and each gets the
 * answer to its own question. A message that names no question may be about anything: it counts if it comes from the
 * agent that was asked, or if no one else is in the session. Only such a message costs a request for the members.
 */
export function createReplyMatcher(client: Client, asked: Asked): IsReply {
  const { me, sessionId, sequence = 0, handle, signal } = asked;
  let questionId = asked.messageId;

  return async (message) => {
    if (message.sender === me) {
      if (message.sequence === sequence) questionId ??= message.id;
      return false;
    }
    if (message.sequence <= sequence) return false;
    const answered = findInReplyTo(message);
    if (answered !== undefined) return questionId === undefined || answered === questionId;
    return message.sender === handle || isAmongTwo(client, { me, sessionId, sender: message.sender, signal });
  };
}
