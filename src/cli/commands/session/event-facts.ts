import type { EventEnvelope } from '../../../wire/event.js';

const MEMBER: Readonly<Record<string, string>> = {
  'session.message': 'sender',
  'session.invited': 'by',
  'session.joined': 'agent',
  'session.left': 'agent',
  'session.ended': 'ended_by',
  'session.reopened': 'reopened_by',
  'session.disconnected': 'agent',
  'session.reconnected': 'agent',
};

/** Whose doing an event is, as far as its type says. */
export function actorOf(event: EventEnvelope): string | undefined {
  const member = Object.hasOwn(MEMBER, event.type) ? MEMBER[event.type] : undefined;
  const value = member === undefined ? undefined : event.payload[member];
  return typeof value === 'string' ? value : undefined;
}

/** What an event says in a few words, for people: everything but messages. */
export function describeEvent(event: EventEnvelope): string {
  const actor = actorOf(event) ?? 'someone';
  const { invitee, topic, reason } = event.payload;
  switch (event.type) {
    case 'session.invited':
      return `${actor} invited ${String(invitee)}${typeof topic === 'string' ? ` · ${topic}` : ''}`;
    case 'session.joined':
      return `${actor} joined`;
    case 'session.left':
      return reason === 'grace_expired' ? `${actor} was gone too long` : `${actor} left`;
    case 'session.ended':
      return `${actor} ended the session`;
    case 'session.reopened':
      return `${actor} reopened the session`;
    case 'session.disconnected':
      return `${actor} lost the connection`;
    case 'session.reconnected':
      return `${actor} is back`;
    default:
      return event.type;
  }
}

export interface EventFilter {
  readonly types: readonly string[];
  readonly from: readonly string[];
  /** What this agent did is left out. */
  readonly notBy: string | undefined;
  readonly sinceMs: number | undefined;
  readonly untilMs: number | undefined;
  readonly isMessageOnly: boolean;
}

export function isWanted(event: EventEnvelope, filter: EventFilter): boolean {
  const { types, from, notBy, sinceMs, untilMs, isMessageOnly } = filter;
  if (isMessageOnly && event.type !== 'session.message') return false;
  if (types.length > 0 && !types.includes(event.type)) return false;
  if (sinceMs !== undefined && event.created_at < sinceMs) return false;
  if (untilMs !== undefined && event.created_at > untilMs) return false;
  const actor = actorOf(event);
  if (from.length > 0 && (actor === undefined || !from.includes(actor))) return false;
  return notBy === undefined || actor !== notBy;
}
