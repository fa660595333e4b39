import type { EventEnvelope } from '../../../wire/event.js';
import type { Session } from '../../../wire/session.js';
import type { ErrorContext } from '../../context/explain.js';

/** A session that the acting agent may not see, or that does not exist. */
export const unseenSession = (sessionId: string): ErrorContext => ({
  subject: sessionId,
  messages: { NOT_FOUND: `${sessionId} cannot be seen by this agent.` },
  next: { NOT_FOUND: ['asp', 'session', 'list'] },
});

export function participantNames({ participants }: Session): string {
  return participants.map(({ handle, status }) => (status === 'joined' ? handle : `${handle} (${status})`)).join(', ');
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

/** Who caused an event, as far as its type says. */
export function findActor(event: EventEnvelope): string | undefined {
  const member = Object.hasOwn(ACTOR_MEMBER, event.type) ? ACTOR_MEMBER[event.type] : undefined;
  const value = member === undefined ? undefined : event.payload[member];
  return typeof value === 'string' ? value : undefined;
}

/** An event in a few words, for people: everything but messages. */
export function describeEvent(event: EventEnvelope): string {
  const actor = findActor(event) ?? 'someone';
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
