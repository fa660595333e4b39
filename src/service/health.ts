import { within } from '../kit/clock.js';
import { messageOf } from '../kit/format.js';
import type { OwnProcess, ServiceContext } from './core/context.js';
import { isShared } from './core/database.js';
import { isOutage, ServiceError, shuttingDown } from './core/errors.js';
import { findNewestTime } from './store/events.js';
import { findSchemaVersion } from './store/operator.js';
import { reportProcess } from './store/prepare-postgres.js';
import { putProcess } from './store/processes.js';

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
export interface Health extends OwnProcess {
  /** Why the process is not ready; undefined: it is. */
  findFault(): Promise<unknown>;
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
  let lastTold: string | undefined;

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
  const lookForFault = (): unknown => {
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
    const isWell = lookForFault() === undefined;
    meter.readiness(isWell && !isDraining);
    if (isStopped) return;
    const start = (): void => {
      running = beatAgain();
    };
    cancel = clock.schedule(isWell ? HEARTBEAT_MS : QUICK_HEARTBEAT_MS, start, true);
  };

  const findFault = async (): Promise<unknown> =>
    lookForFault() ?? (database.isExclusive ? mustAnswer(context).catch((error: unknown) => error) : undefined);

  return {
    processId,
    get isClockRight() {
      return watch.isRight && !watch.hasJumped();
    },
    findFault: async () => (isDraining ? shuttingDown() : findFault()),
    async requireReady() {
      if (isDraining) throw shuttingDown();
      const fault = await findFault();
      const told = fault === undefined ? undefined : messageOf(fault);
      // Once for each reason: probes come every few seconds.
      if (told !== undefined && told !== lastTold) log.error('not_ready', fault);
      lastTold = told;
      if (told === undefined) return;
      throw new ServiceError('INTERNAL_ERROR', 'The service is not ready.', { status: 503, retryAfterS: 1 });
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
  /** Compared with a clock that does not jump. */
  const lead = (): number => clock.now() - clock.monotonic();
  let knownLead: number | undefined;
  return {
    get isRight() {
      return isRight;
    },
    hasJumped: (): boolean => knownLead !== undefined && Math.abs(lead() - knownLead) > CLOCK_OFFSET_MAX_MS,
    /** The query was sent at `before` and answered at `after`. */
    compare(databaseNow: number, before: number, after: number): void {
      // A test controls the time.
      if (clock.isSystem !== true) return;
      const offsetMs = databaseNow < before ? before - databaseNow : Math.min(0, after - databaseNow);
      meter.clockOffset(offsetMs);
      knownLead = lead();
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
