import { randomToken } from '../../kit/random.js';
import type {
  CreateInvitationRequest,
  EntryLink,
  Invitation,
  OperatorAccount,
  OperatorQuota,
  UpdateOperatorAccountRequest,
} from '../../wire/local-service.js';
import { removeAccount, suspendAccount } from '../agents/close-account.js';
import { PATH } from '../authorization-server/metadata.js';
import { hashSecret } from '../authorization-server/secret.js';
import type { AccountQuota, ServiceContext } from '../context.js';
import { quotaOf } from '../limits/account-quota.js';
import { ServiceError } from '../service-error.js';
import { markAccountSuspended, updateTier } from '../store/account-rows.js';
import type { Query, Transaction } from '../store/database.js';
import { deleteInvitation, deletePasswordLinks, type EntryLinkRow, insertEntryLink } from '../store/entry-link-rows.js';
import {
  findOperatorAccount,
  listAllAccounts,
  listInvitations,
  type OperatorAccountRow,
} from '../store/operator-rows.js';
import { servesPagesHere } from './sign-in-link.js';

/** What the operator may do about an account, outside the specification. */

export async function listOperatorAccounts(context: ServiceContext): Promise<{ accounts: OperatorAccount[] }> {
  const rows = await context.database.read(listAllAccounts);
  return { accounts: rows.map((row) => toOperatorAccount(context, row)) };
}

export async function readOperatorAccount(context: ServiceContext, username: string): Promise<OperatorAccount> {
  return toOperatorAccount(context, await context.database.read((query) => requireAccount(query, username)));
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
    return toOperatorAccount(context, await requireAccount(transaction, username));
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

function toOperatorAccount(context: ServiceContext, row: OperatorAccountRow): OperatorAccount {
  const { username, display_name, tier, agents, clients, attachment_bytes, created_at } = row;
  const quota = quotaOf(context, row);
  return {
    username,
    display_name,
    state: row.suspended_at === null ? 'active' : 'suspended',
    tier,
    is_local: row.is_local === 1,
    agents,
    clients,
    attachment_bytes,
    quota: quota === undefined ? null : toOperatorQuota(quota),
    created_at,
  };
}

/** A quota as the operator sees it. */
export function toOperatorQuota({ agents, clients, attachmentBytes, sessionsPerHour }: AccountQuota): OperatorQuota {
  return { agents, clients, attachment_bytes: attachmentBytes, sessions_per_hour: sessionsPerHour };
}

const HOUR_MS = 60 * 60 * 1000;
const SECRET_BYTES = 24;

/** A link that lets its holder set the password of an account, once. The one before ends. */
export async function createPasswordLink(context: ServiceContext, username: string): Promise<EntryLink> {
  return await context.database.write(async (transaction) => {
    const account = await requireAccount(transaction, username);
    if (account.is_local === 1 && servesPagesHere(context.settings))
      throw new ServiceError('VALIDATION_ERROR', 'A local account has no password: asp serve open signs in as it.');
    if (account.suspended_at !== null)
      throw new ServiceError('VALIDATION_ERROR', 'The account is suspended: resume it first.');
    await deletePasswordLinks(transaction, account.id);
    return addEntryLink(context, transaction, {
      purpose: 'password',
      accountId: account.id,
      lifetimeMs: HOUR_MS,
      addressOf: (secret) => `${PATH.newPassword}?once=${secret}`,
    });
  });
}

/** A code with which one person may sign up. */
export async function createInvitation(
  context: ServiceContext,
  { lifetime_ms: lifetimeMs }: CreateInvitationRequest,
): Promise<EntryLink> {
  return await context.database.write((transaction) =>
    addEntryLink(context, transaction, {
      purpose: 'sign-up',
      accountId: null,
      lifetimeMs,
      addressOf: (secret) => `${PATH.signIn}?invitation=${secret}`,
    }),
  );
}

export async function listOperatorInvitations({
  clock,
  database,
}: ServiceContext): Promise<{ invitations: Invitation[] }> {
  const rows = await database.read(listInvitations);
  const invitations = rows.map(({ id, username, created_at, expires_at, used_at }): Invitation => {
    const state = used_at !== null ? 'used' : expires_at <= clock.now() ? 'expired' : 'open';
    return { id, state, account: username, created_at, expires_at };
  });
  return { invitations };
}

export async function revokeInvitation({ database }: ServiceContext, id: string): Promise<{ ok: true }> {
  if (!(await database.write((transaction) => deleteInvitation(transaction, id)))) throw new ServiceError('NOT_FOUND');
  return { ok: true };
}

interface NewEntryLink {
  readonly purpose: EntryLinkRow['purpose'];
  readonly accountId: string | null;
  readonly lifetimeMs: number;
  readonly addressOf: (secret: string) => string;
}

async function addEntryLink(
  { clock, ids, random, settings }: ServiceContext,
  transaction: Transaction,
  { purpose, accountId, lifetimeMs, addressOf }: NewEntryLink,
): Promise<EntryLink> {
  const secret = randomToken(random, SECRET_BYTES);
  const now = clock.now();
  const row = {
    id: `lnk_${ids.ulid()}`,
    purpose,
    secret_hash: hashSecret(secret),
    account_id: accountId,
    created_at: now,
    expires_at: now + lifetimeMs,
  };
  await insertEntryLink(transaction, row);
  return {
    id: row.id,
    url: `${settings.addresses.webUrl}${addressOf(secret)}`,
    code: secret,
    expires_at: row.expires_at,
  };
}
