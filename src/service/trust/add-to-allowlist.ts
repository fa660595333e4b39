import type { BodyOf, PathOf, ReplyOf } from '../../wire/endpoint.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { insertAllowlistEntry, listAllowlistEntries } from '../store/allowlist-rows.js';
import type { Transaction } from '../store/database.js';
import { agentLock } from '../store/lock-names.js';
import { requireOwnList } from './own-list.js';

/** Every answer holds the whole list, so it cannot grow without end. */
export const ALLOWLIST_MAX_ENTRIES = 10_000;

/** Whether an entry names an agent that exists is not looked at, and so not told. */
export async function addToAllowlist(
  context: ServiceContext,
  actor: AgentActor,
  input: { path: PathOf<'addToAllowlist'>; body: BodyOf<'addToAllowlist'> },
  transaction: Transaction,
): Promise<ReplyOf<'addToAllowlist'>> {
  requireOwnList(actor, input.path);
  await transaction.lock([agentLock(actor.handle)]);
  const now = context.clock.now();
  for (const entry of input.body.entries) await insertAllowlistEntry(transaction, actor.agentId, entry, now);
  const entries = await listAllowlistEntries(transaction, actor.agentId);
  if (entries.length > ALLOWLIST_MAX_ENTRIES)
    throw new ServiceError('VALIDATION_ERROR', `An allowlist holds at most ${ALLOWLIST_MAX_ENTRIES} entries.`);
  return { entries };
}
