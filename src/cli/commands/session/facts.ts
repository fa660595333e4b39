import { findActor } from '../../../wire/event.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { Session } from '../../../wire/schemas/session.js';
import type { ErrorContext } from '../../context/explain.js';

/** The error for a session that the acting agent cannot see, or that does not exist. */
export const unseenSession = (sessionId: string): ErrorContext => ({
  subject: sessionId,
  messages: { NOT_FOUND: `This agent cannot see ${sessionId}.` },
  next: { NOT_FOUND: ['asp', 'session', 'list'] },
});

/** The participants, without the one who reads about them. */
export function participantNames({ participants }: Session, reader?: string): string {
  const others = participants.filter(({ handle }) => handle !== reader);
  return others.map(({ handle, status }) => (status === 'joined' ? handle : `${handle} (${status})`)).join(', ');
}

/** A short description of any event except a message, for people. */
export function describeEvent(event: EventEnvelope): string {
  const actor = findActor(event) ?? 'someone';
  const { invitee, topic, reason } = event.payload;
  switch (event.type) {
    case 'session.invited':
      return `${actor} invited ${typeof invitee === 'string' ? invitee : 'an agent'}${typeof topic === 'string' ? ` · ${topic}` : ''}`;
    case 'session.joined':
      return `${actor} joined`;
    case 'session.left':
      return reason === 'grace_expired' ? `${actor} was offline too long` : `${actor} left`;
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
