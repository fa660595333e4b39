import type { AccountQuota, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { type AccountRow, addAttachmentBytes, findAccount } from '../store/account-rows.js';
import { countAgents } from '../store/agent-rows.js';
import type { Transaction } from '../store/database.js';
import { accountLock } from '../store/lock-names.js';
import { countClients } from '../store/oauth-client-rows.js';

type QuotaContext = Pick<ServiceContext, 'settings'>;

/** What bounds an account; undefined: nothing does, because it is the operator's own, or trusted, or all limits are off. */
export function quotaOf(
  { settings }: QuotaContext,
  account: Pick<AccountRow, 'tier' | 'is_local'> | undefined,
): AccountQuota | undefined {
  const isExempt = account?.is_local === 1 || account?.tier === 'trusted';
  return settings.areLimitsOn && !isExempt ? settings.accountPolicy.quota : undefined;
}

/** Refuses one more agent where the account has as many as it may. */
export async function requireRoomForAgent(
  context: QuotaContext,
  transaction: Transaction,
  account: AccountRow,
): Promise<void> {
  const quota = quotaOf(context, account);
  if (quota === undefined) return;
  await transaction.lock([accountLock(account.id)]);
  if ((await countAgents(transaction, account.id)) >= quota.agents) throw exhausted(`${quota.agents} agents`);
}

/** Refuses one more client where the account has as many as it may. */
export async function requireRoomForClient(
  context: QuotaContext,
  transaction: Transaction,
  account: AccountRow,
): Promise<void> {
  const quota = quotaOf(context, account);
  if (quota === undefined) return;
  await transaction.lock([accountLock(account.id)]);
  if ((await countClients(transaction, account.id)) >= quota.clients) throw exhausted(`${quota.clients} clients`);
}

/** Counts an attachment for its account, or refuses it. */
export async function takeAttachmentBytes(
  context: QuotaContext,
  transaction: Transaction,
  accountId: string,
  bytes: number,
): Promise<void> {
  const quota = quotaOf(context, await findAccount(transaction, accountId));
  const max = quota?.attachmentBytes ?? Number.MAX_SAFE_INTEGER;
  if (!(await addAttachmentBytes(transaction, accountId, bytes, max))) throw exhausted(`${max} bytes of attachments`);
}

/** Counts a new session for its account, or refuses it until an hour has passed. */
export async function takeSession(
  context: Pick<ServiceContext, 'settings' | 'limits'>,
  transaction: Transaction,
  accountId: string,
): Promise<void> {
  const quota = quotaOf(context, await findAccount(transaction, accountId));
  if (quota === undefined) return;
  const budget = { name: 'createSessionOfAccount', subjectId: accountId, count: quota.sessionsPerHour } as const;
  await context.limits.takeAll([budget]);
}

/** (spec: Errors, FEATURE_NOT_AVAILABLE) */
function exhausted(most: string): ServiceError {
  return new ServiceError('FEATURE_NOT_AVAILABLE', `This account can have at most ${most} on this service.`);
}
