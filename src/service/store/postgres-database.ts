import type { ClientBase, PoolClient } from 'pg';

import { systemClock, wait } from '../../kit/clock.js';
import { systemRandom } from '../../kit/random.js';
import { DatabaseLostError, type Query, type SharedDatabase, type Transaction } from './database.js';
import { type DatabaseAddress, readDatabaseAddress } from './database-address.js';
import { type Epoch, isAtOrigin, openEpoch, readEpoch } from './epochs.js';
import { EPOCH_LOCK } from './lock-names.js';
import { createCalls } from './postgres-calls.js';
import { type ConnectionPool, createDriver, type Driver, prepareConnection } from './postgres-driver.js';
import {
  explainUnusable,
  isCollision,
  isLostConnection,
  isOutOfSpace,
  isReadOnly,
  isStalePlan,
  wasNeverSent,
} from './postgres-errors.js';
import { createOutage, type Outage, PATIENCE_MS } from './postgres-outage.js';
import { createQuery, lockNames, openQuery, runWork } from './postgres-query.js';
import { preparePostgres } from './prepare-postgres.js';
import { seal } from './service-key.js';
import { createSlots } from './slots.js';

const CONNECTIONS = 10;
const ASIDE_CONNECTIONS = 3;
const WAITING_MAX = 10_000;
const COLLISIONS_MAX = 12;
const CHANNEL_LENGTH = 32;
const RETRY_PAUSE_MS = 10;
const RETRY_PAUSE_MAX_MS = 500;

export interface PostgresOptions {
  /** Told what an effect that waited for COMMIT has thrown, and what became of a line. */
  readonly onFault?: (error: unknown) => void;
  /** Told how many writes a commit has held. */
  readonly onCommit?: (writes: number) => void;
  /** Told that writes have failed for longer than callers wait, and why; then, with undefined, that they succeed again. */
  readonly onOutage?: (fault: unknown) => void;
  /** Told what the database does worse than it could. */
  readonly onWarning?: (warning: string) => void;
  /** Refuse a database without data of asp instead of creating them. */
  readonly mustExist?: boolean | undefined;
}

/** The database at `url`, which any number of services may use at the same time. */
export async function openPostgres(url: string, options: PostgresOptions = {}): Promise<SharedDatabase> {
  const { onFault = () => {}, onCommit = () => {}, onOutage = () => {}, onWarning = () => {} } = options;
  const address = readDatabaseAddress(url);
  const driver = createDriver(address);
  const { schema, channel, epoch, warnings } = await prepare(driver, address, options.mustExist === true);
  for (const warning of warnings) onWarning(warning);
  const epochs = createEpochWatch(epoch);
  const check = async (client: ClientBase): Promise<void> => {
    await prepareConnection(client, schema);
    epochs.enter(await enterEpoch(client, schema));
  };
  const pool = driver.createPool(CONNECTIONS, check);
  const asidePool = driver.createPool(ASIDE_CONNECTIONS, check);
  const reads = createOutage({ clock: systemClock, onChange: () => {} });
  const writes = createOutage({ clock: systemClock, onChange: onOutage });
  const aside = createQuery((statement) =>
    again(writes, isLostOrReadOnly, () => withClient(asidePool, (client) => client.query(statement))),
  );
  const calls = createCalls({ driver, check, channel, aside, onFault });
  const slots = createSlots(CONNECTIONS, WAITING_MAX, {
    clock: systemClock,
    patienceMs: PATIENCE_MS,
    isStuck: () => reads.isStuck && writes.isStuck,
  });
  const writer: Writer = { pool, schema, outage: writes, onFault, onCommit };
  return {
    isExclusive: false,
    aside,
    calls,
    writeFault: () => writes.fault,
    epoch: epochs.epoch,
    onNewEpoch: epochs.onNewEpoch,
    refreshEpoch: async () => epochs.enter(await readEpoch(aside)),
    read: (work) => slots.use(() => again(reads, isLostConnection, () => readOnce(pool, work))),
    write: (work) => slots.use(() => writeUntilCommitted(writer, work)),
    async close() {
      await slots.close();
      await calls.close();
      await Promise.all([pool.close(), asidePool.close()]);
    },
  };
}

/** Derived from the service's secret: any role that can connect may send on a channel whose name it knows. */
async function findChannel(query: Query): Promise<string> {
  const sealed = await seal(query, 'bells', 'channel');
  return `asp_${sealed.toString('hex').slice(0, CHANNEL_LENGTH)}`;
}

interface Prepared {
  readonly schema: string;
  /** Where notifications are sent. */
  readonly channel: string;
  readonly epoch: Epoch;
  readonly warnings: readonly string[];
}

/** At the first of the hosts that can be used. The refusal of the first one says most. */
async function prepare(driver: Driver, address: DatabaseAddress, mustExist: boolean): Promise<Prepared> {
  const refusals: unknown[] = [];
  for (const _ of address.connectionStrings)
    try {
      return await driver.useClient(async (client) => {
        const prepared = await preparePostgres(driver, client, address, mustExist);
        const channel = await findChannel(createQuery((statement) => client.query(statement)));
        return { ...prepared, channel, epoch: await enterEpoch(client, prepared.schema) };
      });
    } catch (error) {
      refusals.push(error);
    }
  throw explainUnusable(address, refusals[0]);
}

