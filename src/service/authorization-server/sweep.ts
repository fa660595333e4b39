import { repeat } from '../../kit/repeat.js';
import { AUTHORIZATION_REQUEST_LIFETIME_S, REFRESH_TOKEN_IDLE_LIFETIME_S } from '../../wire/limit.js';
import type { ServiceContext } from '../context.js';
import { deleteAccountSessionsExpiredBefore } from '../store/account-session-rows.js';
import { deleteAuthorizationCodesBefore, deleteAuthorizationRequestsBefore } from '../store/authorization-rows.js';
import { deleteUnusedOAuthClients } from '../store/oauth-client-rows.js';
import { deleteRefreshFamiliesUnusedSince } from '../store/refresh-rows.js';
import type { AuthorizationServer } from './server.js';

const SWEEP_EVERY_MS = 10 * 60 * 1000;
const DAY_MS = 24 * 60 * 60 * 1000;
/** A code lives a minute; for a day more its second use is still told from an unknown one. */
const CODE_KEPT_MS = DAY_MS;
const UNUSED_CLIENT_KEPT_MS = 30 * DAY_MS;

/** Forgets what has expired. */
export async function sweep(context: ServiceContext): Promise<void> {
  const now = context.clock.now();
  await context.database.write(async (transaction) => {
    await deleteAuthorizationRequestsBefore(transaction, now - AUTHORIZATION_REQUEST_LIFETIME_S * 1000);
    await deleteAuthorizationCodesBefore(transaction, now - CODE_KEPT_MS);
    await deleteAccountSessionsExpiredBefore(transaction, now);
    await deleteRefreshFamiliesUnusedSince(transaction, now - REFRESH_TOKEN_IDLE_LIFETIME_S * 1000 - DAY_MS);
    await deleteUnusedOAuthClients(transaction, now - UNUSED_CLIENT_KEPT_MS);
  });
}

/** Sweeps now and then; the answer ends it, once what it does is done. */
export function sweepRegularly({ context }: AuthorizationServer): () => Promise<void> {
  return repeat(
    context.clock,
    SWEEP_EVERY_MS,
    () => sweep(context),
    (error) => context.log.error('authorization_sweep_failed', error),
  );
}
