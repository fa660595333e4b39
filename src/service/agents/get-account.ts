import type { Account } from '../../wire/account.js';
import type { ReplyOf } from '../../wire/endpoint.js';
import type { AccountActor, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { type AccountRow, findAccount } from '../store/account-rows.js';
import type { Query } from '../store/database.js';

/** The account itself. Nothing of what it shows can be changed yet, so the last change is the first. */
export async function getAccount(
  _context: ServiceContext,
  actor: AccountActor,
  _input: object,
  query: Query,
): Promise<ReplyOf<'getAccount'>> {
  const account = await findAccount(query, actor.accountId);
  if (account === undefined) throw new ServiceError('UNAUTHORIZED');
  return toAccount(account);
}

export function toAccount({ id, username, display_name, tier, created_at }: AccountRow): Account {
  return { id, username, display_name, tier, created_at, updated_at: created_at };
}
