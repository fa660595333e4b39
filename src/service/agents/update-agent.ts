import type { BodyOf, PathOf, ReplyOf } from '../../wire/endpoint.js';
import type { AccountActor, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { findAccount } from '../store/account-rows.js';
import type { Transaction } from '../store/database.js';
import { agentLock } from '../store/lock-names.js';
import { toAgent } from './agent-record.js';
import { changeAgent } from './change-agent.js';
import { requireOpenAgents } from './create-agent.js';
import { findOwnAgent, readHandle } from './visible-agent.js';

export async function updateAgent(
  context: ServiceContext,
  actor: AccountActor,
  input: { path: PathOf<'updateAgent'>; body: BodyOf<'updateAgent'> },
  transaction: Transaction,
): Promise<ReplyOf<'updateAgent'>> {
  await transaction.lock([agentLock(readHandle(input.path))]);
  const row = await findOwnAgent(transaction, actor, input.path);
  const account = await findAccount(transaction, actor.accountId);
  if (account === undefined) throw new ServiceError('UNAUTHORIZED');
  if (input.body.inbound_policy === 'open' && row.inbound_policy !== 'open') requireOpenAgents(context, account);
  return toAgent(await changeAgent(context, transaction, row, input.body));
}
