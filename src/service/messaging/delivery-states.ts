import { isId } from '../../wire/id.js';
import { IN_REPLY_TO, isFailureNotice } from '../../wire/message.js';
import type { Recipient } from '../../wire/schemas/delivery.js';
import { type Message, Message as MessageSchema } from '../../wire/schemas/message.js';
import type { AgentActor, Handler } from '../core/context.js';
import type { Query, Transaction } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import { findAgentSettings } from '../store/agents.js';
import {
  type AnswerRow,
  insertAnswer,
  insertTaken,
  listAnswers,
  listMessageSequences,
  listSilentAbout,
  listTaken,
  type TakenRow,
} from '../store/delivery-states.js';
import { listEnds, listEvents, type ReadEventRow } from '../store/events.js';
import { listDelivered } from '../store/inboxes.js';
import { findParticipation, listParticipants, type ParticipantRow } from '../store/participants.js';
import { forgetUnanswered, putUnanswered } from '../store/unanswered.js';

/**
 * Only joined agents can see the delivery state of messages; everything else is NOT_FOUND, as if there were no such
 * session.
 */
async function requireJoined(query: Query, sessionId: string, agentId: string): Promise<void> {
  const participation = await findParticipation(query, sessionId, agentId);
  if (participation?.status !== 'joined') throw new ServiceError('NOT_FOUND');
}

/** The delivery state of one message for each of its recipients (wire: Delivery). */
export const getDelivery: Handler<'getDelivery'> = async (_context, actor, input, query) => {
  const sessionId = input.path.session_id;
  const { sequence } = input.query;
  await requireJoined(query, sessionId, actor.agentId);
  const [event] = await listEvents(query, sessionId, sequence - 1, sequence, 1);
  if (event?.type !== 'session.message') throw new ServiceError('NOT_FOUND');
  const message = MessageSchema.parse(JSON.parse(event.payload));
  const others = (await listParticipants(query, sessionId)).filter(
    (participant) => participant.handle !== message.sender && canEverSee(participant, sequence),
  );
  const ids = others.map((participant) => participant.agent_id);
  const facts = {
    cursors: await listDelivered(query, sessionId, ids),
    silent: await listSilentAbout(query, sessionId),
    taken: new Map((await listTaken(query, sessionId, sequence)).map((row) => [row.agent_id, row])),
    answers: new Map((await listAnswers(query, sessionId, message.id)).map((row) => [row.agent_id, row])),
    firstEnd: (await listEnds(query, sessionId, sequence, Number.MAX_SAFE_INTEGER, 1))[0],
  };
  const recipients = others.map((participant) => describeRecipient(participant, message, facts));
  return { message_id: message.id, sequence, recipients };
};

interface Facts {
  readonly cursors: ReadonlyMap<string, number>;
  readonly silent: ReadonlySet<string>;
  readonly taken: ReadonlyMap<string, TakenRow>;
  readonly answers: ReadonlyMap<string, AnswerRow>;
  /** The first end of the session after the message. */
  readonly firstEnd: ReadEventRow | undefined;
}

function describeRecipient(participant: ParticipantRow, message: Message, facts: Facts): Recipient {
  const { agent_id: agentId, handle, status } = participant;
  const { silent, taken, answers } = facts;
  const isSilent = silent.has(agentId);
  const takenAt = isSilent ? undefined : taken.get(agentId)?.taken_at;
  const answered = answers.get(agentId)?.sequence;
  const isDelivered = isProved(participant, message, facts);
  return {
    handle,
    status,
    state: answered !== undefined ? 'answered' : takenAt !== undefined ? 'taken' : isDelivered ? 'delivered' : 'stored',
    taken_at: takenAt ?? null,
    answered_sequence: answered ?? null,
    reports_taken: !isSilent,
  };
}

/** A participant that left before a message never sees it, unless it was there at another time. */
function canEverSee(
  { status, left_sequence: left, joined_through: through }: ParticipantRow,
  sequence: number,
): boolean {
  return status !== 'left' || (left ?? 0) >= sequence || (through ?? 0) >= sequence;
}

/**
 * Whether the client of a participant proved that it received a message. The delivery cursor shows that for everything
 * the agent could see when the cursor passed it. While the agent is only invited, it sees its invitations and the ends of
 * the session and no messages, so a cursor that such an event moved proves nothing about earlier messages. A message from
 * before the agent joined therefore counts only if the agent was invited once, before that message, and the session did not
 * end in between.
 */
function isProved(
  participant: ParticipantRow,
  { sequence, created_at: createdAt }: Message,
  { cursors, firstEnd }: Facts,
): boolean {
  const { agent_id: agentId, status, joined_at: joinedAt, left_sequence: left } = participant;
  const cursor = cursors.get(agentId) ?? 0;
  if (cursor < sequence || joinedAt === null || (status === 'left' && (left ?? 0) < sequence)) return false;
  if (createdAt > joinedAt) return true;
  const { first_invited_sequence: invited, joined_through: earlier } = participant;
  if (earlier !== null || (invited !== null && invited > sequence)) return false;
  return firstEnd === undefined || firstEnd.sequence > cursor || firstEnd.created_at > joinedAt;
}

/** Records what the caller has processed; an agent that does not report gets the same answer, and nothing is stored. */
export const reportTaken: Handler<'reportTaken'> = async (context, actor, input, transaction) => {
  const sessionId = input.path.session_id;
  await requireJoined(transaction, sessionId, actor.agentId);
  const agent = await findAgentSettings(transaction, actor.agentId);
  if (agent === undefined || agent.reports_taken === 0) return { taken: [] };
  const taken = await listMessageSequences(transaction, sessionId, [...new Set(input.body.sequences)]);
  if (taken.length > 0) {
    await insertTaken(transaction, sessionId, actor.agentId, taken, context.clock.now());
    transaction.afterCommit(() => context.bus.notify({ kind: 'progress', sessionId }));
  }
  return { taken };
};

/** Tells the agent's owner that a message gets no answer. No other participant learns of it. */
export const reportUnanswered: Handler<'reportUnanswered'> = async (context, actor, input, transaction) => {
  const sessionId = input.path.session_id;
  const { sequence, reason } = input.body;
  await requireJoined(transaction, sessionId, actor.agentId);
  const [found] = await listMessageSequences(transaction, sessionId, [sequence]);
  if (found === undefined) throw new ServiceError('NOT_FOUND');
  const row = { agent_id: actor.agentId, session_id: sessionId, sequence, reason, reported_at: context.clock.now() };
  await putUnanswered(transaction, row);
  return undefined;
};

/**
 * Records which message a new one answers, if it names one. One row per answer, no matter how many members there are.
 */
export async function noteAnswer(transaction: Transaction, actor: AgentActor, message: Message): Promise<void> {
  const answered = message.metadata?.[IN_REPLY_TO];
  if (typeof answered !== 'string' || !isId('message', answered)) return;
  const answer = { agent_id: actor.agentId, sequence: message.sequence };
  await insertAnswer(transaction, message.session_id, answered, answer);
  if (!isFailureNotice(message)) forgetUnanswered(transaction, actor.agentId, message.session_id);
}
