import { ID_PREFIX } from '../../wire/id.js';
import type { Account } from '../../wire/schemas/agent.js';
import { HandlePart } from '../../wire/schemas/requests.js';
import type { AccountQuota, Handler, ServiceContext } from '../core/context.js';
import type { Query, Transaction } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import type { Budget } from '../core/rate-limits.js';
import { type AccountRow, addAttachmentBytes, findAccount, insertAccount } from '../store/accounts.js';
import { countAgents } from '../store/agents.js';
import { accountLock } from '../store/lock-names.js';
import { countClients } from '../store/oauth-clients.js';

/** Names that seem to speak for the service; only its operator, who creates local accounts, may use them. */
const OFFICIAL_USERNAMES: ReadonlySet<string> = new Set([
  'abuse',
  'account',
  'accounts',
  'admin',
  'administrator',
  'asp',
  'billing',
  'help',
  'moderator',
  'official',
  'operator',
  'owner',
  'root',
  'security',
  'service',
  'staff',
  'support',
  'system',
]);

export interface NewAccount {
  readonly username: string;
  readonly displayName: string;
  readonly passwordHash: string | null;
  readonly tier: AccountRow['tier'];
  /** It belongs to the OS user who runs this service, and is approved with the secret of the local record. */
  readonly isLocal: boolean;
}

/** A taken or reserved username is DUPLICATE_HANDLE, a malformed one INVALID_HANDLE. */
export async function createAccount(
  context: Pick<ServiceContext, 'clock' | 'ids'>,
  transaction: Transaction,
  account: NewAccount,
): Promise<AccountRow> {
  if (!HandlePart.safeParse(account.username).success) throw new ServiceError('INVALID_HANDLE');
  if (!account.isLocal && OFFICIAL_USERNAMES.has(account.username)) throw new ServiceError('DUPLICATE_HANDLE');
  const row: AccountRow = {
    id: `${ID_PREFIX.account}${context.ids.ulid()}`,
    username: account.username,
    display_name: account.displayName,
    password_hash: account.passwordHash,
    tier: account.tier,
    is_local: account.isLocal ? 1 : 0,
    is_operator: 0,
    created_at: context.clock.now(),
    updated_at: context.clock.now(),
    suspended_at: null,
    attachment_bytes: 0,
  };
  if (!(await insertAccount(transaction, row))) throw new ServiceError('DUPLICATE_HANDLE');
  return row;
}

/** The account itself. */
export const getAccount: Handler<'getAccount'> = async (_context, actor, _input, query) => {
  const account = await findAccount(query, actor.accountId);
  if (account === undefined) throw new ServiceError('UNAUTHORIZED');
  return toAccount(account);
};

export function toAccount({ id, username, display_name, tier, created_at, updated_at }: AccountRow): Account {
  return { id, username, display_name, tier, created_at, updated_at };
}

type QuotaContext = Pick<ServiceContext, 'settings'>;

/** The limits of an account; undefined: none, because it is the operator's own, or trusted, or all limits are off. */
export function getQuota(
  { settings }: QuotaContext,
  account: Pick<AccountRow, 'tier' | 'is_local'> | undefined,
): AccountQuota | undefined {
  const isExempt = account?.is_local === 1 || account?.tier === 'trusted';
  return settings.areLimitsOn && !isExempt ? settings.accountPolicy.quota : undefined;
}

const COUNT = { agents: countAgents, clients: countClients };

/** Refuses one more agent, or one more client, if the account is at its limit. */
export async function requireRoomFor(
  what: keyof typeof COUNT,
  context: QuotaContext,
  transaction: Transaction,
  account: AccountRow,
): Promise<void> {
  const quota = getQuota(context, account);
  if (quota === undefined) return;
  await transaction.lock([accountLock(account.id)]);
  if ((await COUNT[what](transaction, account.id)) >= quota[what]) throw exhausted(`${quota[what]} ${what}`);
}

/** Counts an attachment toward its account's limit, or refuses it. */
export async function takeAttachmentBytes(
  context: QuotaContext,
  transaction: Transaction,
  accountId: string,
  bytes: number,
): Promise<void> {
  const quota = getQuota(context, await findAccount(transaction, accountId));
  const max = quota?.attachmentBytes ?? Number.MAX_SAFE_INTEGER;
  if (!(await addAttachmentBytes(transaction, accountId, bytes, max))) throw exhausted(`${max} bytes of attachments`);
}

/** The new sessions that an account may have in an hour; undefined: any number. */
export async function findSessionBudget(
  context: QuotaContext,
  query: Query,
  accountId: string,
): Promise<Budget | undefined> {
  const quota = getQuota(context, await findAccount(query, accountId));
  return quota && { name: 'createSessionOfAccount', subjectId: accountId, count: quota.sessionsPerHour };
}

/** (spec: Errors, FEATURE_NOT_AVAILABLE) */
function exhausted(most: string): ServiceError {
  return new ServiceError('FEATURE_NOT_AVAILABLE', `This account can have at most ${most} on this service.`);
}
