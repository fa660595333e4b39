import { splitHandle } from '../../wire/handle.js';
import { KNOCK_LIFETIME_S, KNOCK_TEXT_MAX_LENGTH } from '../../wire/limit.js';
import { textOfMessage } from '../../wire/message.js';
import type { Knock } from '../../wire/schemas/agent.js';
import type { Content } from '../../wire/schemas/requests.js';
import type { AgentActor, ServiceContext } from '../core/context.js';
import { deleteInBatches, type Query, type Transaction } from '../core/database.js';
import {
  deleteKnocksBefore,
  type KnockOfAccountRow,
  type KnockRow,
  listKnockRows,
  listKnocksOfAccount,
  nobodyFor,
  putKnock,
} from '../store/knocks.js';
import { inviterLock, knockLock } from '../store/lock-names.js';
import type { Refused } from './trust-gate.js';

const LIFETIME_MS = KNOCK_LIFETIME_S * 1000;

/**
 * Remembers refused senders: in the data for the agents that hold strangers, and in memory for all. Every other
 * refusal writes the same to a row of the inviter that no one reads. The refusals of one inviter wait for each other,
 * because those of agents that do not hold share that row. So neither the work nor the waiting reveals which agents
 * hold.
 */
export async function recordRefusals(
  { clock, refusals }: Pick<ServiceContext, 'clock' | 'refusals'>,
  transaction: Transaction,
  inviter: Pick<AgentActor, 'agentId' | 'handle'>,
  refused: readonly Refused[],
  content?: Content,
): Promise<void> {
  if (refused.length === 0) return;
  await transaction.lock([inviterLock(inviter.agentId), ...refused.map(({ handle }) => knockLock(handle))]);
  const text = content === undefined ? null : readBeginning(content);
  const { owner } = splitHandle(inviter.handle);
  for (const { holderId } of refused) {
    const agentId = holderId ?? nobodyFor(inviter.agentId);
    putKnock(transaction, { agent_id: agentId, sender: inviter.handle, text, last_at: clock.now() }, owner);
  }
  transaction.afterCommit(() => {
    for (const { known } of refused)
      refusals.invitation(known?.agentId ?? nobodyFor(inviter.agentId), inviter.handle, known?.reason ?? 'unlisted');
  });
}

/** Without NUL, which PostgreSQL cannot store. */
function readBeginning(content: Content): string {
  const text = textOfMessage({ content }).replaceAll('\0', '');
  return [...text.slice(0, 2 * KNOCK_TEXT_MAX_LENGTH)].slice(0, KNOCK_TEXT_MAX_LENGTH).join('');
}

export async function readKnocks(
  { clock }: Pick<ServiceContext, 'clock'>,
  agentId: string,
  query: Query,
): Promise<Knock[]> {
  return (await listKnockRows(query, agentId, clock.now() - LIFETIME_MS)).map(toKnock);
}

/** The latest at all agents of an account, with each agent. */
export async function readKnocksOfAccount(
  { clock }: Pick<ServiceContext, 'clock'>,
  accountId: string,
  query: Query,
  limit: number,
): Promise<KnockOfAccountRow[]> {
  return listKnocksOfAccount(query, accountId, clock.now() - LIFETIME_MS, limit);
}

export function toKnock({ sender, text, times, first_at, last_at }: KnockRow): Knock {
  return { sender, text, times, first_at, last_at };
}

/** Deletes expired knocks. */
export async function forgetOldKnocks({ clock, database }: Pick<ServiceContext, 'clock' | 'database'>): Promise<void> {
  const moment = clock.now() - LIFETIME_MS;
  await deleteInBatches(database, (transaction, limit) => deleteKnocksBefore(transaction, moment, limit));
}
