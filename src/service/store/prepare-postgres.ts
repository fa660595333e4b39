import type { Client } from 'pg';
import { codeOf } from '../../kit/format.js';
import type { LogEnd } from '../core/bus.js';
import type { Query } from '../core/database.js';
import { OperatorError } from '../core/errors.js';
import type { DatabaseAddress } from './database-address.js';
import { SCHEMA_LOCK } from './lock-names.js';
import {
  listPending,
  MIGRATIONS,
  type Migration,
  missingData,
  SCHEMA_VERSION,
  VERSION_QUERY,
  VERSION_TABLE,
  type VersionRow,
  versionAfter,
} from './migrations.js';
import type { Driver } from './postgres-driver.js';
import { assertSettings, type PostgresSettings, readSettings } from './postgres-driver.js';
import { createQuery, lockNames } from './postgres-query.js';
import { schemaStatements } from './schema.js';

/** Created by another service at the same moment. */
const IS_THERE_NOW: readonly string[] = ['23505', '42P06'];
/** The errors of a pooler that gives each statement another connection. */
const PROTOCOL_VIOLATION = '08P01';
const POOLER_ANSWERS_WITHIN_MS = 5_000;

export interface PrepareOptions {
  /** Refuse an empty database instead of creating the schema. */
  readonly mustExist?: boolean | undefined;
  readonly migrations?: readonly Migration[];
}

/**
 * Checks that the database can be trusted, and creates its schema in one transaction if it is empty. Services that
 * start at the same time take turns, and only the first creates it. Returns the schema's name and warnings.
 */
export async function preparePostgres(
  driver: Driver,
  client: Client,
  { schema: wanted }: DatabaseAddress,
  { mustExist = false, migrations = MIGRATIONS }: PrepareOptions = {},
): Promise<{ readonly schema: string; readonly warnings: readonly string[] }> {
  if (!(await keepsSession(driver, client))) throw noSession();
  const query = createQuery((statement) => client.query(statement));
  if (wanted !== undefined) await client.query(`SET search_path = ${wanted}`);
  const found = await readSettings(query);
  if (wanted !== undefined && found.schema !== wanted) {
    if (mustExist) throw missingData(`the schema ${wanted} does not exist`);
    await makeSchema(client, wanted);
  }
  const settings = await readSettings(query);
  const schema = assertSettings(settings, wanted);
  await client.query('BEGIN');
  try {
    await lockNames(query, schema, [SCHEMA_LOCK], 'exclusive');
    const version = await findVersion(query);
    if (version === undefined && mustExist) throw missingData('it has no tables');
    if (version === undefined)
      await client.query([VERSION_TABLE, ...schemaStatements('postgres')].map(toPostgres).join(';\n'));
    else if (listPending(version, migrations).length > 0) throw mustMigrate(version.version, migrations);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {});
    throw error;
  }
  return { schema, warnings: await findWarnings(query, settings) };
}

/** Any user sees how many standbys there are, but not their state. */
const REPLICATION_QUERY = `SELECT (SELECT COUNT(*)::int FROM pg_stat_replication) AS standbys,
       current_setting('synchronous_standby_names') AS waits_for`;

/** Problems that a service can live with, but its operator should know about. */
async function findWarnings(query: Query, { autovacuum, synchronous_commit }: PostgresSettings): Promise<string[]> {
  const row = await query.get<{ standbys: number; waits_for: string }>(REPLICATION_QUERY);
  const { standbys = 0, waits_for: waitsFor = '' } = row ?? {};
  const isWaiting = waitsFor !== '' && synchronous_commit !== 'local';
  const why = waitsFor === '' ? 'synchronous_standby_names is empty' : 'synchronous_commit is local';
  const warnings: readonly (readonly [string, boolean])[] = [
    ['autovacuum is off in PostgreSQL: tables and indexes grow forever.', autovacuum !== 'on'],
    [
      `PostgreSQL acknowledges before its standbys have it (${why}): a failover can lose acknowledged messages.`,
      !isWaiting && (standbys > 0 || waitsFor !== ''),
    ],
  ];
  return warnings.filter(([, applies]) => applies).map(([text]) => text);
}

/** Undefined: the database is empty. */
export async function findVersion(query: Query): Promise<VersionRow | undefined> {
  const hasTable = await query.get("SELECT 1 AS found WHERE to_regclass('schema_version') IS NOT NULL");
  return hasTable === undefined ? undefined : query.get<VersionRow>(VERSION_QUERY);
}

/** Migrating large tables takes long, so that is done once and before the new services start. */
function mustMigrate(found: number, migrations: readonly Migration[]): OperatorError {
  return new OperatorError(
    'DATABASE_NOT_USABLE',
    `The database has schema version ${found}; this asp uses ${versionAfter(migrations)}. Run this first, with the ` +
      'same settings: asp serve migrate. Services of the older version can keep running in the meantime.',
  );
}

/**
 * Whether no pooler gives each transaction another connection: settings, prepared statements, locks and LISTEN
 * belong to a connection. While two others hold the connection that this one got, such a pooler must give it another.
 */
