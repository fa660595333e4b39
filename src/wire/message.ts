import { toAttachmentId } from './id.js';
import type { Message } from './schemas/message.js';

/** The attachment that a part refers to, by either of its names; undefined for every other part. */
export function getAttachmentId(part: object): string | undefined {
  if ('attachment_id' in part && typeof part.attachment_id === 'string') return part.attachment_id;
  return 'file_id' in part && typeof part.file_id === 'string' ? toAttachmentId(part.file_id) : undefined;
}

/** The attachments that the parts of a message refer to, in order. */
export function listAttachmentIds(content: string | readonly object[]): string[] {
  if (typeof content === 'string') return [];
  return content.flatMap((part) => getAttachmentId(part) ?? []);
}

/** The member of a message's metadata that names the message it answers (wire: Content and attachments, replies). */
export const IN_REPLY_TO = 'in_reply_to';

/** The id of the message that a message answers, if it names one. */
export function findInReplyTo({ metadata }: Pick<Message, 'metadata'>): string | undefined {
  const id = metadata?.[IN_REPLY_TO];
  return typeof id === 'string' ? id : undefined;
}

/** The member of a message's metadata that is true if its sender waits for the reply (wire: Content and attachments, replies). */
export const AWAITS_REPLY = 'awaits_reply';

/** The member of a reply's metadata that is true if the agent ends the session after it (wire: Content and attachments, replies). */
export const ENDS_SESSION = 'ends_session';

/** The member of a reply's metadata that is true if the agent could not process the message. */
export const FAILED = 'failed';

/** Whether a message only says that another agent's command failed. As with bounced mail, it gets no answer. */
export function isFailureNotice(message: Pick<Message, 'metadata'>): boolean {
  return message.metadata?.[FAILED] === true && findInReplyTo(message) !== undefined;
}

/** The member of a message's metadata that says with what a person wrote it. Programs do not set it. */
export const SENT_BY = 'sent_by';
/** It was written in the dashboard. */
export const DASHBOARD = 'dashboard';
/** It was typed in `asp chat`. */
export const CHAT = 'chat';

/** Whether a person wrote a message, as its sender says. */
export function isFromPerson({ metadata }: Pick<Message, 'metadata'>): boolean {
  const by = metadata?.[SENT_BY];
  return typeof by === 'string' && by !== '';
}

/** Why an agent does not answer a message: its program failed, the service refused the reply, or a limit stopped it. */
export const UNANSWERED_REASONS = [
  'failed',
  'refused',
  'max_replies',
  'max_replies_per_hour',
  'max_hops',
  'max_tokens',
  'max_cost',
  'repeated',
  'loop_guard',
] as const;

/** One of these reasons. */
export type UnansweredReason = (typeof UNANSWERED_REASONS)[number];

/** The member of a message's metadata that lists the possible answers to it (wire: Content and attachments, questions). */
export const CHOICES = 'choices';
/** The smallest number of answers that a question offers. */
export const CHOICES_MIN = 2;
/** The largest number of answers that a question offers. */
export const CHOICES_MAX = 10;
/** In characters. */
export const CHOICE_MAX_LENGTH = 80;
/** In characters: a question up to this length is shown whole wherever a button answers it. */
export const QUESTION_SHOWN_LENGTH = 2_000;

/** Characters that are invisible, or that change the position of others. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/u;

/** Whether a line contains characters that its reader does not see. */
export const isHiding = (text: string): boolean => UNSEEN.test(text);

/** Whether a reader sees all of the text, so that a button with it sends exactly what it shows. */
export function isChoice(text: unknown): text is string {
  return (
    typeof text === 'string' &&
    text !== '' &&
    text.length <= CHOICE_MAX_LENGTH &&
    !isHiding(text) &&
    text === text.trim().replaceAll(/\s+/gu, ' ')
  );
}

/** The first choice that repeats an earlier one, in upper or lower case. */
export function findRepeated(choices: readonly string[]): string | undefined {
  return choices.find((choice, index) => findChoice(choices.slice(0, index), choice) !== undefined);
}

/** The answers that a message offers; empty if its list is missing or malformed. */
export function listChoices({ metadata }: Pick<Message, 'metadata'>): readonly string[] {
  const choices = metadata?.[CHOICES];
  if (!Array.isArray(choices) || choices.length < CHOICES_MIN || choices.length > CHOICES_MAX) return [];
  return choices.every(isChoice) && findRepeated(choices) === undefined ? choices : [];
}

/** The choice that a text selects, in upper or lower case. */
export function findChoice(choices: readonly string[], text: string): string | undefined {
  const said = text.trim().toLowerCase();
  return choices.find((choice) => choice.toLowerCase() === said);
}

/** The member of a message's metadata that counts the automatic replies that led to it. */
export const HOPS = 'hops';
/** More than any chain has, and few enough that one more is still a count. */
const HOPS_MAX = 100_000;

/** A peer can omit it or lie: it protects only peers that cooperate. The other limits work without cooperation. */
export function readHops({ metadata }: Pick<Message, 'metadata'>): number {
  const hops = metadata?.[HOPS];
  // asp send --meta writes text.
  const count = typeof hops === 'string' && /^\d{1,6}$/.test(hops) ? Number(hops) : hops;
  return typeof count === 'number' && Number.isSafeInteger(count) && count > 0 ? Math.min(count, HOPS_MAX) : 0;
}

/** The text that stands for a message when messages are compared. */
export function toText(content: string | readonly object[]): string {
  return typeof content === 'string' ? content : JSON.stringify(content);
}

/** The text parts of a message, a line each. */
export function textPartsOf({ content }: Pick<Message, 'content'>): string {
  if (typeof content === 'string') return content;
  return content
    .flatMap((part) => (part.type === 'text' && typeof part['text'] === 'string' ? [part['text']] : []))
    .join('\n');
}

/** The words of a message, for a line or an excerpt. */
export function textOfMessage({ content }: Pick<Message, 'content'>): string {
  if (typeof content === 'string') return content;
  const texts = content.flatMap((part) => [part['text'], part['name']]);
  const words = texts.filter((text): text is string => typeof text === 'string').join(' ');
  return words === '' ? `[${content.map(({ type }) => type).join(', ')}]` : words;
}
