import type { EventPayload, EventType } from '../../wire/event.js';
import { ID_PREFIX } from '../../wire/id.js';
import type { ServiceContext } from '../context.js';
import type { Transaction } from '../store/database.js';
import { insertEvent } from '../store/event-rows.js';
import { markChangedFor, markChangedForAll } from '../store/participant-rows.js';
import { reserveSequences } from '../store/session-rows.js';

/** An event before it has its number. */
export type EventDraft = {
  [Type in EventType]: {
    readonly type: Type;
    readonly payload: EventPayload<Type>;
    /** The invitee or the leaver, who sees the event though not joined. */
    readonly subjectAgentId?: string;
  };
}[EventType];

/**
 * Appends `count` events to a session and gives the number of the first: the only place where numbers are given.
 * `write` gets that number, makes the changes of participants that belong to the events, and gives the events in order.
 * Those who may now see them are marked, and rung once all of it is durable.
 */
export async function append(
  context: Pick<ServiceContext, 'clock' | 'ids' | 'bus'>,
  transaction: Transaction,
  sessionId: string,
  count: number,
  write: (firstSequence: number) => Promise<readonly EventDraft[]>,
): Promise<number> {
  const first = await reserveSequences(transaction, sessionId, count);
  const drafts = await write(first);
  if (drafts.length !== count) throw new Error(`${count} numbers were reserved for ${drafts.length} events.`);
  const now = context.clock.now();
  for (const [index, draft] of drafts.entries())
    await insertEvent(transaction, {
      session_id: sessionId,
      sequence: first + index,
      id: `${ID_PREFIX.event}${context.ids.ulid()}`,
      type: draft.type,
      subject_agent_id: draft.subjectAgentId ?? null,
      created_at: now,
      payload: JSON.stringify(draft.payload),
    });
  const agentIds = await markViewers(transaction, sessionId, drafts, now);
  transaction.afterCommit(() => context.bus.ring({ kind: 'events', agentIds }));
  return first;
}

/** The joined see every event, the invited an end, and each subject its own (spec: GET …/events, eligibility). */
async function markViewers(
  transaction: Transaction,
  sessionId: string,
  drafts: readonly EventDraft[],
  now: number,
): Promise<string[]> {
  const hasEnd = drafts.some((draft) => draft.type === 'session.ended');
  const viewers = new Set(await markChangedForAll(transaction, sessionId, now, hasEnd));
  for (const { subjectAgentId } of drafts) {
    if (subjectAgentId === undefined || viewers.has(subjectAgentId)) continue;
    await markChangedFor(transaction, sessionId, subjectAgentId, now);
    viewers.add(subjectAgentId);
  }
  return [...viewers];
}
