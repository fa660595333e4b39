import type { ClientBase, Pool, PoolClient } from 'pg';

import { systemClock, wait } from '../../kit/clock.js';
import { systemRandom } from '../../kit/random.js';
import { DatabaseLostError, type Query, type SharedDatabase, type Transaction } from './database.js';
import { type DatabaseAddress, readDatabaseAddress } from './database-address.js';
import { createCalls } from './postgres-calls.js';
import { createClient, createPool } from './postgres-driver.js';
import { explainUnusable, isCollision, isLostConnection, isStalePlan, wasNeverSent } from './postgres-errors.js';
import { preparePostgres } from './postgres-migrate.js';
import { createQuery, openQuery, runWork } from './postgres-query.js';
import { createSlots } from './slots.js';

const CONNECTIONS = 10;
const ASIDE_CONNECTIONS = 3;
const WAITING_MAX = 10_000;
const TRIES_MAX = 12;
const RETRY_PAUSE_MS = 10;
const RETRY_PAUSE_MAX_MS = 1_000;

export interface PostgresOptions {
  /** Told what an effect that waited for COMMIT has thrown, and what became of a line. */
  readonly onFault?: (error: unknown) => void;
  /** Told how many writes a commit has held. */
  readonly onCommit?: (writes: number) => void;
}

/** The database at `url`, which any number of services may use at the same time. */
export async function openPostgres(url: string, options: PostgresOptions = {}): Promise<SharedDatabase> {
  const address = readDatabaseAddress(url);
  const { onFault = () => {}, onCommit = () => {} } = options;
  const schema = await prepare(address);
  const pool = createPool(address, CONNECTIONS);
  const asidePool = createPool(address, ASIDE_CONNECTIONS);
  const aside = createQuery((statement) => again(() => asidePool.query(statement), isLostConnection));
  const calls = createCalls(address, schema, aside, onFault);
  const slots = createSlots(CONNECTIONS, WAITING_MAX);
  return {
    isExclusive: false,
    aside,
    calls,
    read: (work) => slots.use(() => again(() => readOnce(pool, work), isLostConnection)),
    write: (work) => slots.use(() => writeUntilCommitted({ pool, schema, onFault, onCommit }, work)),
    async close() {
      await slots.close();
      await calls.close();
      if (!pool.ended) await Promise.all([pool.end(), asidePool.end()]);
    },
  };
}

async function prepare(address: DatabaseAddress): Promise<string> {
  const client = createClient(address);
  client.on('error', () => {});
  try {
    await client.connect();
    return await preparePostgres(client, address);
  } catch (error) {
    throw explainUnusable(address, error);
  } finally {
    await client.end().catch(() => {});
  }
}

/** COMMIT was sent and no answer came: the work is done, or not at all. Nobody may run it again but with its key. */
class UnknownFateError extends DatabaseLostError {
  override readonly name = 'UnknownFateError';
}

async function again<T>(step: () => Promise<T>, isWorthwhile: (error: unknown, tries: number) => boolean): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await step();
    } catch (error) {
      if (!isWorthwhile(error, tries)) throw error;
      if (tries === TRIES_MAX) throw isLostConnection(error) ? lost(error) : error;
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
function readOnce<T>(pool: Pool, work: (query: Query) => Promise<T>): Promise<T> {
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

interface Writer extends Required<PostgresOptions> {
  readonly pool: Pool;
  readonly schema: string;
}

/**
 * READ COMMITTED: what is read and then written upon is held by name first (`lock`), a row that two change is held by the
 * first, and each statement sees what was committed before it. So writes to different sessions never fail each other, and
 * those to one wait in line. What collides all the same, or loses its connection before COMMIT, is run again.
 */
async function writeUntilCommitted<T>(
  { pool, schema, onFault, onCommit }: Writer,
  work: (transaction: Transaction) => Promise<T>,
): Promise<T> {
  const { result, effects } = await again(
    () => writeOnce(pool, schema, work),
    (error, tries) => isCollision(error, tries) || isLostConnection(error),
  );
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
  pool: Pool,
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

async function withClient<T>(pool: Pool, work: (client: PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let fault: unknown;
  try {
    return await work(client);
  } catch (error) {
    fault = error;
    throw error;
  } finally {
    // One that failed in a way that says something about the connection, or about what it has prepared, is not used again.
    const isSpoilt = fault instanceof UnknownFateError || isLostConnection(fault) || isStalePlan(fault);
    client.release(isSpoilt);
  }
}
