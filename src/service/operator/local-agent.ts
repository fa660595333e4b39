import { type Handle, splitHandle } from '../../wire/handle.js';
import type { InboundPolicy } from '../../wire/schemas/agent.js';
import { createAccount } from '../agents/accounts.js';
import { createAgentRecord } from '../agents/agents.js';
import type { ServiceContext } from '../core/context.js';
import type { Transaction } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import { type AccountRow, findAccountByUsername } from '../store/accounts.js';
import { type AgentRow, findAgentByHandle } from '../store/agents.js';
import { LOCAL_AGENTS_LOCK } from '../store/lock-names.js';

type PutContext = Pick<ServiceContext, 'clock' | 'ids' | 'settings'>;

export interface LocalAgent {
  readonly handle: Handle;
  /** Default `open`: people who start their own service want their agents to be reachable on it. */
  readonly inboundPolicy?: InboundPolicy | undefined;
  readonly displayName?: string | undefined;
}

/**
 * A new agent of a local account, which is created too if it is new. DUPLICATE_HANDLE if the agent exists, or existed.
 */
export async function addLocalAgent(
  context: PutContext,
  transaction: Transaction,
  { handle, inboundPolicy = 'open', displayName }: LocalAgent,
): Promise<AgentRow> {
  await transaction.lock([LOCAL_AGENTS_LOCK]);
  const { owner, name } = splitHandle(handle);
  const account = await findLocalAccount(context, transaction, owner);
  const agent = { local_name: name, display_name: displayName ?? name, inbound_policy: inboundPolicy };
  return createAgentRecord(context, transaction, account, agent);
}

/** The agent with that handle, created if it is new; `isNew` says which. */
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

/** An account that a person signed up for is that person's, and its name is taken. */
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
