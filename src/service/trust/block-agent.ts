import type { BodyOf, PathOf, ReplyOf } from '../../wire/endpoint.js';
import { type Handle, isOwnerGlob, type OwnerGlob, ownerGlobOf } from '../../wire/handle.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { removeFromShared } from '../sessions/remove-participant.js';
import { findAgentByHandle, listAgentIdsOfOwner } from '../store/agent-rows.js';
import { findBlock, findLatestBlockTime, insertBlock } from '../store/block-rows.js';
import type { Transaction } from '../store/database.js';
import { agentLock } from '../store/lock-names.js';
import { hiddenAgentId } from './hidden-agent-id.js';
import { toBlock } from './list-blocks.js';

/**
 * A handle that names nobody is blocked like any other: the answer does not tell, and it may name somebody later. `@owner.*`
 * blocks all agents of an owner, those of later among them.
 */
export async function blockAgent(
  context: ServiceContext,
  actor: AgentActor,
  input: { path: PathOf<'blockAgent'>; body: BodyOf<'blockAgent'> },
  transaction: Transaction,
): Promise<ReplyOf<'blockAgent'>> {
  const { handle } = input.body;
  if (handle === actor.handle || handle === ownerGlobOf(actor.handle))
    throw new ServiceError('VALIDATION_ERROR', 'An agent cannot block itself.');
  await transaction.lock([actor.handle, handle].map(agentLock));
  const known = await findBlock(transaction, actor.agentId, handle);
  if (known !== undefined) return toBlock(known);
  const { agentIds, shownId } = await resolve(transaction, actor, handle);
  const block = {
    agent_id: actor.agentId,
    blocked_handle: handle,
    blocked_agent_id: shownId,
    // Later than any other of the agent's, so that the newest first is an order.
    created_at: Math.max(context.clock.now(), (await findLatestBlockTime(transaction, actor.agentId)) + 1),
  };
  await insertBlock(transaction, block);
  await removeFromShared(context, transaction, actor, agentIds);
  return toBlock(block);
}

/** The real id is shown only of an agent that the caller could look up; a hidden one is shown like one that never was. */
async function resolve(
  transaction: Transaction,
  actor: Pick<AgentActor, 'accountId'>,
  entry: Handle | OwnerGlob,
): Promise<{ agentIds: readonly string[]; shownId: string }> {
  const hiddenId = await hiddenAgentId(transaction, entry);
  if (isOwnerGlob(entry)) return { agentIds: await listAgentIdsOfOwner(transaction, entry), shownId: hiddenId };
  const row = await findAgentByHandle(transaction, entry);
  if (row === undefined) return { agentIds: [], shownId: hiddenId };
  const isVisible = row.visibility === 'public' || row.account_id === actor.accountId;
  return { agentIds: [row.id], shownId: isVisible ? row.id : hiddenId };
}
