import type { Client } from 'pg';
import { backoffMs, type Clock, wait } from '../../kit/clock.js';
import { codeOf } from '../../kit/format.js';
import { DEFAULT_POSTGRES_LIMITS, type Query, type SqlValue } from '../core/database.js';
import { OperatorError } from '../core/errors.js';
import { readDatabaseAddress } from './database-address.js';
import {
  fillStatements,
  listPending,
  type Migration,
  recordVersion,
  type Step,
  sqlOf,
  type VersionRow,
} from './migrations.js';
import { assertSettings, createDriver, explainUnusable, readSettings } from './postgres-driver.js';
import { createQuery, toLockName } from './postgres-query.js';
import { countOlderProcesses, findVersion, toPostgres } from './prepare-postgres.js';

const LOCK_NOT_AVAILABLE = '55P03';
/** A statement that waits for a table makes all later ones wait behind it, so it gives up soon. */
const TABLE_LOCK_TIMEOUT_MS = 500;
const TABLE_LOCK_TRIES = 120;
const TABLE_LOCK_PAUSE_MAX_MS = 2_000;
const OTHER_MIGRATION_POLL_MS = 500;
const FILLED_AT_ONCE = 2_000;
/** Longer than a service may go without a heartbeat, plus the offset of its clock. */
const ALIVE_FOR_MS = 60_000;

/** The data of services in a database. */
interface DataInPostgres {
  readonly client: Client;
  readonly query: Query;
  readonly schema: string;
  readonly version: VersionRow;
}

/** Connects to a database for `work`. Resolves to undefined if it has no data yet. */
export async function usePostgres<T>(url: string, work: (data: DataInPostgres) => Promise<T>): Promise<T | undefined> {
  const address = readDatabaseAddress(url);
  const { schema: wanted } = address;
  try {
    return await createDriver(address, DEFAULT_POSTGRES_LIMITS).useClient(async (client) => {
      const query = createQuery((statement) => client.query(statement));
      if (wanted !== undefined) await client.query(`SET search_path = ${wanted}`);
      const settings = await readSettings(query);
      if (wanted !== undefined && settings.schema !== wanted) return undefined;
      const schema = assertSettings(settings, wanted);
      const version = await findVersion(query);
      return version === undefined ? undefined : work({ client, query, schema, version });
    });
  } catch (error) {
    throw explainUnusable(address, error);
  }
}

/** How many running services are in the way of a migration: they cannot read what it leads to. */
export const countInTheWay = (query: Query, { readableFrom }: Migration): Promise<number> =>
  countOlderProcesses(query, readableFrom, ALIVE_FOR_MS);

export interface MigratePostgresOptions {
  readonly clock: Clock;
  readonly migrations: readonly Migration[];
  /** Called before each step. */
  readonly onStep: (to: number, step: Step) => void;
}

/**
 * Takes the steps that the data lacks while services use it. One program migrates at a time; the others wait, and find
 * nothing left to do. Throws if services are running that cannot go on.
 */
export async function migratePostgres(
  { client, query, schema }: DataInPostgres,
  { clock, migrations, onStep }: MigratePostgresOptions,
): Promise<void> {
  // A statement that waits for this lock would hold a snapshot, and an index that is being built waits for those.
  while (!(await tryLock(query, schema))) await wait(clock, OTHER_MIGRATION_POLL_MS);
  const version = await findVersion(query);
  const pending = version === undefined ? [] : listPending(version, migrations);
  for (const migration of pending) {
    const inTheWay = await countInTheWay(query, migration);
    if (inTheWay > 0) throw stopThemFirst(inTheWay, migration);
    for (const step of migration.steps) {
      onStep(migration.to, step);
      await takeStep(client, query, step, clock);
    }
    await client.query(recordVersion(migrations.filter(({ to }) => to <= migration.to)));
  }
}

/** The connection holds it until it closes. */
async function tryLock(query: Query, schema: string): Promise<boolean> {
  const name = toLockName(schema, 'migration');
  const row = await query.get<{ held: boolean }>('SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS held', name);
  return row?.held === true;
}

async function takeStep(client: Client, query: Query, step: Step, clock: Clock): Promise<void> {
  if (step.kind === 'index') return buildIndex(client, query, step);
  if (step.kind === 'fill') return fill(query, step, clock);
  const sql = sqlOf(step.sql, 'postgres');
  if (sql !== undefined) await change(client, toPostgres(sql), step.table, clock);
}

async function fill(query: Query, step: Step & { kind: 'fill' }, clock: Clock): Promise<void> {
  for (let after: SqlValue | undefined; ; ) {
    const startedAt = clock.monotonic();
    const statements = fillStatements(step, after === undefined);
    const before = after === undefined ? [] : [after];
    const page = await query.get<{ last: SqlValue }>(statements.findEnd, FILLED_AT_ONCE, ...before);
    const last = page?.last ?? null;
    if (last === null) return;
    await query.run(statements.fill, last, ...before);
    after = last;
    // Services get at least half of the database.
    await wait(clock, clock.monotonic() - startedAt);
  }
}

/** An index whose construction was interrupted stays behind, unusable. */
async function buildIndex(client: Client, query: Query, step: Step & { kind: 'index' }): Promise<void> {
  const broken = await query.get(
    'SELECT 1 AS found FROM pg_index WHERE indexrelid = to_regclass($1) AND NOT indisvalid',
    step.name,
  );
  if (broken !== undefined) await client.query(`DROP INDEX CONCURRENTLY ${step.name}`);
  await client.query(`CREATE INDEX CONCURRENTLY IF NOT EXISTS ${step.name} ON ${step.table} ${step.columns}`);
}

async function change(client: Client, sql: string, table: string, clock: Clock): Promise<void> {
  for (let tries = 1; ; tries += 1)
    try {
      await client.query(`BEGIN; SET LOCAL lock_timeout = ${TABLE_LOCK_TIMEOUT_MS}; ${sql}; COMMIT`);
      return;
    } catch (error) {
      await client.query('ROLLBACK').catch(() => {});
      if (codeOf(error) !== LOCK_NOT_AVAILABLE) throw error;
      if (tries === TABLE_LOCK_TRIES)
        throw new OperatorError(
          'DATABASE_NOT_USABLE',
          `A transaction has held the table ${table} for minutes. End it (see pg_stat_activity), and run this again.`,
          error,
        );
      await wait(clock, backoffMs(TABLE_LOCK_TIMEOUT_MS, tries, TABLE_LOCK_PAUSE_MAX_MS));
    }
}

function stopThemFirst(count: number, { to, readableFrom }: Migration): OperatorError {
  const they = count === 1 ? 'A service that uses' : `${count} services that use`;
  return new OperatorError(
    'DATABASE_NOT_USABLE',
    `${they} this database would fail after the migration to schema version ${to}, which needs services of version ` +
      `${readableFrom} or later. Upgrade or stop them, and run this again a minute later.`,
  );
}
