import { repeat } from '../kit/repeat.js';
import { discardOrphans, sweepAttachments } from './attachments/attachments.js';
import { isSearchOn, type ServiceContext } from './core/context.js';
import { isShared } from './core/database.js';
import type { Health } from './health.js';
import { forgetOldKeys } from './messaging/idempotency.js';
import { forgetOldKnocks } from './messaging/knocks.js';
import { startIndexing } from './messaging/search-messages.js';
import type { SigningKeys } from './oauth/access-tokens.js';
import { enforceRetention } from './operator/retention.js';
import { takeTurn } from './store/prepare-postgres.js';
import { forgetIdleBudgets } from './store/stored-limits.js';
import { sweep as sweepAuthorizations } from './web/authorization-server.js';

const MINUTE_MS = 60_000;
const LOCK_LOOK_MS = 5_000;
/** Processes that share the data run at slightly different times. */
const TURN_SHARE = 0.9;

interface Chore {
  readonly everyMs: number;
  /** Not at startup, when the data may still turn out to be the wrong ones. */
  readonly isDelayed?: boolean;
  readonly work: () => Promise<unknown>;
}

/**
 * Removes what has expired, in small batches between other work. Of several processes on the same data, one does each
 * chore, and a process whose clock is wrong does none: data that seems old by such a clock may be new. The returned
 * function stops it.
 */
export function startHousekeeping(context: ServiceContext, keys: SigningKeys, health: Health): () => Promise<void> {
  const { clock, database, log, meter, settings } = context;
  const { retentionMs } = settings;
  let isStopping = false;
  const chores: Readonly<Record<string, Chore>> = {
    ...(database.keepLock !== undefined && {
      keep_lock: { everyMs: LOCK_LOOK_MS, work: async () => database.keepLock?.() },
    }),
    forget_old_keys: { everyMs: MINUTE_MS, work: () => forgetOldKeys(context) },
    forget_old_knocks: { everyMs: 60 * MINUTE_MS, work: () => forgetOldKnocks(context) },
    keep_keys_fresh: { everyMs: MINUTE_MS, work: () => keys.keepFresh() },
    sweep_attachments: { everyMs: MINUTE_MS, work: () => sweepAttachments(context) },
    discard_orphans: { everyMs: 60 * MINUTE_MS, isDelayed: true, work: () => discardOrphans(context) },
    delete_old_sessions: {
      everyMs: 10 * MINUTE_MS,
      isDelayed: true,
      work: () => enforceRetention(context, retentionMs, () => isStopping),
    },
    sweep_authorizations: { everyMs: 10 * MINUTE_MS, work: () => sweepAuthorizations(context) },
    forget_idle_budgets: { everyMs: 10 * MINUTE_MS, work: () => forgetIdleBudgets(database) },
  };
  const isOurTurn = async (name: string, everyMs: number): Promise<boolean> => {
    if (!health.isClockRight) return false;
    if (!isShared(database)) return true;
    // One time for all, unless a test controls it.
    return takeTurn(database.aside, name, everyMs * TURN_SHARE, clock.isSystem === true ? null : clock.now());
  };
  for (const name of Object.keys(chores)) meter.choreDone(name, 0);
  const stops = Object.entries(chores).map(([name, { everyMs, isDelayed, work }]) =>
    repeat(
      clock,
      everyMs,
      async () => {
        if (!(await isOurTurn(name, everyMs))) return;
        await work();
        meter.choreDone(name, clock.now());
      },
      (error) => log.error('housekeeping_failed', error, { chore: name }),
      isDelayed,
    ),
  );
  if (isSearchOn(context)) stops.push(startIndexing(context));
  return async () => {
    isStopping = true;
    await Promise.all(stops.map((stop) => stop()));
  };
}
