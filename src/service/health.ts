import type { ServiceContext } from './context.js';
import { ServiceError } from './service-error.js';
import { DatabaseLostError, isShared } from './store/database.js';
import { findSchemaVersion } from './store/operator-rows.js';
import { reportProcess } from './store/postgres-processes.js';
import { putProcess } from './store/process-rows.js';

const HEARTBEAT_MS = 5_000;
/** While something is wrong. */
const QUICK_HEARTBEAT_MS = 1_000;
/** Two heartbeats, and what a slow one may take. */
const SILENT_MAX_MS = 15_000;
const CLOCK_OFFSET_MAX_MS = 30_000;
const DATABASE_ANSWERS_WITHIN_MS = 2_000;

/** Whether requests should be sent to this process: what it writes is kept, and its clock is right. */
export interface Health {
  /** By this name the other processes on these data know this one. */
  readonly processId: string;
  /** False: what depends on the time must wait. */
  readonly isClockRight: boolean;
  /** Throws a 503 while the process is not ready. */
  requireReady(): Promise<void>;
  start(): Promise<void>;
  /** Tells the other processes that this one is gone. */
  stop(): Promise<void>;
}

type HealthContext = Pick<ServiceContext, 'clock' | 'database' | 'ids' | 'log' | 'meter'>;

/**
 * A heartbeat is written every few seconds, so that readiness rests on a write that was kept, and asks the database nothing:
 * a probe must not wait in the queue of the traffic.
 */
export function createHealth(context: HealthContext): Health {
  const { clock, database, log, meter } = context;
  const processId = context.ids.ulid();
  const watch = createClockWatch(context);
  let beatAtMs = Number.NEGATIVE_INFINITY;
  let cancel = (): void => {};
  let running: Promise<void> = Promise.resolve();
  let isStopped = false;

  const put = (seenAt: number): Promise<void> =>
    database.write((transaction) => putProcess(transaction, processId, seenAt));
  const beat = async (): Promise<void> => {
    const before = clock.now();
    if (isShared(database)) {
      watch.compare(await reportProcess(database.aside, processId, before), before, clock.now());
      await database.refreshEpoch();
    }
    // A process that is alone tells nobody; it writes to find out whether a disk is well again.
    else if (database.writeFault() !== undefined) await put(before);
    beatAtMs = clock.monotonic();
  };
  const findFault = (): unknown => {
    if (database.writeFault() !== undefined) return database.writeFault();
    if (clock.monotonic() - beatAtMs > SILENT_MAX_MS) return new Error('No heartbeat was written lately.');
    return watch.isRight ? undefined : new Error('The clock of this machine differs from that of the database.');
  };
  const beatAgain = async (): Promise<void> => {
    try {
      await beat();
    } catch (error) {
      if (!(error instanceof DatabaseLostError)) log.error('heartbeat_failed', error);
    }
    arm();
  };
  const arm = (): void => {
    const isWell = findFault() === undefined;
    meter.readiness(isWell);
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
      arm();
    },
    async stop() {
      isStopped = true;
      cancel();
      await running;
      await put(0);
    },
  };
}

/** A file that is gone, or a disk that does not answer, is not noticed while nobody writes. */
async function mustAnswer({ database, clock }: HealthContext): Promise<void> {
  let cancel = (): void => {};
  const tooLong = new Promise<never>((_, reject) => {
    cancel = clock.schedule(DATABASE_ANSWERS_WITHIN_MS, () => reject(new Error('no answer in time')), true);
  });
  try {
    await Promise.race([database.read(findSchemaVersion), tooLong]);
  } finally {
    cancel();
  }
}

/** Compares the clock of this machine with that of the database, which is one for all services. */
function createClockWatch({ clock, log, meter }: HealthContext) {
  let isRight = true;
  return {
    get isRight() {
      return isRight;
    },
    /** The database was asked at `before` and had answered at `after`. */
    compare(databaseNow: number, before: number, after: number): void {
      // A test decides the time.
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
