import type { ReplyOf } from '../../wire/endpoint.js';
import type { AccountActor, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { findAccount } from '../store/account-rows.js';
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
  const { id, username, display_name, tier, created_at } = account;
  return { id, username, display_name, tier, created_at, updated_at: created_at };
}
