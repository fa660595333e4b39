import * as z from 'zod/mini';

import { isMessageEvent } from '../wire/event.js';
import { AWAITS_REPLY, findChoice, findInReplyTo, listChoices, textPartsOf } from '../wire/message.js';
import type { EventEnvelope } from '../wire/schemas/event.js';
import type { Message } from '../wire/schemas/message.js';

/** A message of the agent whose sender waits for the reply, as it is kept. */
export const AwaitedReply = z.looseObject({
  message: z.string(),
  sequence: z.int(),
  choices: z.optional(z.array(z.string())),
  /** From then on, a message that names no other is not the reply. */
  last: z.optional(z.int()),
});
type AwaitedReply = z.infer<typeof AwaitedReply>;

const QUESTIONS_MAX = 1_000;

/**
 * Replies that another program of the agent waits for, such as `asp ask` in its command: they are not new messages. The
 * questions say so themselves, so the next run recognizes them too.
 */
export class AwaitedReplies {
  readonly #sessions: Map<string, AwaitedReply[]>;
  readonly #onChange: () => void;

  constructor(sessions: Iterable<readonly [string, readonly AwaitedReply[]]>, onChange: () => void) {
    this.#sessions = new Map([...sessions].map(([id, questions]) => [id, questions.map((one) => ({ ...one }))]));
    this.#onChange = onChange;
  }

  /** Undefined if there is nothing to keep. */
  toJson(): Readonly<Record<string, readonly AwaitedReply[]>> | undefined {
    return this.#sessions.size === 0 ? undefined : Object.fromEntries(this.#sessions);
  }

  /**
   * Takes every event of a session in order, and returns whether it is such a reply. A message that names the question
   * always is. One that names none is the reply if it is the first one after the question, and `isAmongTwo`: no one else
   * is in the session. With choices, it is also what was said before one of them.
   */
  async take(event: EventEnvelope, me: string, isAmongTwo: (message: Message) => Promise<boolean>): Promise<boolean> {
    if (!isMessageEvent(event)) return false;
    const { session_id: sessionId, sequence, payload } = event;
    if (payload.sender === me) {
      this.#takeOwn(sessionId, sequence, payload);
      return false;
    }
    const questions = this.#sessions.get(sessionId) ?? [];
    const named = findInReplyTo(payload);
    if (named !== undefined) return questions.some(({ message }) => message === named);
    const question = questions.at(-1);
    if (question === undefined || sequence <= question.sequence) return false;
    if (question.last !== undefined) return sequence <= question.last;
    if (!(await isAmongTwo(payload))) return false;
    const { choices } = question;
    if (choices === undefined || findChoice(choices, textPartsOf(payload)) !== undefined) {
      question.last = sequence;
      this.#onChange();
    }
    return true;
  }

  /** The session has ended: no reply to an earlier question can come anymore. */
  endAt(sessionId: string, sequence: number): void {
    this.#keep(sessionId, (question) => question.sequence > sequence);
  }

  /** The service was restored: what came later is gone. */
  goBack(sessionId: string, after: number): void {
    this.#keep(sessionId, (question) => question.sequence <= after);
    for (const question of this.#sessions.get(sessionId) ?? [])
      if (question.last !== undefined && question.last > after) delete question.last;
  }

  #takeOwn(sessionId: string, sequence: number, message: Message): void {
    const questions = this.#sessions.get(sessionId) ?? [];
    if (questions.some((one) => one.message === message.id)) return;
    const latest = questions.at(-1);
    const isOpen = latest !== undefined && latest.last === undefined && latest.sequence < sequence;
    // Whatever is said next is about the later message.
    if (isOpen) latest.last = sequence;
    const isQuestion = message.metadata?.[AWAITS_REPLY] === true;
    if (isQuestion) {
      const choices = listChoices(message);
      const question = { message: message.id, sequence, ...(choices.length > 0 && { choices: [...choices] }) };
      this.#sessions.delete(sessionId);
      this.#sessions.set(sessionId, [...questions, question].slice(-QUESTIONS_MAX));
      const [oldest] = this.#sessions.keys();
      if (this.#sessions.size > QUESTIONS_MAX && oldest !== undefined) this.#sessions.delete(oldest);
    }
    if (isOpen || isQuestion) this.#onChange();
  }

  #keep(sessionId: string, isKept: (question: AwaitedReply) => boolean): void {
    const questions = this.#sessions.get(sessionId);
    const kept = questions?.filter(isKept);
    if (questions === undefined || kept?.length === questions.length) return;
    if (kept === undefined || kept.length === 0) this.#sessions.delete(sessionId);
    else this.#sessions.set(sessionId, kept);
    this.#onChange();
  }
}
