import { type EventEnvelope, isMessageEvent } from '../../../wire/event.js';
import { Message } from '../../../wire/message.js';

/** So many characters of one message a tool returns unless it is asked for more. */
export const MESSAGE_CHARS_DEFAULT = 8_000;
/** All of the largest message. */
export const MESSAGE_CHARS_MAX = 300_000;

/** A message with at most about `max` characters, which says how much is left out and how to get it. */
export function cutMessage(message: Message, max: number): Message {
  const { content, metadata, session_id: id, sequence } = message;
  const rest = (length: number): string =>
    `… [${max} of ${length} characters; for all of it, read session_id ${id} after ${sequence - 1} with limit 1 and max_chars ${MESSAGE_CHARS_MAX}]`;
  const cut = (text: string): string => (text.length <= max ? text : `${text.slice(0, max)}${rest(text.length)}`);
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  const meta = metadata === undefined ? undefined : JSON.stringify(metadata);
  return {
    ...message,
    ...(text.length > max && { content: cut(text) }),
    ...(meta !== undefined && meta.length > max && { metadata: { cut: cut(meta) } }),
  };
}

/** An event whose message, if it carries one, is cut. */
export function cutEvent(event: EventEnvelope, max: number): EventEnvelope {
  if (isMessageEvent(event)) return { ...event, payload: cutMessage(event.payload, max) };
  const first = Message.safeParse(event.payload['initial_message']);
  return first.success
    ? { ...event, payload: { ...event.payload, initial_message: cutMessage(first.data, max) } }
    : event;
}
