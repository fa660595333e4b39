import { access, constants } from 'node:fs/promises';

import { type Clock, systemClock } from '../kit/clock.js';
import { createIds } from '../kit/ids.js';
import { type Random, systemRandom } from '../kit/random.js';
import type { Bus } from './bus/bus.js';
import { readBusAddress } from './bus/bus-address.js';
import { createLocalBus } from './bus/local-bus.js';
import { createSharedBus } from './bus/shared-bus.js';
import type { Log } from './context.js';
import { type RateLimits, unlimited } from './limits/rate-limits.js';
import { createSlidingWindow } from './limits/sliding-window.js';
import { createStoredLimits } from './limits/stored-limits.js';
import { countRefusals, type Meter } from './meter.js';
import { StartError } from './start-error.js';
import { type Database, DatabaseUnusableError, type SharedDatabase } from './store/database.js';
import { seal } from './store/service-key.js';
import { openSqlite } from './store/sqlite-database.js';
import { DataInUseError } from './store/sqlite-lock.js';

export interface BusOptions {
  /** `nats://…` */
  readonly url: string;
  readonly credentialsFile?: string | undefined;
}

export interface StoreOptions {
  readonly data: { readonly directory: string } | 'memory';
  /** `postgres://…`; without it the data are in SQLite. */
  readonly databaseUrl?: string | undefined;
  /** By what services that share a database hear of each other; without it by that database. */
  readonly bus?: BusOptions | undefined;
  /** Refuse to create new data: what stands beside them belongs to data that should be there. */
  readonly mustExist?: boolean;
  readonly areLimitsOn?: boolean;
  readonly clock?: Clock;
  readonly random?: Random;
}

/** What a service keeps, and by what its parts hear of it: in one process, or in all that use one database. */
export interface Store {
  readonly database: Database;
  readonly bus: Bus;
  readonly limits: RateLimits;
}

/** Throws a `StartError` that says why the data cannot be used. */
export async function openStore(options: StoreOptions, log: Log, meter: Meter): Promise<Store> {
  try {
    const store =
      options.databaseUrl === undefined
        ? await openOwn(options, log, meter)
        : await openShared(options.databaseUrl, options, log, meter);
    return { ...store, limits: options.areLimitsOn === false ? unlimited : countRefusals(store.limits, meter) };
  } catch (error) {
    if (error instanceof DataInUseError) throw new StartError('DATA_IN_USE', error.message, error);
    if (error instanceof DatabaseUnusableError) throw new StartError('DATABASE_NOT_USABLE', error.message, error);
    throw error;
  }
}

const SUBJECT_LENGTH = 32;

const told = (log: Log, event: string) => (error: unknown) => log.error(event, error);

async function openOwn({ data, mustExist, clock = systemClock }: StoreOptions, log: Log, meter: Meter): Promise<Store> {
  return {
    database: await openSqlite(data, {
      onFault: told(log, 'after_commit_failed'),
      onCommit: meter.committed,
      mustExist,
    }),
    bus: createLocalBus(told(log, 'bus_failed')),
    limits: createSlidingWindow(clock),
  };
}

async function openShared(
  url: string,
  { mustExist, clock = systemClock, random = systemRandom, bus }: StoreOptions,
  log: Log,
  meter: Meter,
): Promise<Store> {
  // Loaded here, so that nobody else waits for the driver.
  const { openPostgres } = await import('./store/postgres-database.js');
  if (bus !== undefined) await checkBus(bus);
  const onFault = told(log, 'database_failed');
  const database = await openPostgres(url, {
    onFault,
    onCommit: meter.committed,
    mustExist,
    onOutage(fault) {
      if (fault === undefined) log.info('database_up');
      else log.error('database_down', fault);
    },
    onWarning: (warning) => log.error('database_warning', new Error(warning)),
  });
  const processId = createIds(clock, random).ulid();
  const calls = bus === undefined ? undefined : await openBus(bus, database, log);
  const shared = createSharedBus(calls ?? database.calls, { processId, onFault: told(log, 'bus_failed') });
  return {
    database,
    bus: {
      ...shared,
      async close() {
        await shared.close();
        await calls?.close();
      },
    },
    // One time for all services, unless a test decides it.
    limits: createStoredLimits(database.aside, clock.isSystem === true ? undefined : () => clock.now()),
  };
}

/** Throws where its operator can mend something; that it cannot be reached is no such thing. */
async function checkBus({ url, credentialsFile }: BusOptions): Promise<void> {
  try {
    if (credentialsFile !== undefined) await access(credentialsFile, constants.R_OK);
    readBusAddress(url);
  } catch (error) {
    const message = error instanceof TypeError ? error.message : `The credentials ${credentialsFile} cannot be read.`;
    throw new StartError('BUS_NOT_USABLE', message, error);
  }
}

/** Those who have other data may use the same bus, and do not hear each other. */
async function subjectOf(database: Database): Promise<string> {
  const sealed = await database.read((query) => seal(query, 'bells', 'subject'));
  return `asp.bells.${sealed.toString('hex').slice(0, SUBJECT_LENGTH)}`;
}

/** Never waits for the bus: a service does without it. */
async function openBus({ url, credentialsFile }: BusOptions, database: SharedDatabase, log: Log) {
  const subject = await subjectOf(database);
  const { createNatsCalls } = await import('./bus/nats-calls.js');
  const options = { address: readBusAddress(url), credentialsFile, subject, clock: systemClock, log };
  return createNatsCalls(options, database.calls);
}
