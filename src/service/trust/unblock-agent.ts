import type { PathOf, ReplyOf } from '../../wire/endpoint.js';
import { isHandle, isOwnerGlob } from '../../wire/handle.js';
import { isId } from '../../wire/id.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { deleteBlock } from '../store/block-rows.js';
import type { Transaction } from '../store/database.js';

export async function unblockAgent(
  _context: ServiceContext,
  actor: AgentActor,
  input: { path: PathOf<'unblockAgent'> },
  transaction: Transaction,
): Promise<ReplyOf<'unblockAgent'>> {
  const { blocked } = input.path;
  if (!isHandle(blocked) && !isOwnerGlob(blocked) && !isId('agent', blocked)) throw new ServiceError('INVALID_HANDLE');
  if (!(await deleteBlock(transaction, actor.agentId, blocked))) throw new ServiceError('NOT_FOUND');
  return { unblocked: true };
}
