import { isLoopbackHost } from '../../kit/loopback.js';
import { randomToken } from '../../kit/random.js';
import { splitHandle } from '../../wire/handle.js';
import type {
  CreateInvitationRequest,
  CreateSignInLinkRequest,
  EntryLink,
  ErasedAccount,
  ExportedAccount,
  Invitation,
  OperatorAccount,
  OperatorQuota,
  SignInLink,
  UpdateOperatorAccountRequest,
} from '../../wire/schemas/operator.js';
import { getQuota } from '../agents/accounts.js';
import type { AccountQuota, ServiceContext } from '../core/context.js';
import type { Query, Transaction } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import { removeAccount, suspendAccount } from '../messaging/remove-agent.js';
import { eraseAccount, nothingDeleted } from '../messaging/retention.js';
import { PATH } from '../oauth/metadata.js';
import { hashSecret } from '../oauth/secret.js';
import type { SignInLinks } from '../oauth/server.js';
import {
  type AccountRow,
  deleteInvitation,
  deletePasswordLinks,
  type EntryLinkRow,
  findAccountByUsername,
  insertEntryLink,
  markAccountSuspended,
  updateIsOperator,
  updateTier,
} from '../store/accounts.js';
import { AFTER_EVERY_ULID } from '../store/cursor.js';
import { accountLock } from '../store/lock-names.js';
import {
  findOperatorAccount,
  type InvitationRow,
  listAccountsByName,
  listInvitations,
  listLocalAccounts,
  type OperatorAccountRow,
} from '../store/operator.js';
import { writeExport } from '../web/dashboard/export.js';
import { OPERATOR_AREA } from '../web/dashboard/frame.js';
import type { LocalAgent } from './local-agent.js';
import { nameAfter, type StreamedAnswer, streamList } from './streamed.js';

const NAMES_MAX = 20;

export interface SignInLinkParts {
  readonly links: SignInLinks;
  /** Defaults to the first account. */
  readonly seeds: readonly LocalAgent[];
}

/** Whether a browser on this machine reaches the pages directly, so that no other one can be mistaken for it. */
export function servesPagesHere({ addresses, isBehindProxy }: ServiceContext['settings']): boolean {
  return !isBehindProxy && isLoopbackHost(new URL(addresses.webUrl).hostname);
}

/** A link that signs a browser on this machine in as a local account, once. */
export async function createSignInLink(
  context: ServiceContext,
  { links, seeds }: SignInLinkParts,
  { account: named, operator }: CreateSignInLinkRequest,
): Promise<SignInLink> {
  const { addresses } = context.settings;
  if (!servesPagesHere(context.settings))
    throw new ServiceError(
      'VALIDATION_ERROR',
      'Its pages have a different address. Give the account a password with asp serve account reset-password, and sign in there.',
    );
  const account = await context.database.read(async (query) => {
    const known = await listLocalAccounts(query, NAMES_MAX);
    const [seed] = seeds;
    const name =
      named ?? (known.length > 1 && seed !== undefined ? splitHandle(seed.handle).owner : known[0]?.username);
    const chosen = name === undefined ? undefined : await findAccountByUsername(query, name);
    if (named === undefined && known.length > 1 && seed === undefined) throw undecided(known);
    if (chosen?.is_local !== 1) throw unknown(named, known);
    return chosen;
  });
  const { username } = account;
  if (operator === true && account.is_operator !== 1)
    throw new ServiceError(
      'VALIDATION_ERROR',
      `The account ${username} is not an operator. Make it one with asp serve account operator ${username} yes.`,
    );
  const { secret, expiresAt } = links.make(account.id, operator === true ? OPERATOR_AREA : PATH.dashboard);
  return {
    url: `${addresses.webUrl}${PATH.signInLink}?once=${secret}`,
    account: account.username,
    expires_at: expiresAt,
  };
}

function undecided(known: readonly AccountRow[]): ServiceError {
  return new ServiceError('VALIDATION_ERROR', `There are several accounts, so name one: ${joinNames(known)}.`);
}

function unknown(named: string | undefined, known: readonly AccountRow[]): ServiceError {
  const missing = named === undefined ? 'There is no local account' : `There is no local account ${named}`;
  const others = known.length === 0 ? 'the first agent creates one' : `accounts: ${joinNames(known)}`;
  return new ServiceError('VALIDATION_ERROR', `${missing}; ${others}.`);
}

const joinNames = (known: readonly AccountRow[]): string => known.map(({ username }) => username).join(', ');

/** The operator's actions on an account, beyond the specification. */

export function listOperatorAccounts(
  context: ServiceContext,
): Promise<StreamedAnswer<{ accounts: OperatorAccount[] }>> {
  return streamList(context, 'accounts', async (query, after, limit) => {
    const rows = await listAccountsByName(query, '', after, limit);
    const items = rows.map((row) => toOperatorAccount(context, row));
    return { items, next: nameAfter(rows, ({ username }) => username) };
  });
}

export async function readOperatorAccount(context: ServiceContext, username: string): Promise<OperatorAccount> {
  return toOperatorAccount(context, await context.database.read((query) => requireAccount(query, username)));
}