function createEpochWatch(first: Epoch) {
  const listeners = new Set<() => void>();
  let current = first;
  return {
    epoch: (): Epoch => current,
    enter(epoch: Epoch): void {
      if (epoch.token === current.token) return;
      current = epoch;
      for (const listener of [...listeners]) listener();
    },
    onNewEpoch(listener: () => void): () => void {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
  };
}

/**
 * The epoch of the data that a new connection leads to. It begins before anything is written where they are now: the first
 * connection there begins it, and no other is used before it has looked.
 */
async function enterEpoch(client: ClientBase, schema: string): Promise<Epoch> {
  const query = createQuery((statement) => client.query(statement));
  const origin = (await query.get<{ origin: string }>('SELECT data_origin() AS origin'))?.origin ?? '';
  if (await isAtOrigin(query, origin)) return readEpoch(query);
  await client.query('BEGIN');
  try {
    await lockNames(query, schema, [EPOCH_LOCK], 'exclusive');
    const epoch = await openEpoch(query, origin, systemClock.now());
    await client.query('COMMIT');
    return epoch;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {});
    throw error;
  }
}

/** COMMIT was sent and no answer came: the work is done, or not at all. Nobody may run it again but with its key. */
class UnknownFateError extends DatabaseLostError {
  override readonly name = 'UnknownFateError';
}

const isLostOrReadOnly = (error: unknown): boolean => isLostConnection(error) || isReadOnly(error);

/** Runs `step` until it succeeds, fails in a way that a second try does not mend, or its caller has waited enough. */
async function again<T>(
  outage: Outage,
  isWorthwhile: (error: unknown, tries: number) => boolean,
  step: () => Promise<T>,
): Promise<T> {
  outage.admit();
  const startedAt = systemClock.monotonic();
  for (let tries = 1; ; tries += 1) {
    try {
      const result = await step();
      outage.succeeded();
      return result;
    } catch (error) {
      const isOutage = isLostOrReadOnly(error) || isOutOfSpace(error);
      if (isOutage) outage.failed(error);
      if (!isWorthwhile(error, tries)) throw error;
      const hasWaitedEnough = outage.isLong || systemClock.monotonic() - startedAt >= PATIENCE_MS;
      if (isOutage && hasWaitedEnough) throw lost(error);
      const pause = Math.min(RETRY_PAUSE_MAX_MS, RETRY_PAUSE_MS * 2 ** tries);
      await wait(systemClock, pause * systemRandom.fraction());
    }
  }
}

function lost(cause: unknown): DatabaseLostError {
  const reason = cause instanceof Error ? `: ${cause.message}` : '';
  return new DatabaseLostError(`The database does not answer${reason}`, { cause });
}

/** One snapshot for the whole of `work`. */
function readOnce<T>(pool: ConnectionPool, work: (query: Query) => Promise<T>): Promise<T> {
  return withClient(pool, async (client) => {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const { query, end } = openQuery(client);
    try {
      const result = await work(query);
      await client.query('COMMIT');
      return result;
    } catch (error) {
      await rollBack(client, error);
      throw error;
    } finally {
      end();
    }
  });
}

interface Writer extends Required<Pick<PostgresOptions, 'onFault' | 'onCommit'>> {
  readonly pool: ConnectionPool;
  readonly schema: string;
  readonly outage: Outage;
}

/**
 * READ COMMITTED: what is read and then written upon is held by name first (`lock`), a row that two change is held by the
 * first, and each statement sees what was committed before it. So writes to different sessions never fail each other, and
 * those to one wait in line. What collides all the same, or loses its connection before COMMIT, is run again.
 */
async function writeUntilCommitted<T>(
  { pool, schema, outage, onFault, onCommit }: Writer,
  work: (transaction: Transaction) => Promise<T>,
): Promise<T> {
  const isWorthwhile = (error: unknown, tries: number): boolean =>
    (tries < COLLISIONS_MAX && isCollision(error, tries)) || isLostOrReadOnly(error);
  const { result, effects } = await again(outage, isWorthwhile, () => writeOnce(pool, schema, work));
  onCommit(1);
  for (const effect of effects) {
    try {
      effect();
    } catch (error) {
      onFault(error);
    }
  }
  return result;
}

function writeOnce<T>(
  pool: ConnectionPool,
  schema: string,
  work: (transaction: Transaction) => Promise<T>,
): Promise<{ result: T; effects: readonly (() => void)[] }> {
  return withClient(pool, async (client) => {
    await client.query('BEGIN ISOLATION LEVEL READ COMMITTED');
    try {
      const done = await runWork(client, schema, work);
      await commit(client);
      return done;
    } catch (error) {
      await rollBack(client, error);
      throw error;
    }
  });
}

/** A lost connection ends the transaction by itself, and would have this wait as long as what failed on it. */
async function rollBack(client: ClientBase, error: unknown): Promise<void> {
  if (!(error instanceof UnknownFateError || isLostConnection(error))) await client.query('ROLLBACK').catch(() => {});
}

async function commit(client: ClientBase): Promise<void> {
  const { command } = await client.query('COMMIT').catch((error: unknown) => {
    if (isLostConnection(error) && !wasNeverSent(error))
      throw new UnknownFateError('The connection was lost while a write was committed.', { cause: error });
    throw error;
  });
  // PostgreSQL answers ROLLBACK when a statement failed whose error somebody kept to himself.
  if (command !== 'COMMIT') throw new Error('The database gave up the transaction.');
}

async function withClient<T>(pool: ConnectionPool, work: (client: PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let fault: unknown;
  try {
    return await work(client);
  } catch (error) {
    fault = error;
    throw error;
  } finally {
    // One that failed in a way that says something about the connection, or about what it has prepared, is not used again.
    const isSpoilt = fault instanceof UnknownFateError || isLostOrReadOnly(fault) || isStalePlan(fault);
    client.release(isSpoilt);
  }
}
