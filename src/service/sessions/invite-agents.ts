import type { Handle } from '../../wire/handle.js';
import type { Message } from '../../wire/message.js';
import type { ServiceContext } from '../context.js';
import type { EventDraft } from '../events/append.js';
import { ServiceError } from '../service-error.js';
import type { Query, Transaction } from '../store/database.js';
import { countParticipants, putInvited } from '../store/participant-rows.js';
import type { Invitee } from '../trust/trust-gate.js';

export interface Invitation {
  readonly sessionId: string;
  readonly by: Handle;
  readonly topic: string | null;
  /** The last event before this change: those who were joined saw everything up to there. */
  readonly lastSequence: number;
  /** Only where the session ends at once: nobody could join to read it (wire: Events). */
  readonly message?: Message;
  readonly now: number;
}

/** Each asked handle once, in order, without the one who asks. */
export function othersAmong(handles: readonly Handle[], self: Handle): Handle[] {
  return [...new Set(handles)].filter((handle) => handle !== self);
}

/**
 * Refuses to let a session grow beyond its bound. It counts those who are asked, whether or not the gate would let them in: at
 * the bound, an answer that depended on the gate would tell who can be invited, and nobody would hear of it.
 */
export async function requireRoom(
  query: Query,
  { settings }: Pick<ServiceContext, 'settings'>,
  sessionId: string,
  asked: readonly Handle[],
): Promise<void> {
  if (asked.length === 0) return;
  const { count, known } = await countParticipants(query, sessionId, asked);
  if (count + asked.length - known > settings.participantsMax) throw tooManyParticipants(settings.participantsMax);
}

export function tooManyParticipants(max: number): ServiceError {
  return new ServiceError('VALIDATION_ERROR', `A session has at most ${max} participants.`);
}

/** Makes agents `invited` and gives the event of each, numbered from `firstSequence`. */
export async function inviteAgents(
  transaction: Transaction,
  invitation: Invitation,
  agents: readonly Invitee[],
  firstSequence: number,
): Promise<EventDraft[]> {
  const { sessionId, by, topic, lastSequence, message, now } = invitation;
  const drafts: EventDraft[] = [];
  for (const [index, agent] of agents.entries()) {
    await putInvited(transaction, sessionId, agent, { sequence: firstSequence + index, lastSequence, now });
    drafts.push({
      type: 'session.invited',
      subjectAgentId: agent.id,
      payload: {
        invitee: agent.handle,
        by,
        ...(topic !== null && { topic }),
        ...(message !== undefined && { initial_message: message }),
      },
    });
  }
  return drafts;
}
