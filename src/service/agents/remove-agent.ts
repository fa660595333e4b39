import type { PathOf, ReplyOf } from '../../wire/endpoint.js';
import { closeSockets } from '../bus/close-sockets.js';
import type { AccountActor, ServiceContext } from '../context.js';
import { removeParticipant } from '../sessions/remove-participant.js';
import { type AgentRecordRow, listActiveParticipations, markAgentRemoved } from '../store/agent-rows.js';
import type { Transaction } from '../store/database.js';
import { revokeGrantsOfAgent } from '../store/grant-rows.js';
import { agentLock, sessionLock } from '../store/lock-names.js';
import { refreshSearchTerms } from './search-terms.js';
import { findOwnAgent } from './visible-agent.js';

export async function removeAgent(
  context: ServiceContext,
  actor: AccountActor,
  input: { path: PathOf<'removeAgent'> },
  transaction: Transaction,
): Promise<ReplyOf<'removeAgent'>> {
  await removeAgentRecord(context, transaction, await findOwnAgent(transaction, actor, input.path));
  return undefined;
}

/**
 * Takes an agent away for good: it leaves its active sessions as if by itself, can get no token any more, and is found
 * by nobody. Its row and its handle stay, so that nobody else can ever speak under its name.
 */
export async function removeAgentRecord(
  context: Pick<ServiceContext, 'clock' | 'ids' | 'bus'>,
  transaction: Transaction,
  row: AgentRecordRow,
): Promise<void> {
  const now = context.clock.now();
  await transaction.lock([agentLock(row.handle)]);
  const held = new Set((await listActiveParticipations(transaction, row.id)).map((one) => one.session_id));
  await transaction.lock([...held].map(sessionLock));
  for (const participation of await listActiveParticipations(transaction, row.id))
    if (held.has(participation.session_id)) await removeParticipant(context, transaction, participation, 'left');
  await markAgentRemoved(transaction, row.id, now);
  await refreshSearchTerms(transaction, { ...row, removed_at: now });
  const grantIds = await revokeGrantsOfAgent(transaction, { id: row.id, accountId: row.account_id }, now);
  await closeSockets(context, transaction, grantIds);
}
