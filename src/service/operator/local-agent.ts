import type { InboundPolicy } from '../../wire/agent.js';
import { type Handle, splitHandle } from '../../wire/handle.js';
import { createAccount } from '../agents/create-account.js';
import { createAgentRecord } from '../agents/create-agent.js';
import type { ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { type AccountRow, findAccountByUsername } from '../store/account-rows.js';
import { type AgentRow, findAgentByHandle } from '../store/agent-rows.js';
import type { Transaction } from '../store/database.js';
import { LOCAL_AGENTS_LOCK } from '../store/lock-names.js';

type PutContext = Pick<ServiceContext, 'clock' | 'ids' | 'settings'>;

export interface LocalAgent {
  readonly handle: Handle;
  /** `open` unless said: whoever starts a service of his own wants his agents to be reachable on it. */
  readonly inboundPolicy?: InboundPolicy | undefined;
  readonly displayName?: string | undefined;
}

/** A new agent of a local account, which is made if it is new too. DUPLICATE_HANDLE if it is there, or was. */
export async function addLocalAgent(
  context: PutContext,
  transaction: Transaction,
  { handle, inboundPolicy = 'open', displayName }: LocalAgent,
): Promise<AgentRow> {
  await transaction.lock([LOCAL_AGENTS_LOCK]);
  const { owner, name } = splitHandle(handle);
  const account = await findLocalAccount(context, transaction, owner);
  return createAgentRecord(context, transaction, account, { name, displayName: displayName ?? name, inboundPolicy });
}

/** The agent of that handle, made if it is new; `isNew` says which. */
export async function putLocalAgent(
  context: PutContext,
  transaction: Transaction,
  agent: LocalAgent,
): Promise<{ row: AgentRow; isNew: boolean }> {
  await transaction.lock([LOCAL_AGENTS_LOCK]);
  const known = await findAgentByHandle(transaction, agent.handle);
  if (known !== undefined) return { row: known, isNew: false };
  return { row: await addLocalAgent(context, transaction, agent), isNew: true };
}

/** An account that somebody signed up for is that person's, and its name is taken. */
async function findLocalAccount(context: PutContext, transaction: Transaction, username: string): Promise<AccountRow> {
  const known = await findAccountByUsername(transaction, username);
  if (known?.is_local === 1) return known;
  if (known !== undefined) throw new ServiceError('DUPLICATE_HANDLE');
  return createAccount(context, transaction, {
    username,
    displayName: username,
    passwordHash: null,
    tier: 'trusted',
    isLocal: true,
  });
}
