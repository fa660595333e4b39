import type { Handle } from '../../wire/handle.js';
import type { Message } from '../../wire/message.js';
import type { EventDraft } from '../events/append.js';
import type { Transaction } from '../store/database.js';
import { putInvited } from '../store/participant-rows.js';
import type { Invitee } from '../trust/trust-gate.js';

export interface Invitation {
  readonly sessionId: string;
  readonly by: Handle;
  readonly topic: string | null;
  /** Only where the session ends at once: nobody could join to read it (wire: Events). */
  readonly message?: Message;
  readonly now: number;
}

/** Each asked handle once, in order, without the one who asks. */
export function othersAmong(handles: readonly Handle[], self: Handle): Handle[] {
  return [...new Set(handles)].filter((handle) => handle !== self);
}

/** Makes agents `invited` and gives the event of each, numbered from `firstSequence`. */
export async function inviteAgents(
  transaction: Transaction,
  invitation: Invitation,
  agents: readonly Invitee[],
  firstSequence: number,
): Promise<EventDraft[]> {
  const { sessionId, by, topic, message, now } = invitation;
  const drafts: EventDraft[] = [];
  for (const [index, agent] of agents.entries()) {
    await putInvited(transaction, sessionId, agent, firstSequence + index, now);
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
