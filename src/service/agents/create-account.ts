import { HandlePart } from '../../wire/handle.js';
import { ID_PREFIX } from '../../wire/id.js';
import type { ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { type AccountRow, insertAccount } from '../store/account-rows.js';
import type { Transaction } from '../store/database.js';

/** Names that would speak for the service; its operator, who makes local accounts, may use them. */
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
    created_at: context.clock.now(),
    suspended_at: null,
    attachment_bytes: 0,
  };
  if (!(await insertAccount(transaction, row))) throw new ServiceError('DUPLICATE_HANDLE');
  return row;
}
