import { closeSockets } from '../bus/close-sockets.js';
import type { ServiceContext } from '../context.js';
import { markAccountRemoved, markAccountSuspended } from '../store/account-rows.js';
import { deleteAccountSessions } from '../store/account-session-rows.js';
import { listAgentsOfAccount } from '../store/agent-rows.js';
import type { Transaction } from '../store/database.js';
import { listClientIdsOfAccount, revokeSignInsOfAccount } from '../store/grant-rows.js';
import { removeAgentRecord } from './remove-agent.js';

/** Nobody acts for the account from now on: its tokens are refused, its sockets closed, its browsers and applications signed out. */
export async function suspendAccount(
  context: Pick<ServiceContext, 'clock' | 'bus'>,
  transaction: Transaction,
  accountId: string,
): Promise<void> {
  const now = context.clock.now();
  await markAccountSuspended(transaction, accountId, now);
  await deleteAccountSessions(transaction, accountId, undefined);
  const families = await revokeSignInsOfAccount(transaction, accountId, now);
  await closeSockets(context, transaction, [...families, ...(await listClientIdsOfAccount(transaction, accountId))]);
}

/**
 * Takes an account away for good, with its agents, each as if it were removed by itself. One transaction an agent, or others
 * would wait for all of them; an account that was left halfway is suspended, and can be removed again.
 */
export async function removeAccount(
  context: Pick<ServiceContext, 'clock' | 'ids' | 'bus' | 'database'>,
  accountId: string,
): Promise<void> {
  const { clock, database } = context;
  await database.write((transaction) => suspendAccount(context, transaction, accountId));
  for (;;) {
    const [agent] = await database.read((query) => listAgentsOfAccount(query, accountId, { limit: 1 }));
    if (agent === undefined) break;
    await database.write((transaction) => removeAgentRecord(context, transaction, agent));
  }
  await database.write((transaction) => markAccountRemoved(transaction, accountId, clock.now()));
}
