import type { PathOf, ReplyOf } from '../../wire/endpoint.js';
import { AllowlistEntry } from '../../wire/trust.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { deleteAllowlistEntry, listAllowlistEntries } from '../store/allowlist-rows.js';
import type { Transaction } from '../store/database.js';
import { requireOwnList } from './own-list.js';

export async function removeFromAllowlist(
  _context: ServiceContext,
  actor: AgentActor,
  input: { path: PathOf<'removeFromAllowlist'> },
  transaction: Transaction,
): Promise<ReplyOf<'removeFromAllowlist'>> {
  requireOwnList(actor, input.path);
  const entry = AllowlistEntry.safeParse(input.path.entry);
  if (!entry.success) throw new ServiceError('INVALID_HANDLE');
  if (!(await deleteAllowlistEntry(transaction, actor.agentId, entry.data))) throw new ServiceError('NOT_FOUND');
  return { entries: await listAllowlistEntries(transaction, actor.agentId) };
}
