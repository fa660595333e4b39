import type { OperatorAccount, UpdateOperatorAccountRequest } from '../../wire/local-service.js';
import { removeAccount, suspendAccount } from '../agents/close-account.js';
import type { ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { markAccountSuspended, updateTier } from '../store/account-rows.js';
import type { Query } from '../store/database.js';
import { findOperatorAccount, listAllAccounts, type OperatorAccountRow } from '../store/operator-rows.js';

/** What the operator may do about an account, outside the specification. */

export async function listOperatorAccounts({ database }: ServiceContext): Promise<{ accounts: OperatorAccount[] }> {
  return { accounts: (await database.read(listAllAccounts)).map(toOperatorAccount) };
}

export async function readOperatorAccount({ database }: ServiceContext, username: string): Promise<OperatorAccount> {
  return toOperatorAccount(await database.read((query) => requireAccount(query, username)));
}

export async function updateOperatorAccount(
  context: ServiceContext,
  username: string,
  { suspended, tier }: UpdateOperatorAccountRequest,
): Promise<OperatorAccount> {
  return await context.database.write(async (transaction) => {
    const { id, suspended_at } = await requireAccount(transaction, username);
    if (suspended === true && suspended_at === null) await suspendAccount(context, transaction, id);
    if (suspended === false) await markAccountSuspended(transaction, id, null);
    if (tier !== undefined) await updateTier(transaction, id, tier);
    return toOperatorAccount(await requireAccount(transaction, username));
  });
}

export async function removeOperatorAccount(context: ServiceContext, username: string): Promise<{ ok: true }> {
  const { id } = await context.database.read((query) => requireAccount(query, username));
  await removeAccount(context, id);
  return { ok: true };
}

async function requireAccount(query: Query, username: string): Promise<OperatorAccountRow> {
  const row = await findOperatorAccount(query, username);
  if (row === undefined) throw new ServiceError('NOT_FOUND');
  return row;
}

function toOperatorAccount(row: OperatorAccountRow): OperatorAccount {
  const { username, display_name, tier, agents, clients, created_at } = row;
  const state = row.suspended_at === null ? 'active' : 'suspended';
  return { username, display_name, state, tier, is_local: row.is_local === 1, agents, clients, created_at };
}
