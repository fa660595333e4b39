import { type Handle, toOwnerGlob } from '../../wire/handle.js';
import { ID_PREFIX } from '../../wire/id.js';
import { INVITED_PER_CALL_COST, PENDING_ATTACHMENT_LIFETIME_S } from '../../wire/limit.js';
import { getAttachmentId, listChoices } from '../../wire/message.js';
import type { Message } from '../../wire/schemas/message.js';
import type { Content, JsonObject, Part } from '../../wire/schemas/requests.js';
import type { ParticipantStatus, SessionState } from '../../wire/schemas/session.js';
import { findSessionBudget } from '../agents/accounts.js';
import type { AgentActor, Handler, ServiceContext } from '../core/context.js';
import type { Query, Transaction } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import type { Budget } from '../core/rate-limits.js';
import { findAgentSettings } from '../store/agents.js';
import { type AttachmentRow, claimAttachmentRow } from '../store/attachments.js';
import { putInInboxes } from '../store/inboxes.js';
import { sessionLock } from '../store/lock-names.js';
import {
  countParticipants,
  findParticipation,
  insertCreator,
  listJoinedOpenAgents,
  listParticipants,
  listPresent,
  listSharedActive,
  markJoined,
  markLeft,
  type ParticipantRow,
  type ParticipationRow,
  putInvited,
} from '../store/participants.js';
import { putQuestion } from '../store/questions.js';
import { insertSession, markSessionActive, markSessionEnded } from '../store/sessions.js';
import { noteAnswer } from './delivery-states.js';
import { append, type EventDraft } from './events.js';
import { recordRefusals } from './knocks.js';
import { admits, admitsAgain, holdGate, type Invitee, type Refused } from './trust-gate.js';

/**
 * Claims the attachments of a message and returns its content with their name, type and size filled in if a part leaves
 * them out. An unknown, foreign, expired or claimed attachment fails the whole transaction with NOT_FOUND.
 */
export async function claimAttachments(
  transaction: Transaction,
  actor: Pick<AgentActor, 'agentId'>,
  sessionId: string,
  sequence: number,
  content: Content,
  now: number,
): Promise<Content> {
  if (typeof content === 'string') return content;
  const expiredAt = now - PENDING_ATTACHMENT_LIFETIME_S * 1000;
  const parts: Part[] = [];
  for (const part of content) {
    const id = getAttachmentId(part);
    if (id === undefined || !(part.type === 'file' || part.type === 'image')) {
      parts.push(part);
      continue;
    }
    const claim = { id, agentId: actor.agentId, sessionId, sequence, expiredAt };
    const attachment = await claimAttachmentRow(transaction, claim);
    if (attachment === undefined) throw new ServiceError('NOT_FOUND');
    parts.push(fillIn(part, attachment));
  }
  return parts;
}

function fillIn(part: Part & { type: 'file' | 'image' }, attachment: AttachmentRow): Part {
  const filled = {
    ...part,
    name: part.name ?? attachment.filename,
    mime_type: part.mime_type ?? attachment.content_type,
  };
  if (filled.type !== 'file' || filled.size !== undefined || filled.size_bytes !== undefined) return filled;
  return { ...filled, size: attachment.size };
}

interface Invitation {
  readonly sessionId: string;
  readonly by: Handle;
  readonly topic: string | null;
  /** The last event before this change: joined agents saw everything up to there. */
  readonly lastSequence: number;
  /** Only if the session ends at once: no one could join to read it (wire: Events). */
  readonly message?: Message;
  readonly now: number;
}

/** Each requested handle once, in order, without the caller. */
function othersAmong(handles: readonly Handle[], self: Handle): Handle[] {
  return [...new Set(handles)].filter((handle) => handle !== self);
}

/**
 * Keeps a session within its limit. It counts every requested handle, whether or not the gate would admit it: at the
 * limit, an answer that depended on the gate would reveal who can be invited without notifying anyone.
 */
async function requireRoom(
  query: Query,
  { settings }: Pick<ServiceContext, 'settings'>,
  sessionId: string,
  requested: readonly Handle[],
): Promise<void> {
  if (requested.length === 0) return;
  const { count, known } = await countParticipants(query, sessionId, requested);
  if (count + requested.length - known > settings.participantsMax) throw tooManyParticipants(settings.participantsMax);
}

function tooManyParticipants(max: number): ServiceError {
  return new ServiceError('VALIDATION_ERROR', `A session has at most ${max} participants.`);
}

