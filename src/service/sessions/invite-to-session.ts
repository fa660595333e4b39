import type { BodyOf, PathOf, ReplyOf } from '../../wire/endpoint.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { append } from '../events/append.js';
import type { Query, Transaction } from '../store/database.js';
import { findParticipation } from '../store/participant-rows.js';
import { admits, type Invitee } from '../trust/trust-gate.js';
import { inviteAgents, othersAmong } from './invite-agents.js';
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
  const admitted = await admits(transaction, context, actor, asked);
  const invitees = await keepOutsiders(transaction, sessionId, admitted);
  if (invitees.length === 0) return { invited: [] };
  await append(context, transaction, sessionId, invitees.length, (first) => {
    const invitation = { sessionId, by: actor.handle, topic: participation.topic, now: context.clock.now() };
    return inviteAgents(transaction, invitation, invitees, first);
  });
  return { invited: invitees.map((invitee) => invitee.handle) };
}

/** Those who do not take part, or left (D-06). */
async function keepOutsiders(query: Query, sessionId: string, agents: readonly Invitee[]): Promise<Invitee[]> {
  const outsiders: Invitee[] = [];
  for (const agent of agents) {
    const participation = await findParticipation(query, sessionId, agent.id);
    if (participation === undefined || participation.status === 'left') outsiders.push(agent);
  }
  return outsiders;
}
