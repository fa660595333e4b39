import { repeat } from '../kit/repeat.js';
import type { SigningKeys } from './access-token/signing-keys.js';
import { startIndexing } from './agents/index-messages.js';
import { discardOrphans, sweepAttachments } from './attachments/sweep.js';
import { sweep as sweepAuthorizations } from './authorization-server/authorization-server.js';
import type { ServiceContext } from './context.js';
import type { Health } from './health.js';
import { forgetOldKeys } from './limits/idempotency.js';
import { forgetIdleBudgets } from './limits/stored-limits.js';
import { isShared } from './store/database.js';
import { takeTurn } from './store/postgres-processes.js';

const MINUTE_MS = 60_000;
const LOCK_LOOK_MS = 5_000;
/** Processes that share the data look a little early or late. */
const TURN_SHARE = 0.9;

interface Chore {
  readonly everyMs: number;
  /** Not at the start, when the data may yet prove to be the wrong ones. */
  readonly isDelayed?: boolean;
  readonly work: () => Promise<unknown>;
}

/**
 * What removes what has expired, in small batches between other work. Of several processes on the same data one does each
 * chore, and none whose clock is wrong: what is old by such a clock may be new. The answer stops it.
 */
export function startHousekeeping(context: ServiceContext, keys: SigningKeys, health: Health): () => Promise<void> {
  const { clock, database, log } = context;
  const chores: Readonly<Record<string, Chore>> = {
    ...(database.keepLock !== undefined && {
      keep_lock: { everyMs: LOCK_LOOK_MS, work: async () => database.keepLock?.() },
    }),
    forget_old_keys: { everyMs: MINUTE_MS, work: () => forgetOldKeys(context) },
    keep_keys_fresh: { everyMs: MINUTE_MS, work: () => keys.keepFresh() },
    sweep_attachments: { everyMs: MINUTE_MS, work: () => sweepAttachments(context) },
    discard_orphans: { everyMs: 60 * MINUTE_MS, isDelayed: true, work: () => discardOrphans(context) },
    sweep_authorizations: { everyMs: 10 * MINUTE_MS, work: () => sweepAuthorizations(context) },
    forget_idle_budgets: { everyMs: 10 * MINUTE_MS, work: () => forgetIdleBudgets(database) },
  };
  const isOurTurn = async (name: string, everyMs: number): Promise<boolean> => {
    if (!health.isClockRight) return false;
    if (!isShared(database)) return true;
    // One time for all, unless a test decides it.
    return takeTurn(database.aside, name, everyMs * TURN_SHARE, clock.isSystem === true ? null : clock.now());
  };
  const stops = Object.entries(chores).map(([name, { everyMs, isDelayed, work }]) =>
    repeat(
      clock,
      everyMs,
      async () => {
        if (await isOurTurn(name, everyMs)) await work();
      },
      (error) => log.error('housekeeping_failed', error, { chore: name }),
      isDelayed,
    ),
  );
  stops.push(startIndexing(context));
  return async () => {
    await Promise.all(stops.map((stop) => stop()));
  };
}
