import { closeSockets } from '../../bus/close-sockets.js';
import type { ServiceContext } from '../../context.js';
import { updatePasswordHash } from '../../store/account-rows.js';
import { deleteAccountSessions } from '../../store/account-session-rows.js';
import type { Transaction } from '../../store/database.js';
import { revokeSignInsOfAccount } from '../../store/grant-rows.js';

export interface NewPassword {
  readonly accountId: string;
  /** Of `hashPassword`, which takes too long for a transaction. */
  readonly passwordHash: string;
  /** The browser that stays signed in; undefined: none. */
  readonly keptBrowserHash?: string | undefined;
  /** Whether applications stay signed in. */
  readonly areApplicationsKept?: boolean;
}

/** Sets a password. Whoever knew the old one is signed out: browsers, and applications with their sockets. */
export async function setPassword(
  context: Pick<ServiceContext, 'clock' | 'bus'>,
  transaction: Transaction,
  { accountId, passwordHash, keptBrowserHash, areApplicationsKept = false }: NewPassword,
): Promise<void> {
  await updatePasswordHash(transaction, accountId, passwordHash);
  await deleteAccountSessions(transaction, accountId, keptBrowserHash);
  if (areApplicationsKept) return;
  await closeSockets(context, transaction, await revokeSignInsOfAccount(transaction, accountId, context.clock.now()));
}
