import type { BodyOf, PathOf, ReplyOf } from '../../wire/endpoint.js';
import type { AgentActor, ServiceContext } from '../context.js';
import type { Transaction } from '../store/database.js';
import { agentLock } from '../store/lock-names.js';
import { toAgent } from './agent-record.js';
import { changeAgent } from './change-agent.js';
import { findActingAgent } from './get-acting-agent.js';

export async function updateActingAgent(
  context: ServiceContext,
  actor: AgentActor,
  input: { path: PathOf<'updateActingAgent'>; body: BodyOf<'updateActingAgent'> },
  transaction: Transaction,
): Promise<ReplyOf<'updateActingAgent'>> {
  await transaction.lock([agentLock(actor.handle)]);
  return toAgent(await changeAgent(context, transaction, await findActingAgent(transaction, actor), input.body));
}
