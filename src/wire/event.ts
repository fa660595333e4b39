import type { EventEnvelope, TypedEvent } from './schemas/event.js';

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
/** The types of the events of a session (spec: Events). */
export type EventType = (typeof EVENT_TYPES)[number];

/** Whether `envelope` is a `session.message`, whose payload is a Message. */
export function isMessageEvent(envelope: EventEnvelope): envelope is TypedEvent<'session.message'> {
  return envelope.type === 'session.message';
}

/** Whether `envelope` is an event of this type: then its payload has a type too. */
export function isEvent<Type extends EventType>(
  envelope: EventEnvelope,
  type: Type,
): envelope is EventEnvelope & TypedEvent<Type> {
  return envelope.type === type;
}

const ACTOR_MEMBER: Readonly<Record<string, string>> = {
  'session.message': 'sender',
  'session.invited': 'by',
  'session.joined': 'agent',
  'session.left': 'agent',
  'session.ended': 'ended_by',
  'session.reopened': 'reopened_by',
  'session.disconnected': 'agent',
  'session.reconnected': 'agent',
};

/** The agent that caused an event, if its type says so. */
export function findActor(event: EventEnvelope): string | undefined {
  const member = Object.hasOwn(ACTOR_MEMBER, event.type) ? ACTOR_MEMBER[event.type] : undefined;
  const value = member === undefined ? undefined : event.payload[member];
  return typeof value === 'string' ? value : undefined;
}
