import { access, constants } from 'node:fs/promises';
import { type Clock, systemClock } from '../kit/clock.js';
import { createIds } from '../kit/ids.js';
import { type Random, systemRandom } from '../kit/random.js';
import type { Bus } from './core/bus.js';
import type { Log } from './core/context.js';
import type { Database, PostgresLimits, SharedDatabase } from './core/database.js';
import { OperatorError } from './core/errors.js';
import { type Meter, watchRefusals } from './core/meter.js';
import { createMemoryLimits, type RateLimits, unlimited } from './core/rate-limits.js';
import { readBusAddress } from './messaging/bus-address.js';
import { createLocalBus, createSharedBus } from './messaging/shared-bus.js';
import { seal } from './store/keys.js';
import { openSqlite } from './store/sqlite.js';
import { createStoredLimits } from './store/stored-limits.js';

export interface BusOptions {
  /** `nats://…` */
  readonly url: string;
  readonly credentialsFile?: string | undefined;
}

export interface StoreOptions {
  readonly data: { readonly directory: string } | 'memory';
  /** `postgres://…`; without it the data is in SQLite. */
  readonly databaseUrl?: string | undefined;
  /** How much of that database this service may use. */
  readonly databaseLimits?: Partial<PostgresLimits> | undefined;
  /** How services that share a database notify each other; default: through that database. */
  readonly bus?: BusOptions | undefined;
  /** Refuse to create new data: an attachments folder shows that data should exist. */
  readonly mustExist?: boolean;
  readonly areLimitsOn?: boolean;
  readonly clock?: Clock;
  readonly random?: Random;
}

/** The storage of a service, and the bus between its parts: in one process, or across all that use one database. */
export interface Store {
  readonly database: Database;
  readonly bus: Bus;
  readonly limits: RateLimits;
}

/** Throws an `OperatorError` that says why the data cannot be used. */
export async function openStore(options: StoreOptions, log: Log, meter: Meter): Promise<Store> {
  const store =
    options.databaseUrl === undefined
      ? await openOwn(options, log, meter)
      : await openShared(options.databaseUrl, options, log, meter);
  return {
    ...store,
    limits: options.areLimitsOn === false ? unlimited : watchRefusals(store.limits, (limit) => meter.refused(limit)),
  };
}

const SUBJECT_LENGTH = 32;

const logError = (log: Log, event: string) => (error: unknown) => log.error(event, error);

async function openOwn({ data, mustExist, clock = systemClock }: StoreOptions, log: Log, meter: Meter): Promise<Store> {
  return {
    database: await openSqlite(data, {
      onFault: logError(log, 'after_commit_failed'),
      onCommit: meter.committed,
      onFailure: meter.databaseFailed,
      onOutage: logOutage(log),
      mustExist,
    }),
    bus: createLocalBus(logError(log, 'bus_failed')),
    limits: createMemoryLimits(clock),
  };
}

async function openShared(
  url: string,
  { mustExist, clock = systemClock, random = systemRandom, bus, databaseLimits }: StoreOptions,
  log: Log,
  meter: Meter,
): Promise<Store> {
  // Loaded here, so that nothing else waits for the driver.
  const { openPostgres } = await import('./store/postgres.js');
  if (bus !== undefined) await checkBus(bus);
  const onFault = logError(log, 'database_failed');
  let noteLoss = (): void => {};
  const database = await openPostgres(url, {
    limits: databaseLimits,
    onFault,
    onCommit: meter.committed,
    onFailure: meter.databaseFailed,
    mustExist,
    onOutage: logOutage(log),
    onUnknownCommit: () => noteLoss(),
    onWarning: (warning) => log.warn('database_warning', new Error(warning)),
  });
  const processId = createIds(clock, random).ulid();
  const calls = bus === undefined ? undefined : await openBus(bus, database, log);
  const shared = createSharedBus(calls ?? database.calls, { processId, onFault: logError(log, 'bus_failed') });
  noteLoss = shared.noteLoss;
  return {
    database,
    bus: {
      ...shared,
      async close() {
        await shared.close();
        await calls?.close();
      },
    },
    // One time for all services, unless a test controls it.
    limits: createStoredLimits(database.aside, clock.isSystem === true ? undefined : () => clock.now()),
  };
}

/** Says once that the database cannot be used, and once that it can be used again. */
function logOutage(log: Log): (fault: unknown) => void {
  return (fault) => (fault === undefined ? log.info('database_up') : log.error('database_down', fault));
}

/** Throws for errors that the operator can fix; an unreachable bus is not one of them. */
async function checkBus({ url, credentialsFile }: BusOptions): Promise<void> {
  try {
    if (credentialsFile !== undefined) await access(credentialsFile, constants.R_OK);
    readBusAddress(url);
  } catch (error) {
    const message = error instanceof TypeError ? error.message : `Cannot read the credentials ${credentialsFile}.`;
    throw new OperatorError('BUS_NOT_USABLE', message, error);
  }
}

/** Services with other data may use the same bus without hearing each other. */
async function readSubject(database: Database): Promise<string> {
  const sealed = await database.read((query) => seal(query, 'bells', 'subject'));
  return `asp.bells.${sealed.toString('hex').slice(0, SUBJECT_LENGTH)}`;
}

/** Never waits for the bus: a service works without it. */
async function openBus({ url, credentialsFile }: BusOptions, database: SharedDatabase, log: Log) {
  const subject = await readSubject(database);
  const { createNatsCalls } = await import('./messaging/nats.js');
  const options = { address: readBusAddress(url), credentialsFile, subject, clock: systemClock, log };
  return createNatsCalls(options, database.calls);
}
