import type { EventEnvelope, EventPayload } from './schemas/event.js';
import type { Message } from './schemas/message.js';

/** Every type of event, in the order of the contract's table (spec: Events). */
export const EVENT_TYPES = [
  'session.invited',
  'session.joined',
  'session.message',
  'session.left',
  'session.ended',
  'session.reopened',
  'session.disconnected',
  'session.reconnected',
] as const;
/** (spec: Events) */
export type EventType = (typeof EVENT_TYPES)[number];

/** Whether `envelope` is a `session.message`, whose payload is a Message. */
export function isMessageEvent(envelope: EventEnvelope): envelope is EventEnvelope & { payload: Message } {
  return envelope.type === 'session.message';
}

/** An event of one type, with its payload. */
export type TypedEvent<Type extends EventType> = EventEnvelope & {
  readonly type: Type;
  readonly payload: EventPayload<Type>;
};

/** Whether `envelope` is an event of this type: then its payload has a type too. */
export function isEvent<Type extends EventType>(envelope: EventEnvelope, type: Type): envelope is TypedEvent<Type> {
  return envelope.type === type;
}