export async function keepsSession(driver: Driver, client: Client): Promise<boolean> {
  const before = await findProcess(client);
  const after = await driver.useClient(
    (second) =>
      driver.useClient(async (third) => {
        for (const other of [second, third]) await begin(driver, other);
        const now = await findProcess(client);
        for (const other of [second, third]) await other.query('ROLLBACK');
        return now;
      }, POOLER_ANSWERS_WITHIN_MS),
    POOLER_ANSWERS_WITHIN_MS,
  );
  return before === after;
}

export function noSession(cause?: unknown): OperatorError {
  return new OperatorError(
    'DATABASE_NOT_USABLE',
    'This database cannot be used: a pooler gives each transaction another connection. It must keep sessions (pool_mode = session).',
    cause,
  );
}

async function begin({ limits }: Driver, client: Client): Promise<void> {
  try {
    await client.query('BEGIN');
    await findProcess(client);
  } catch (error) {
    if (codeOf(error) === PROTOCOL_VIOLATION) throw noSession(error);
    if (!(error instanceof Error && error.message.startsWith('Query read timeout'))) throw error;
    throw new OperatorError(
      'DATABASE_NOT_USABLE',
      `This database cannot be used: it does not allow three connections at once. A service needs ${limits.connections}; a pooler must have ` +
        'that many for each service (default_pool_size), and keep sessions (pool_mode = session).',
      { cause: error },
    );
  }
}

async function findProcess(client: Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  return rows[0]?.pid ?? 0;
}

async function makeSchema(client: Client, schema: string): Promise<void> {
  try {
    await client.query(`CREATE SCHEMA IF NOT EXISTS ${schema}`);
  } catch (error) {
    if (!IS_THERE_NOW.includes(codeOf(error))) throw error;
  }
}

/** Text is sorted by its bytes, as in SQLite, regardless of the language of the database. */
export function toPostgres(statement: string): string {
  if (!/^(CREATE (UNLOGGED )?TABLE|ALTER TABLE \w+ ADD COLUMN) /.test(statement)) return statement;
  return statement.replace(/\bTEXT\b/g, 'TEXT COLLATE "C"');
}

/** The database's own time in epoch milliseconds, which is the same for all processes. */
const NOW = 'FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint';

/**
 * The transactions that write events. Each holds the lock of a writer on their table from before it takes a position
 * until everyone sees what it wrote, even while COMMIT waits for a standby. The locks are read after the snapshot.
 */
const WRITERS = `SELECT STRING_AGG(virtualtransaction, ' ') FROM pg_locks
       WHERE locktype = 'relation' AND relation = 'event'::regclass AND mode = 'RowExclusiveLock'
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

/**
 * Writes this process's heartbeat, in its own statement. Returns the time of the database, the processes that
 * have not stopped, and the end of the log.
 */
export async function reportProcess(
  query: Query,
  processId: string,
  seenAt: number,
): Promise<{ readonly now: number; readonly others: readonly string[]; readonly log: LogEnd }> {
  const row = await query.get<{ now: number; others: string | null; position: number | null; writers: string | null }>(
    `INSERT INTO server_process (id, seen_at, schema_version) VALUES ($1, $2, $3)
     ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at
     RETURNING ${NOW} AS now,
       (SELECT STRING_AGG(other.id, ' ') FROM server_process AS other WHERE other.id <> $1 AND other.seen_at > 0) AS others,
       (SELECT MAX(position) FROM event) AS position, (${WRITERS}) AS writers`,
    processId,
    seenAt,
    SCHEMA_VERSION,
  );
  const log = { position: row?.position ?? 0, writers: row?.writers?.split(' ') ?? [] };
  return { now: row?.now ?? 0, others: row?.others?.split(' ') ?? [], log };
}

/**
 * Whether it is this process's turn to do a chore: no other process has claimed it for `everyMs`, or only before the clock
 * was set back. `now` null: the database's own time.
 */
export async function takeTurn(query: Query, chore: string, everyMs: number, now: number | null): Promise<boolean> {
  const taken = await query.run(
    `INSERT INTO chore (name, taken_at) VALUES ($1, COALESCE($3::bigint, ${NOW}))
     ON CONFLICT (name) DO UPDATE SET taken_at = excluded.taken_at
       WHERE chore.taken_at <= excluded.taken_at - $2::bigint OR chore.taken_at > excluded.taken_at`,
    chore,
    Math.floor(everyMs),
    now,
  );
  return taken === 1;
}

/**
 * How many processes that reported within the last `forMs` expect a schema before `version`. Their clocks may be off by
 * half a minute.
 */
export async function countOlderProcesses(query: Query, version: number, forMs: number): Promise<number> {
  const row = await query.get<{ count: number }>(
    `SELECT COUNT(*)::int AS count FROM server_process WHERE schema_version < $1 AND seen_at > ${NOW} - $2::bigint`,
    version,
    forMs,
  );
  return row?.count ?? 0;
}
