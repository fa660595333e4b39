import type { BodyOf, PathOf, ReplyOf } from '../../wire/endpoint.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { append, type EventDraft } from '../events/append.js';
import type { Transaction } from '../store/database.js';
import { listParticipants, markJoined, markLeft } from '../store/participant-rows.js';
import { markSessionActive } from '../store/session-rows.js';
import { listUnreachable } from '../store/trust-rows.js';
import { admits, type Invitee } from '../trust/trust-gate.js';
import { inviteAgents, othersAmong } from './invite-agents.js';
import { requireTransition } from './lifecycle.js';
import { writeMessage } from './write-message.js';

/**
 * Events in order: `session.reopened`, `session.invited` for every other earlier participant and each new invitee, then
 * the message. Who stands across a block does not take part again: it is `left` without an event and keeps what it saw.
 */
export async function reopenSession(
  context: ServiceContext,
  actor: AgentActor,
  input: { path: PathOf<'reopenSession'>; body: BodyOf<'reopenSession'> },
  transaction: Transaction,
): Promise<ReplyOf<'reopenSession'>> {
  const sessionId = input.path.session_id;
  const { participation } = await requireTransition(transaction, 'reopen', sessionId, actor.agentId);
  const { leaving, returning } = await sortEarlier(transaction, sessionId, actor);
  const invitees = [...returning, ...(await admitNew(context, transaction, sessionId, actor, input.body.invite ?? []))];
  const said = input.body.initial_message;

  const now = context.clock.now();
  await markSessionActive(transaction, sessionId);
  if (participation.status !== 'joined') await markJoined(transaction, sessionId, actor.agentId, now);
  const count = 1 + invitees.length + (said === undefined ? 0 : 1);
  await append(context, transaction, sessionId, count, async (first) => {
    for (const agentId of leaving) await markLeft(transaction, sessionId, agentId, first - 1, now);
    const drafts: EventDraft[] = [{ type: 'session.reopened', payload: { reopened_by: actor.handle } }];
    const invitation = { sessionId, by: actor.handle, topic: participation.topic, now };
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

/** The trust gate is for new acquaintances; of the earlier participants only a block keeps one out (wire: Sessions). */
async function sortEarlier(
  transaction: Transaction,
  sessionId: string,
  actor: AgentActor,
): Promise<{ leaving: readonly string[]; returning: readonly Invitee[] }> {
  const unreachable = await listUnreachable(transaction, sessionId, { id: actor.agentId, handle: actor.handle });
  const others = (await listParticipants(transaction, sessionId)).filter((row) => row.agent_id !== actor.agentId);
  return {
    leaving: others.filter((row) => unreachable.has(row.agent_id) && row.status !== 'left').map((row) => row.agent_id),
    returning: others
      .filter((row) => !unreachable.has(row.agent_id))
      .map((row) => ({ id: row.agent_id, handle: row.handle })),
  };
}

async function admitNew(
  context: ServiceContext,
  transaction: Transaction,
  sessionId: string,
  actor: AgentActor,
  handles: BodyOf<'reopenSession'>['invite'] & object,
): Promise<Invitee[]> {
  const earlier = new Set((await listParticipants(transaction, sessionId)).map((row) => row.handle));
  const asked = othersAmong(handles, actor.handle).filter((handle) => !earlier.has(handle));
  return admits(transaction, context, actor, asked);
}
