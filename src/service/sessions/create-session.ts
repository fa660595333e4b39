import type { BodyOf, PathOf, ReplyOf } from '../../wire/endpoint.js';
import { ID_PREFIX } from '../../wire/id.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { append } from '../events/append.js';
import { takeSession } from '../limits/account-quota.js';
import { ServiceError } from '../service-error.js';
import { findAgent } from '../store/agent-rows.js';
import type { Transaction } from '../store/database.js';
import { insertCreator } from '../store/participant-rows.js';
import { insertSession, markSessionEnded } from '../store/session-rows.js';
import { admits } from '../trust/trust-gate.js';
import { inviteAgents, othersAmong, tooManyParticipants } from './invite-agents.js';
import { writeMessage } from './write-message.js';

/** Events in order: `session.invited` for each accepted invitee, `session.message`, `session.ended` (wire: Sessions). */
export async function createSession(
  context: ServiceContext,
  actor: AgentActor,
  input: { path: PathOf<'createSession'>; body: BodyOf<'createSession'> },
  transaction: Transaction,
): Promise<ReplyOf<'createSession'>> {
  const { body } = input;
  const creator = await findAgent(transaction, actor.agentId);
  if (creator === undefined || creator.can_initiate_sessions === 0) throw new ServiceError('FORBIDDEN');

  const asked = othersAmong(body.invite ?? [], actor.handle);
  const { participantsMax } = context.settings;
  if (1 + asked.length > participantsMax) throw tooManyParticipants(participantsMax);
  const invitees = await admits(transaction, context, actor, asked);
  if (asked.length > 0 && invitees.length === 0) throw new ServiceError('NOT_FOUND');

  await takeSession(context, transaction, actor.accountId);
  const now = context.clock.now();
  const sessionId = `${ID_PREFIX.session}${context.ids.ulid()}`;
  const topic = body.topic ?? null;
  await insertSession(transaction, { id: sessionId, topic, created_at: now });
  await insertCreator(transaction, sessionId, { id: actor.agentId, handle: actor.handle }, now);

  const said = body.initial_message;
  const endsAtOnce = body.end_after_send === true;
  const count = invitees.length + (said === undefined ? 0 : 1) + (endsAtOnce ? 1 : 0);
  if (count === 0) return { session_id: sessionId, message_id: null, sequence: null };

  let sequence: number | null = null;
  let messageId: string | null = null;
  await append(context, transaction, sessionId, count, async (first) => {
    if (said !== undefined) sequence = first + invitees.length;
    const message =
      said && sequence !== null
        ? await writeMessage(context, transaction, actor, { sessionId, sequence }, said)
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
}
