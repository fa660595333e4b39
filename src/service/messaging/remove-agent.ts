import { findOwnAgent, refreshSearchTerms } from '../agents/agents.js';
import type { Handler, ServiceContext } from '../core/context.js';
import type { Transaction } from '../core/database.js';
import { markAccountRemoved, markAccountSuspended } from '../store/accounts.js';
import {
  type AgentRecordRow,
  listActiveParticipations,
  listAgentsOfAccount,
  markAgentRemoved,
} from '../store/agents.js';
import { releasePictures } from '../store/attachments.js';
import { listClientIdsOfAccount, revokeGrantsOfAgent, revokeSignInsOfAccount } from '../store/authorizations.js';
import { deleteAccountSessions } from '../store/browser-sessions.js';
import { deleteKnocksOfAgent } from '../store/knocks.js';
import { accountLock, agentLock, sessionLock } from '../store/lock-names.js';
import { deletePasskeysOfAccount } from '../store/passkeys.js';
import { clearPushQueue, deleteNotified } from '../store/push.js';
import { deleteShareLinksOfAccount } from '../store/share-links.js';
import { deleteWebhook } from '../store/webhooks.js';
import { closeSockets } from './presence.js';
import { removeParticipant } from './sessions.js';

export const removeAgent: Handler<'removeAgent'> = async (context, actor, input, transaction) => {
  await removeAgentRecord(context, transaction, await findOwnAgent(transaction, actor, input.path));
  return undefined;
};

/**
 * Removes an agent for good: it leaves its active sessions as if on its own, can no longer get tokens, and can no
 * longer be found. Its row and its handle stay, so that no one else can ever speak under its name.
 */
export async function removeAgentRecord(
  context: Pick<ServiceContext, 'clock' | 'ids' | 'bus'>,
  transaction: Transaction,
  row: AgentRecordRow,
): Promise<void> {
  const now = context.clock.now();
  await transaction.lock([agentLock(row.handle)]);
  // Before those of its sessions, as for a new link to a session, so that the two do not deadlock.
  await transaction.lock([accountLock(row.account_id)]);
  const held = new Set((await listActiveParticipations(transaction, row.id)).map((one) => one.session_id));
  await transaction.lock([...held].map(sessionLock));
  for (const participation of await listActiveParticipations(transaction, row.id))
    if (held.has(participation.session_id)) await removeParticipant(context, transaction, participation, 'left');
  await markAgentRemoved(transaction, row.id, now);
  await releasePictures(transaction, row.id);
  await deleteKnocksOfAgent(transaction, row.id);
  await deleteWebhook(transaction, row.id);
  await refreshSearchTerms(transaction, { ...row, removed_at: now });
  const grantIds = await revokeGrantsOfAgent(transaction, { id: row.id, accountId: row.account_id }, now);
  await closeSockets(context, transaction, grantIds);
}

/**
 * From now on no one acts for the account: its tokens are refused, its sockets closed, its browsers and apps signed
 * out.
 */
export async function suspendAccount(
  context: Pick<ServiceContext, 'clock' | 'bus'>,
  transaction: Transaction,
  accountId: string,
): Promise<void> {
  const now = context.clock.now();
  await transaction.lock([accountLock(accountId)]);
  await markAccountSuspended(transaction, accountId, now);
  await deleteAccountSessions(transaction, accountId, undefined);
  const families = await revokeSignInsOfAccount(transaction, accountId, now);
  await closeSockets(context, transaction, [...families, ...(await listClientIdsOfAccount(transaction, accountId))]);
}

/**
 * Removes an account for good, with its agents, each as if it were removed on its own. One transaction per agent,
 * because others would have to wait for a large one; an account that was only partly removed is suspended, and can be
 * removed again. `erase` runs when its agents are gone.
 */
export async function removeAccount(
  context: Pick<ServiceContext, 'clock' | 'ids' | 'bus' | 'database'>,
  accountId: string,
  erase: () => Promise<void> = async () => {},
): Promise<void> {
  const { clock, database } = context;
  await database.write((transaction) => suspendAccount(context, transaction, accountId));
  for (;;) {
    const [agent] = await database.read((query) => listAgentsOfAccount(query, accountId, { limit: 1 }));
    if (agent === undefined) break;
    await database.write((transaction) => removeAgentRecord(context, transaction, agent));
  }
  await erase();
  await database.write(async (transaction) => {
    await deletePasskeysOfAccount(transaction, accountId);
    await deleteShareLinksOfAccount(transaction, accountId);
    await clearPushQueue(transaction, accountId);
    await deleteNotified(transaction, accountId);
    await markAccountRemoved(transaction, accountId, clock.now());
  });
}