export async function updateOperatorAccount(
  context: ServiceContext,
  username: string,
  { suspended, tier, operator }: UpdateOperatorAccountRequest,
): Promise<OperatorAccount> {
  return await context.database.write(async (transaction) => {
    const { id, suspended_at } = await requireAccount(transaction, username);
    if (operator === true && suspended !== false && (suspended_at !== null || suspended === true))
      throw suspendedFirst();
    if (suspended === true && suspended_at === null) await suspendAccount(context, transaction, id);
    if (suspended === false) await markAccountSuspended(transaction, id, null);
    if (tier !== undefined) await updateTier(transaction, id, tier);
    if (operator !== undefined) await updateIsOperator(transaction, id, operator);
    return toOperatorAccount(context, await requireAccount(transaction, username));
  });
}

export async function removeOperatorAccount(context: ServiceContext, username: string): Promise<{ ok: true }> {
  const { id } = await context.database.read((query) => requireAccount(query, username));
  await removeAccount(context, id);
  return { ok: true };
}

/** Removes an account, and everything of it that no one else can see. */
export async function eraseOperatorAccount(context: ServiceContext, username: string): Promise<ErasedAccount> {
  const { id } = await context.database.read((query) => requireAccount(query, username));
  const deleted = nothingDeleted();
  await removeAccount(context, id, () => eraseAccount(context, id, deleted));
  return { ok: true, ...deleted };
}

/** All data of an account, as its owner can download them. */
export async function exportOperatorAccount(
  context: ServiceContext,
  username: string,
): Promise<StreamedAnswer<ExportedAccount>> {
  const { database } = context;
  const account = await database.read((query) => requireAccount(query, username));
  return { texts: writeExport({ context, account, read: (work) => database.read(work) }) };
}

const suspendedFirst = (): ServiceError =>
  new ServiceError('VALIDATION_ERROR', 'The account is suspended: resume it first.');

async function requireAccount(query: Query, username: string): Promise<OperatorAccountRow> {
  const row = await findOperatorAccount(query, username);
  if (row === undefined) throw new ServiceError('NOT_FOUND');
  return row;
}

export function toOperatorAccount(context: ServiceContext, row: OperatorAccountRow): OperatorAccount {
  const { username, display_name, tier, agents, clients, attachment_bytes, created_at } = row;
  const quota = getQuota(context, row);
  return {
    username,
    display_name,
    state: row.suspended_at === null ? 'active' : 'suspended',
    tier,
    is_local: row.is_local === 1,
    is_operator: row.is_operator === 1,
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

/** A link that lets its holder set the password of an account, once. Earlier links become invalid. */
export async function createPasswordLink(context: ServiceContext, username: string): Promise<EntryLink> {
  return await context.database.write(async (transaction) => {
    const account = await requireAccount(transaction, username);
    if (account.is_local === 1 && servesPagesHere(context.settings))
      throw new ServiceError(
        'VALIDATION_ERROR',
        'A local account has no password: use asp serve open to sign in as it.',
      );
    if (account.suspended_at !== null) throw suspendedFirst();
    // Of links that are made at the same time, the last one counts.
    await transaction.lock([accountLock(account.id)]);
    await deletePasswordLinks(transaction, account.id);
    return addEntryLink(context, transaction, {
      purpose: 'password',
      accountId: account.id,
      lifetimeMs: HOUR_MS,
      toAddress: (secret) => `${PATH.newPassword}?once=${secret}`,
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
      toAddress: (secret) => `${PATH.signIn}?invitation=${secret}`,
    }),
  );
}

export async function listOperatorInvitations({
  clock,
  database,
}: ServiceContext): Promise<{ invitations: Invitation[] }> {
  const rows = await database.read((query) => listInvitations(query, LAST_LINK, INVITATIONS_MAX));
  return { invitations: rows.map((row) => toInvitation(row, clock.now())) };
}

/** Greater than the id of every link. */
export const LAST_LINK = `lnk_${AFTER_EVERY_ULID}`;
/** Expired ones are deleted, so this is more than anyone has. */
const INVITATIONS_MAX = 1_000_000;

export function toInvitation(
  { id, username, created_at, expires_at, used_at }: InvitationRow,
  now: number,
): Invitation {
  const state = used_at !== null ? 'used' : expires_at <= now ? 'expired' : 'open';
  return { id, state, account: username, created_at, expires_at };
}

export async function revokeInvitation({ database }: ServiceContext, id: string): Promise<{ ok: true }> {
  if (!(await database.write((transaction) => deleteInvitation(transaction, id)))) throw new ServiceError('NOT_FOUND');
  return { ok: true };
}

interface NewEntryLink {
  readonly purpose: EntryLinkRow['purpose'];
  readonly accountId: string | null;
  readonly lifetimeMs: number;
  readonly toAddress: (secret: string) => string;
}

async function addEntryLink(
  { clock, ids, random, settings }: ServiceContext,
  transaction: Transaction,
  { purpose, accountId, lifetimeMs, toAddress }: NewEntryLink,
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
    url: `${settings.addresses.webUrl}${toAddress(secret)}`,
    code: secret,
    expires_at: row.expires_at,
  };
}
