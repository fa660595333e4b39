import { within } from '../kit/clock.js';
import { repeat } from '../kit/repeat.js';
import { discardOrphans, sweepAttachments } from './attachments/attachments.js';
import { isSearchOn, type ServiceContext } from './core/context.js';
import { isShared } from './core/database.js';
import { isOutage, ServiceError, shuttingDown } from './core/errors.js';
import { forgetOldKeys } from './messaging/idempotency.js';
import { forgetOldKnocks } from './messaging/knocks.js';
import { startIndexing } from './messaging/search-messages.js';
import type { SigningKeys } from './oauth/access-tokens.js';
import { enforceRetention } from './operator/retention.js';
import { findNewestTime } from './store/events.js';
import { findSchemaVersion } from './store/operator.js';
import { reportProcess, takeTurn } from './store/prepare-postgres.js';
import { putProcess } from './store/processes.js';
import { forgetIdleBudgets } from './store/stored-limits.js';
import { sweep as sweepAuthorizations } from './web/authorization-server.js';

const HEARTBEAT_MS = 5_000;
/** While something is wrong. */
const QUICK_HEARTBEAT_MS = 1_000;
/** Two heartbeats, plus the time a slow one may take. */
const SILENT_MAX_MS = 15_000;
const CLOCK_OFFSET_MAX_MS = 30_000;
/** Processes that share the data differ by less. */
const BEHIND_DATA_MAX_MS = 5_000;
const DATABASE_ANSWERS_WITHIN_MS = 2_000;

/** Whether requests should be sent to this process: its writes succeed, and its clock is right. */
export interface Health {
  /** The name by which the other processes on this data know this one. */
  readonly processId: string;
  /** False: work that depends on the time must wait. */
  readonly isClockRight: boolean;
  /** Throws a 503 while the process is not ready. */
  requireReady(): Promise<void>;
  start(): Promise<void>;
  /** Makes the process not ready from now on, although nothing is wrong. */
  drain(): void;
  /** Removes this process from the list that the others see. */
  stop(): Promise<void>;
}

type HealthContext = Pick<ServiceContext, 'bus' | 'clock' | 'database' | 'ids' | 'log' | 'meter'>;

/**
 * A heartbeat is written every few seconds, so readiness depends on a successful write and a probe does not query the
 * database, where it would wait behind other traffic.
 */
export function createHealth(context: HealthContext): Health {
  const { clock, database, log, meter } = context;
  const processId = context.ids.ulid();
  const watch = createClockWatch(context);
  let beatAtMs = Number.NEGATIVE_INFINITY;
  let cancel = (): void => {};
  let running: Promise<void> = Promise.resolve();
  let isStopped = false;
  let isDraining = false;

  const put = (seenAt: number): Promise<void> =>
    database.write((transaction) => putProcess(transaction, processId, seenAt));
  const beat = async (): Promise<void> => {
    const before = clock.now();
    if (isShared(database)) {
      const { now, others, log: end } = await reportProcess(database.aside, processId, before);
      watch.compare(now, before, clock.now());
      context.bus.beat(processId, others, end);
      await database.refreshEpoch();
    }
    // A process that is alone has no one to notify; it writes only to find out whether the disk works again.
    else if (database.writeFault() !== undefined) await put(before);
    beatAtMs = clock.monotonic();
  };
  const findFault = (): unknown => {
    if (database.writeFault() !== undefined) return database.writeFault();
    if (clock.monotonic() - beatAtMs > SILENT_MAX_MS)
      return new Error('The service has not written a heartbeat recently.');
    return watch.isRight ? undefined : new Error('The clock of this machine differs from that of the database.');
  };
  const beatAgain = async (): Promise<void> => {
    try {
      await beat();
    } catch (error) {
      if (!isOutage(error)) log.error('heartbeat_failed', error);
    }
    arm();
  };
  const arm = (): void => {
    const isWell = findFault() === undefined;
    meter.readiness(isWell && !isDraining);
    if (isStopped) return;
    const start = (): void => {
      running = beatAgain();
    };
    cancel = clock.schedule(isWell ? HEARTBEAT_MS : QUICK_HEARTBEAT_MS, start, true);
  };

  return {
    processId,
    get isClockRight() {
      return watch.isRight;
    },
    async requireReady() {
      if (isDraining) throw shuttingDown();
      try {
        const fault = findFault();
        if (fault !== undefined) throw fault;
        if (database.isExclusive) await mustAnswer(context);
      } catch (error) {
        log.error('not_ready', error);
        throw new ServiceError('INTERNAL_ERROR', 'The service is not ready.', { status: 503, retryAfterS: 1 });
      }
    },
    async start() {
      await put(clock.now());
      await beat();
      // A database that is silent must not delay the start.
      reportClockBehind(context).catch((error: unknown) => isStopped || log.error('clock_unknown', error));
      arm();
    },
    drain() {
      isDraining = true;
      meter.readiness(false);
    },
    async stop() {
      isStopped = true;
      cancel();
      await running;
      await put(0);
    },
  };
}

/** A missing file, or a disk that does not respond, goes unnoticed while nothing is written. */
async function mustAnswer({ database, clock }: HealthContext): Promise<void> {
  await within(clock, DATABASE_ANSWERS_WITHIN_MS, database.read(findSchemaVersion), () => {
    throw new Error('no answer in time');
  });
}

/** Nothing else notices a clock that was set back, or data from a machine whose clock is ahead. */
async function reportClockBehind({ clock, database, log }: HealthContext): Promise<void> {
  const newest = await database.read(findNewestTime);
  const now = clock.now();
  if (newest === undefined || newest - now <= BEHIND_DATA_MAX_MS) return;
  const [ours, theirs] = [now, newest].map((at) => new Date(at).toISOString());
  const error = new Error(`This machine's clock says ${ours}, but the newest event is from ${theirs}.`);
  log.warn('clock_behind', error, { behind_ms: newest - now });
}

/** Compares the clock of this machine with the database's clock, which is the same for all services. */
function createClockWatch({ clock, log, meter }: HealthContext) {
  let isRight = true;
  return {
    get isRight() {
      return isRight;
    },
    /** The query was sent at `before` and answered at `after`. */
    compare(databaseNow: number, before: number, after: number): void {
      // A test controls the time.
      if (clock.isSystem !== true) return;
      const offsetMs = databaseNow < before ? before - databaseNow : Math.min(0, after - databaseNow);
      meter.clockOffset(offsetMs);
      const wasRight = isRight;
      isRight = Math.abs(offsetMs) <= CLOCK_OFFSET_MAX_MS;
      if (wasRight && !isRight)
        log.error('clock_off', new Error('The clock of this machine differs from that of the database.'), {
          offset_ms: offsetMs,
        });
      if (!wasRight && isRight) log.info('clock_right', { offset_ms: offsetMs });
    },
  };
}

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
  const { clock, database, log, settings } = context;
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
  if (isSearchOn(context)) stops.push(startIndexing(context));
  return async () => {
    isStopping = true;
    await Promise.all(stops.map((stop) => stop()));
  };
}
