import type { BodyOf, PathOf, ReplyOf } from '../../wire/endpoint.js';
import type { Handle } from '../../wire/handle.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { removeFromShared } from '../sessions/remove-participant.js';
import { findAgentByHandle } from '../store/agent-rows.js';
import { findBlock, findLatestBlockTime, insertBlock } from '../store/block-rows.js';
import type { Transaction } from '../store/database.js';
import { agentLock } from '../store/lock-names.js';
import { hiddenAgentId } from './hidden-agent-id.js';
import { toBlock } from './list-blocks.js';

/** A handle that names nobody is blocked like any other: the answer does not tell, and it may name somebody later. */
export async function blockAgent(
  context: ServiceContext,
  actor: AgentActor,
  input: { path: PathOf<'blockAgent'>; body: BodyOf<'blockAgent'> },
  transaction: Transaction,
): Promise<ReplyOf<'blockAgent'>> {
  const { handle } = input.body;
  if (handle === actor.handle) throw new ServiceError('VALIDATION_ERROR', 'An agent cannot block itself.');
  await transaction.lock([actor.handle, handle].map(agentLock));
  const known = await findBlock(transaction, actor.agentId, handle);
  if (known !== undefined) return toBlock(known);
  const { agentId, shownId } = await resolve(transaction, actor, handle);
  const block = {
    agent_id: actor.agentId,
    blocked_handle: handle,
    blocked_agent_id: shownId,
    // Later than any other of the agent's, so that the newest first is an order.
    created_at: Math.max(context.clock.now(), (await findLatestBlockTime(transaction, actor.agentId)) + 1),
  };
  await insertBlock(transaction, block);
  if (agentId !== undefined) await removeFromShared(context, transaction, actor, agentId);
  return toBlock(block);
}

/** Its real id is shown only of an agent that the caller could look up; a hidden one is shown like one that never was. */
async function resolve(
  transaction: Transaction,
  actor: Pick<AgentActor, 'accountId'>,
  handle: Handle,
): Promise<{ agentId: string | undefined; shownId: string }> {
  const hiddenId = await hiddenAgentId(transaction, handle);
  const row = await findAgentByHandle(transaction, handle);
  if (row === undefined) return { agentId: undefined, shownId: hiddenId };
  const isVisible = row.visibility === 'public' || row.account_id === actor.accountId;
  return { agentId: row.id, shownId: isVisible ? row.id : hiddenId };
}
