import type { ServiceContext } from '../core/context.js';
import type { Transaction } from '../core/database.js';
import { markSocketsRevoked } from '../store/processes.js';

/** Closes everything that was opened with these grants, wherever it is, once this is durable (spec: POST /revoke). */
export async function closeSockets(
  { clock, bus }: Pick<ServiceContext, 'clock' | 'bus'>,
  transaction: Transaction,
  grantIds: readonly string[],
): Promise<void> {
  const now = clock.now();
  for (const grantId of grantIds) await markSocketsRevoked(transaction, grantId, now);
  transaction.afterCommit(() => {
    for (const grantId of grantIds) bus.notify({ kind: 'revoked', grantId });
  });
}
