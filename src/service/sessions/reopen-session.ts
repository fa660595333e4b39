import type { BodyOf, PathOf, ReplyOf } from '../../wire/endpoint.js';
import { INVITED_PER_CALL_COST } from '../../wire/limit.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { append, type EventDraft } from '../events/append.js';
import type { Transaction } from '../store/database.js';
import { listParticipants, markJoined, markLeft, type ParticipantRow } from '../store/participant-rows.js';
import { markSessionActive } from '../store/session-rows.js';
import { admits, admitsAgain, type Invitee } from '../trust/trust-gate.js';
import { inviteAgents, othersAmong, requireRoom } from './invite-agents.js';
import { requireTransition } from './lifecycle.js';
import { writeMessage } from './write-message.js';

/**
 * Events in order: `session.reopened`, `session.invited` for every other earlier participant that the trust gate lets in now and
 * each new invitee, then the message. Whom the gate keeps out is `left` without an event and keeps what it saw (wire: Sessions).
 */
export async function reopenSession(
  context: ServiceContext,
  actor: AgentActor,
  input: { path: PathOf<'reopenSession'>; body: BodyOf<'reopenSession'> },
  transaction: Transaction,
): Promise<ReplyOf<'reopenSession'>> {
  const sessionId = input.path.session_id;
  const { participation } = await requireTransition(transaction, 'reopen', sessionId, actor.agentId);
  const earlier = await listParticipants(transaction, sessionId);
  const asked = othersAmong(input.body.invite ?? [], actor.handle);
  await requireRoom(transaction, context, sessionId, asked);
  await takeForOthers(context, actor, earlier.length - 1);
  const { returning, leaving } = await sortEarlier(context, transaction, actor, earlier);
  const handles = new Set(earlier.map((row) => row.handle));
  const strangers = asked.filter((handle) => !handles.has(handle));
  const invitees = [...returning, ...(await admits(transaction, context, actor, strangers))];
  const said = input.body.initial_message;

  const now = context.clock.now();
  await markSessionActive(transaction, sessionId);
  if (participation.status !== 'joined') await markJoined(transaction, sessionId, actor.agentId, now);
  const count = 1 + invitees.length + (said === undefined ? 0 : 1);
  await append(context, transaction, sessionId, count, async (first) => {
    for (const agentId of leaving) await markLeft(transaction, sessionId, agentId, first - 1, now);
    const drafts: EventDraft[] = [{ type: 'session.reopened', payload: { reopened_by: actor.handle } }];
    const invitation = { sessionId, by: actor.handle, topic: participation.topic, lastSequence: first - 1, now };
    drafts.push(...(await inviteAgents(transaction, invitation, invitees, first + drafts.length)));
    if (said !== undefined) {
      const place = { sessionId, sequence: first + drafts.length };
      const message = await writeMessage(context, transaction, actor, place, said);
      drafts.push({ type: 'session.message', payload: message });
    }
    return drafts;
  });
  return { ok: true };
}

/** One small request reaches as many as take part: beyond the first hundred it counts as one more call for each hundred. */
async function takeForOthers({ limits }: ServiceContext, actor: AgentActor, others: number): Promise<void> {
  const weight = Math.ceil(others / INVITED_PER_CALL_COST);
  if (weight <= 1) return;
  // The whole call must fit, or waiting as told would not be enough; what its admission took is not taken again.
  await limits.check('general', actor.agentId, weight);
  await limits.takeAll([{ name: 'general', subjectId: actor.agentId, weight: weight - 1 }]);
}

/** The gate runs on every invitation, also of those who took part before: they may have left, closed their list or paused since. */
async function sortEarlier(
  context: ServiceContext,
  transaction: Transaction,
  actor: AgentActor,
  earlier: readonly ParticipantRow[],
): Promise<{ leaving: readonly string[]; returning: readonly Invitee[] }> {
  const others = earlier.filter((row) => row.agent_id !== actor.agentId);
  const handles = others.map((row) => row.handle);
  const returning = await admitsAgain(transaction, context, actor, handles);
  const admitted = new Set(returning.map(({ id }) => id));
  const leaving = others.filter((row) => row.status !== 'left' && !admitted.has(row.agent_id));
  return { returning, leaving: leaving.map((row) => row.agent_id) };
}