/** Makes agents `invited` and returns the event of each, numbered from `firstSequence`. */
async function inviteAgents(
  transaction: Transaction,
  invitation: Invitation,
  agents: readonly Invitee[],
  firstSequence: number,
): Promise<EventDraft[]> {
  const { sessionId, by, topic, lastSequence, message, now } = invitation;
  const drafts: EventDraft[] = [];
  for (const [index, agent] of agents.entries()) {
    await putInvited(transaction, sessionId, agent, { sequence: firstSequence + index, lastSequence });
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
  const arrivals = agents.map(({ id }, index) => ({ agentId: id, sequence: firstSequence + index }));
  await putInInboxes(transaction, sessionId, arrivals, now);
  return drafts;
}

/** The Message with this number; its attachments are claimed. Other members of the request are left out. */
async function writeMessage(
  context: Pick<ServiceContext, 'clock' | 'ids'>,
  transaction: Transaction,
  actor: AgentActor,
  position: { readonly sessionId: string; readonly sequence: number },
  initialMessage: { readonly content: Content; readonly metadata?: JsonObject | undefined },
): Promise<Message> {
  const { sessionId, sequence } = position;
  const now = context.clock.now();
  const content = await claimAttachments(transaction, actor, sessionId, sequence, initialMessage.content, now);
  const message: Message = {
    id: `${ID_PREFIX.message}${context.ids.ulid()}`,
    session_id: sessionId,
    sender: actor.handle,
    sequence,
    content,
    ...(initialMessage.metadata !== undefined && { metadata: initialMessage.metadata }),
    created_at: now,
  };
  await noteAnswer(transaction, actor, message);
  if (listChoices(message).length > 0) {
    const question = { session_id: sessionId, sequence, asked_at: now };
    putQuestion(transaction, question, { messageId: message.id, agentId: actor.agentId });
  }
  return message;
}

/** Events in order: `session.invited` for each accepted invitee, `session.message`, `session.ended` (wire: Sessions). */
export const createSession: Handler<'createSession'> = async (context, actor, input, transaction) => {
  const { body } = input;
  const requested = othersAmong(body.invite ?? [], actor.handle);
  // Read under the lock: an agent that is removed at the same time must not create a session.
  const [, creator] = await Promise.all([
    holdGate(transaction, actor, requested),
    findAgentSettings(transaction, actor.agentId),
  ]);
  if (creator === undefined) throw new ServiceError('UNAUTHORIZED');
  if (creator.can_initiate_sessions === 0) throw new ServiceError('FORBIDDEN');
  const { participantsMax } = context.settings;
  if (1 + requested.length > participantsMax) throw tooManyParticipants(participantsMax);
  // Before the gate: after it, a refusal would reveal that someone can be invited, without a session that tells them.
  const initialMessage = body.initial_message;
  const ofAccount = await findSessionBudget(context, transaction, actor.accountId);
  const budgets = [
    ...(ofAccount === undefined ? [] : [ofAccount]),
    ...(initialMessage === undefined ? [] : listMessageBudgets(context)),
  ];
  for (const budget of budgets) await context.limits.check(budget);
  const { invitees, refused } = await admits(transaction, context, actor, requested);
  const knock = (step: Transaction): Promise<void> =>
    recordRefusals(context, step, actor, refused, initialMessage?.content);
  if (requested.length > 0 && invitees.length === 0)
    throw new ServiceError('NOT_FOUND', undefined, { afterRefusal: knock });
  await knock(transaction);

  await context.limits.takeAll(budgets);
  const now = context.clock.now();
  const sessionId = `${ID_PREFIX.session}${context.ids.ulid()}`;
  const topic = body.topic ?? null;
  await insertSession(transaction, { id: sessionId, topic, created_at: now });
  await insertCreator(transaction, sessionId, { id: actor.agentId, handle: actor.handle }, now);
  await putInInboxes(transaction, sessionId, [{ agentId: actor.agentId, sequence: 0 }], now);

  const endsAtOnce = body.end_after_send === true;
  const count = invitees.length + (initialMessage === undefined ? 0 : 1) + (endsAtOnce ? 1 : 0);
  if (count === 0) return { session_id: sessionId, message_id: null, sequence: null };

  let sequence: number | null = null;
  let messageId: string | null = null;
  await append(context, transaction, sessionId, count, async (first) => {
    if (initialMessage !== undefined) sequence = first + invitees.length;
    const message =
      initialMessage && sequence !== null
        ? await writeMessage(context, transaction, actor, { sessionId, sequence }, initialMessage)
        : undefined;
    messageId = message?.id ?? null;
    const about = { sessionId, by: actor.handle, topic, lastSequence: first - 1, now };
    const invitation = { ...about, ...(endsAtOnce && message && { message }) };
    const drafts = await inviteAgents(transaction, invitation, invitees, first);
    if (message !== undefined) drafts.push({ type: 'session.message', payload: message });
    if (endsAtOnce) {
      await markSessionEnded(transaction, sessionId, now);
      drafts.push({ type: 'session.ended', payload: { ended_by: actor.handle } });
    }
    return drafts;
  });
  return { session_id: sessionId, message_id: messageId, sequence };
};

/** A participant's actions in a session. */
export type Verb = 'join' | 'invite' | 'send' | 'leave' | 'end' | 'reopen';

interface Row {
  readonly verb: Verb;
  readonly states: readonly SessionState[];
  readonly caller: ParticipantStatus | 'joined when it ended';
  readonly transition: Transition;
}

/** The effect of a verb; `none`: already done. */
export type Transition =
  | 'none'
  | 'caller joins'
  | 'caller leaves'
  | 'others invited'
  | 'message sent'
  | 'ends'
  | 'reopens';

/**
 * The States table of the specification, one row per line; anything without a row is not allowed (spec: States; D-05).
 */
export const LIFECYCLE: readonly Row[] = [
  { verb: 'join', states: ['active'], caller: 'invited', transition: 'caller joins' },
  { verb: 'join', states: ['active'], caller: 'joined', transition: 'none' },
  { verb: 'invite', states: ['active'], caller: 'joined', transition: 'others invited' },
  { verb: 'send', states: ['active'], caller: 'joined', transition: 'message sent' },
  { verb: 'leave', states: ['active', 'ended'], caller: 'joined', transition: 'caller leaves' },
  { verb: 'end', states: ['active'], caller: 'joined', transition: 'ends' },
  { verb: 'reopen', states: ['ended'], caller: 'joined when it ended', transition: 'reopens' },
];

export function findTransition(
  verb: Verb,
  participant: Pick<ParticipationRow, 'session_state' | 'status' | 'was_joined_at_end'>,
): Transition | undefined {
  const fits = (row: Row): boolean =>
    row.verb === verb &&
    row.states.includes(participant.session_state) &&
    (row.caller === 'joined when it ended' ? participant.was_joined_at_end === 1 : row.caller === participant.status);
  return LIFECYCLE.find(fits)?.transition;
}

/**
 * The caller's participation in a session, locked from now on, if it may use `verb`; everything else is NOT_FOUND, as
 * if there were no such session (spec: States, rule 3).
 */
async function requireTransition(
  transaction: Transaction,
  verb: Verb,
  sessionId: string,
  agentId: string,
): Promise<{ readonly participation: ParticipationRow; readonly transition: Transition }> {
  const [, participation] = await Promise.all([
    transaction.lock([sessionLock(sessionId)]),
    findParticipation(transaction, sessionId, agentId),
  ]);
  const transition = participation && findTransition(verb, participation);
  if (participation === undefined || transition === undefined) throw new ServiceError('NOT_FOUND');
  return { participation, transition };
}

/** Participants keep their status (wire: Sessions). */
export const endSession: Handler<'endSession'> = async (context, actor, input, transaction) => {
  const sessionId = input.path.session_id;
  await requireTransition(transaction, 'end', sessionId, actor.agentId);
  await append(context, transaction, sessionId, 1, async () => {
    await markSessionEnded(transaction, sessionId, context.clock.now());
    return [{ type: 'session.ended', payload: { ended_by: actor.handle } }];
  });
  return { ok: true };
};

/**
 * Handles that may not or need not be invited are silently left out of the answer (spec: Non-enumeration, rule 3;
 * D-03).
 */
export const inviteToSession: Handler<'inviteToSession'> = async (context, actor, input, transaction) => {
  const sessionId = input.path.session_id;
  const { participation } = await requireTransition(transaction, 'invite', sessionId, actor.agentId);
  const requested = othersAmong(input.body.invite, actor.handle);
  await requireRoom(transaction, context, sessionId, requested);
  await holdGate(transaction, actor, requested);
  const { invitees: admitted, refused } = await admits(transaction, context, actor, requested);
  await recordRefusals(context, transaction, actor, refused);
  // Only agents that do not take part, or left (D-06).
  const present = await listPresent(
    transaction,
    sessionId,
    admitted.map(({ id }) => id),
  );
  const invitees = admitted.filter(({ id }) => !present.has(id));
  if (invitees.length === 0) return { invited: [] };
  await append(context, transaction, sessionId, invitees.length, (first) => {
    const { topic } = participation;
    const invitation = { sessionId, by: actor.handle, topic, lastSequence: first - 1, now: context.clock.now() };
    return inviteAgents(transaction, invitation, invitees, first);
  });
  return { invited: invitees.map((invitee) => invitee.handle) };
};

export const joinSession: Handler<'joinSession'> = async (context, actor, input, transaction) => {
  const sessionId = input.path.session_id;
  const { transition } = await requireTransition(transaction, 'join', sessionId, actor.agentId);
  if (transition === 'none') return { ok: true };
  await append(context, transaction, sessionId, 1, async () => {
    await markJoined(transaction, sessionId, actor.agentId, context.clock.now());
    return [{ type: 'session.joined', payload: { agent: actor.handle } }];
  });
  return { ok: true };
};

/** Makes a participant `left`, with its `session.left`. */
export async function removeParticipant(
  context: Pick<ServiceContext, 'clock' | 'ids' | 'bus'>,
  transaction: Transaction,
  participant: Pick<ParticipantRow, 'session_id' | 'agent_id' | 'handle'>,
  reason: 'left' | 'grace_expired',
): Promise<void> {
  const { session_id: sessionId, agent_id: agentId, handle } = participant;
  await append(context, transaction, sessionId, 1, async (sequence) => {
    await markLeft(transaction, sessionId, agentId, sequence, context.clock.now());
    return [{ type: 'session.left', subjectAgentId: agentId, payload: { agent: handle, reason } }];
  });
}

/** Removes `otherIds` from every active session they share with `actor`, as if they had left (D-30). */
export async function removeFromShared(
  context: Pick<ServiceContext, 'clock' | 'ids' | 'bus'>,
  transaction: Transaction,
  actor: Pick<AgentActor, 'agentId'>,
  otherIds: readonly string[],
): Promise<void> {
  const list = () => listSharedActive(transaction, actor.agentId, otherIds);
  const held = new Set((await list()).map((participant) => participant.session_id));
  await transaction.lock([...held].map(sessionLock));
  for (const participant of await list())
    if (held.has(participant.session_id)) await removeParticipant(context, transaction, participant, 'left');
}

export const leaveSession: Handler<'leaveSession'> = async (context, actor, input, transaction) => {
  const { participation } = await requireTransition(transaction, 'leave', input.path.session_id, actor.agentId);
  await removeParticipant(context, transaction, participation, 'left');
  return { ok: true };
};

/**
 * An invited agent turns its invitation down: its owner decides that on the dashboard, because the specification has no
 * verb for it. It becomes `left` as if it had been removed, and may be invited again.
 */
export async function declineInvitation(
  context: ServiceContext,
  actor: AgentActor,
  sessionId: string,
  transaction: Transaction,
): Promise<void> {
  const [, participation] = await Promise.all([
    transaction.lock([sessionLock(sessionId)]),
    findParticipation(transaction, sessionId, actor.agentId),
  ]);
  if (participation?.status !== 'invited' || participation.session_state !== 'active')
    throw new ServiceError('NOT_FOUND');
  await removeParticipant(context, transaction, participation, 'left');
}

/**
 * Events in order: `session.reopened`, `session.invited` for every other earlier participant that the trust gate admits
 * now and each new invitee, then the message. Participants that the gate refuses are `left` without an event and keep
 * what they saw (wire: Sessions).
 */
export const reopenSession: Handler<'reopenSession'> = async (context, actor, input, transaction) => {
  const sessionId = input.path.session_id;
  const { participation } = await requireTransition(transaction, 'reopen', sessionId, actor.agentId);
  const earlier = await listParticipants(transaction, sessionId);
  const requested = othersAmong(input.body.invite ?? [], actor.handle);
  await requireRoom(transaction, context, sessionId, requested);
  await takeForOthers(context, actor, earlier.length - 1);
  const handles = new Set(earlier.map((row) => row.handle));
  const strangers = requested.filter((handle) => !handles.has(handle));
  // An agent that is removed at the same time must neither reopen the session nor be invited.
  await holdGate(transaction, actor, [...handles, ...strangers]);
  if ((await findAgentSettings(transaction, actor.agentId)) === undefined) throw new ServiceError('UNAUTHORIZED');
  const { returning, leaving, absent } = await sortEarlier(context, transaction, actor, earlier);
  const fresh = await admits(transaction, context, actor, strangers);
  const invitees = [...returning, ...fresh.invitees];
  const initialMessage = input.body.initial_message;
  // A new message must not get past the guard by ending and reopening the session.
  if (initialMessage !== undefined) {
    await context.loopGuard?.check(transaction, sessionId, participation.last_sequence, initialMessage);
    await context.limits.takeAll(listMessageBudgets(context));
  }
  await recordRefusals(context, transaction, actor, [...absent, ...fresh.refused], initialMessage?.content);

  const now = context.clock.now();
  await markSessionActive(transaction, sessionId);
  if (participation.status !== 'joined') await markJoined(transaction, sessionId, actor.agentId, now);
  const count = 1 + invitees.length + (initialMessage === undefined ? 0 : 1);
  await append(context, transaction, sessionId, count, async (first) => {
    for (const agentId of leaving) await markLeft(transaction, sessionId, agentId, first - 1, now);
    const drafts: EventDraft[] = [{ type: 'session.reopened', payload: { reopened_by: actor.handle } }];
    const invitation = { sessionId, by: actor.handle, topic: participation.topic, lastSequence: first - 1, now };
    drafts.push(...(await inviteAgents(transaction, invitation, invitees, first + drafts.length)));
    if (initialMessage !== undefined) {
      const position = { sessionId, sequence: first + drafts.length };
      const message = await writeMessage(context, transaction, actor, position, initialMessage);
      drafts.push({ type: 'session.message', payload: message });
    }
    return drafts;
  });
  return { ok: true };
};

/**
 * One small request reaches every participant, so beyond the first hundred it counts as one more call for each hundred.
 */
async function takeForOthers({ limits }: ServiceContext, actor: AgentActor, others: number): Promise<void> {
  const weight = Math.ceil(others / INVITED_PER_CALL_COST);
  if (weight <= 1) return;
  // The whole call must fit, or `Retry-After` would be too short; the part charged at admission is not charged again.
  const budget = { name: 'general', subjectId: actor.agentId } as const;
  await limits.check({ ...budget, weight });
  await limits.takeAll([{ ...budget, weight: weight - 1 }]);
}

/**
 * The gate checks every invitation, including those of earlier participants: they may have left, closed their list or
 * paused since.
 */
async function sortEarlier(
  context: ServiceContext,
  transaction: Transaction,
  actor: AgentActor,
  earlier: readonly ParticipantRow[],
): Promise<{ leaving: readonly string[]; returning: readonly Invitee[]; absent: readonly Refused[] }> {
  const others = earlier.filter((row) => row.agent_id !== actor.agentId);
  const handles = others.map((row) => row.handle);
  const { invitees: returning, refused: absent } = await admitsAgain(transaction, context, actor, handles);
  const admitted = new Set(returning.map(({ id }) => id));
  const leaving = others.filter((row) => row.status !== 'left' && !admitted.has(row.agent_id));
  return { returning, leaving: leaving.map((row) => row.agent_id), absent };
}

/**
 * The limits are checked after eligibility, or a 429 would reveal that the session exists (D-19), and after the
 * attachments are claimed: a refused message costs nothing (D-44).
 */
export const sendMessage: Handler<'sendMessage'> = async (context, actor, input, transaction) => {
  const sessionId = input.path.session_id;
  const sender = { agentId: actor.agentId, handle: actor.handle, glob: toOwnerGlob(actor.handle) };
  const [{ participation }, openAgents] = await Promise.all([
    requireTransition(transaction, 'send', sessionId, actor.agentId),
    context.settings.areLimitsOn ? listJoinedOpenAgents(transaction, sessionId, sender) : [],
  ]);
  let messageId = '';
  await context.loopGuard?.check(transaction, sessionId, participation.last_sequence, input.body);
  const write = async (first: number): Promise<readonly EventDraft[]> => {
    const position = { sessionId, sequence: first };
    const message = await writeMessage(context, transaction, actor, position, input.body);
    await context.limits.takeAll([
      { name: 'sendMessage', subjectId: sessionId },
      ...listMessageBudgets(context),
      ...openAgents.flatMap(({ agent_id: agentId, is_listed: isListed }) =>
        listBudgets(actor, agentId, isListed === 1),
      ),
    ]);
    messageId = message.id;
    return [{ type: 'session.message', payload: message }];
  };
  const sequence = await append(context, transaction, sessionId, 1, write, participation.last_sequence);
  return { message_id: messageId, sequence };
};

const listMessageBudgets = ({ messageBudget }: ServiceContext): Budget[] =>
  messageBudget === undefined ? [] : [messageBudget];

/** One stranger must not use up an open agent's limit: a sender that the agent does not list has a share of it. */
function listBudgets({ accountId }: AgentActor, agentId: string, isListed: boolean): Budget[] {
  const ofAll: Budget = { name: 'sendToOpenAgent', subjectId: agentId };
  return isListed ? [ofAll] : [ofAll, { name: 'sendAsStranger', subjectId: `${agentId} ${accountId}` }];
}
