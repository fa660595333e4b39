import { type Handle, ownerGlobOf } from '../../wire/handle.js';
import type { AgentActor, ServiceContext } from '../context.js';
import type { Query, Transaction } from '../store/database.js';
import { agentLock } from '../store/lock-names.js';
import { type GateRow, weighHandle } from '../store/trust-rows.js';

/** An agent that may be invited. */
export interface Invitee {
  readonly id: string;
  readonly handle: Handle;
}

/**
 * Those of `handles`, in order, whom `inviter` may invite (wire: Agents, search, trust). The others are left out without a word, and
 * each costs the same look-ups, whatever the reason (spec: Non-enumeration, rule 1).
 */
export async function admits(
  transaction: Transaction,
  context: Pick<ServiceContext, 'settings'>,
  inviter: Pick<AgentActor, 'agentId' | 'handle'>,
  handles: readonly Handle[],
): Promise<Invitee[]> {
  await transaction.lock([inviter.handle, ...handles].map(agentLock), 'shared');
  const own = await weigh(transaction, inviter, inviter.handle);
  const admitted: Invitee[] = [];
  for (const handle of handles) {
    const row = await weigh(transaction, inviter, handle);
    if (row.id === null || !isReachable(row)) continue;
    if (context.settings.trust === 'symmetric' && own.inbound_policy !== 'open' && row.is_listed_by_inviter === 0)
      continue;
    admitted.push({ id: row.id, handle });
  }
  return admitted;
}

function weigh(query: Query, inviter: Pick<AgentActor, 'agentId' | 'handle'>, handle: Handle): Promise<GateRow> {
  return weighHandle(query, {
    inviterId: inviter.agentId,
    inviterHandle: inviter.handle,
    inviterGlob: ownerGlobOf(inviter.handle),
    handle,
    glob: ownerGlobOf(handle),
  });
}

function isReachable(row: GateRow): boolean {
  if (row.removed_at !== null || row.is_paused === 1 || row.is_blocked === 1) return false;
  return row.inbound_policy === 'open' || row.is_listed === 1;
}
