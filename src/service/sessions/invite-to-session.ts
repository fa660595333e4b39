import type { BodyOf, PathOf, ReplyOf } from '../../wire/endpoint.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { append } from '../events/append.js';
import type { Transaction } from '../store/database.js';
import { listPresent } from '../store/participant-rows.js';
import { admits } from '../trust/trust-gate.js';
import { inviteAgents, othersAmong, requireRoom } from './invite-agents.js';
import { requireTransition } from './lifecycle.js';

/** Who may not be invited, or need not be, is left out of the answer without a word (spec: Non-enumeration, rule 3; D-03). */
export async function inviteToSession(
  context: ServiceContext,
  actor: AgentActor,
  input: { path: PathOf<'inviteToSession'>; body: BodyOf<'inviteToSession'> },
  transaction: Transaction,
): Promise<ReplyOf<'inviteToSession'>> {
  const sessionId = input.path.session_id;
  const { participation } = await requireTransition(transaction, 'invite', sessionId, actor.agentId);
  const asked = othersAmong(input.body.invite, actor.handle);
  await requireRoom(transaction, context, sessionId, asked);
  const admitted = await admits(transaction, context, actor, asked);
  // Only those who do not take part, or left (D-06).
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
}
