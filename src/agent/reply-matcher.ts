import { findInReplyTo } from '../wire/message.js';
import type { Message } from '../wire/schemas/message.js';

/** The known facts about the message whose reply is awaited. */
interface Asked {
  readonly sequence?: number | undefined;
  /** If undefined, it is learned from the message itself when the message arrives. */
  readonly messageId?: string | undefined;
}

/**
 * Recognizes the reply among the messages of a session: a message from another agent that names the asked message, or
 * names none. Several callers may wait in one session, and each gets the answer to its own question.
 */
export function createReplyMatcher(me: string, { sequence = 0, messageId }: Asked): (message: Message) => boolean {
  let questionId = messageId;
  return (message) => {
    if (message.sender === me) {
      if (message.sequence === sequence) questionId ??= message.id;
      return false;
    }
    const answered = findInReplyTo(message);
    return (
      message.sequence > sequence && (questionId === undefined || answered === undefined || answered === questionId)
    );
  };
}
