import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, unlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import pg from 'pg';

import type { Database, SharedDatabase } from '../../src/service/core/database.js';
import { openPostgres } from '../../src/service/store/postgres.js';
import { openSqlite } from '../../src/service/store/sqlite.js';
import { POSTGRES_URL } from './postgres-server.js';

export type StoreKind = 'memory' | 'file' | 'postgres';

/** The store under test. `npm test` runs store-dependent tests once for each kind (vitest.config.ts). */
export const TEST_STORE: 'memory' | 'postgres' = process.env['ASP_TEST_STORE'] === 'postgres' ? 'postgres' : 'memory';

export function isShared(database: Database): database is SharedDatabase {
  return 'aside' in database;
}

/** A schema for one test. Dropping it removes everything in it. */
export interface Schema {
  readonly url: string;
  drop(): Promise<void>;
}

export function createSchema(databaseUrl = POSTGRES_URL): Schema {
  const name = createName();
  return { url: toUrl(databaseUrl, name), drop: () => inDatabase(databaseUrl, (client) => dropSchema(client, name)) };
}

const createName = (): string => `asp_test_${process.pid}_${randomBytes(6).toString('hex')}`;

function toUrl(databaseUrl: string, name: string): string {
  const url = new URL(databaseUrl);
  url.searchParams.set('search_path', name);
  return url.href;
}

async function inDatabase(databaseUrl: string, work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query('SET client_min_messages = warning');
    await work(client);
  } finally {
    await client.end();
  }
}

async function dropSchema(client: pg.Client, name: string): Promise<void> {
  await client.query(`DROP SCHEMA IF EXISTS ${name} CASCADE`);
}

/**
 * A schema whose users are closed before it is dropped. It is emptied then, and used again: creating one takes longer
 * than most of the tests that need one. All processes of a run share the empty ones.
 */
export function takeSchema(): Schema {
  const name = takeEmptied() ?? createName();
  return {
    url: toUrl(POSTGRES_URL, name),
    drop: () => inDatabase(POSTGRES_URL, (client) => giveBack(client, name)),
  };
}

/** Each file in it is named like an empty schema. */
const EMPTIED = join(process.env['ASP_TEST_FOLDER'] ?? tmpdir(), 'emptied-schemas');

function takeEmptied(): string | undefined {
  if (!existsSync(EMPTIED)) return undefined;
  return readdirSync(EMPTIED).find((name) => {
    try {
      unlinkSync(join(EMPTIED, name));
      return true;
    } catch {
      // Another process took it.
      return false;
    }
  });
}

async function giveBack(client: pg.Client, name: string): Promise<void> {
  try {
    if (!(await emptySchema(client, name))) return;
  } catch {
    // A test changed it, or something still holds its tables and must not write into the next store.
    await dropSchema(client, name);
    return;
  }
  mkdirSync(EMPTIED, { recursive: true });
  writeFileSync(join(EMPTIED, name), '');
}

/** Leaves what a new schema has: its version and a secret. Returns false if it was never created. */
export async function emptySchema(client: pg.Client, name: string): Promise<boolean> {
  const { rows } = await client.query<{ name: string; kind: string; pages: number }>(
    `SELECT c.oid::regclass::text AS name, c.relkind AS kind, pg_relation_size(c.oid) / 8192 AS pages
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = $1 AND c.relkind IN ('r', 'S') AND c.relname <> 'schema_version'`,
    [name],
  );
  const tables = rows.filter(({ kind }) => kind === 'r');
  if (tables.length === 0) return false;
  if (!(await isUnchanged(client, name))) throw new Error(`a test changed the schema ${name} itself`);
  await client.query("SET lock_timeout = '2s'");
  // Without the triggers of foreign keys. TRUNCATE would make new files for each table, its partitions and their
  // indexes, which takes 50 times as long.
  await client.query('SET session_replication_role = replica');
  const used = tables.filter(({ pages }) => Number(pages) > 0);
  await client.query(used.map((table) => `DELETE FROM ${table.name}`).join(';'));
  await client.query('RESET session_replication_role');
  for (const table of used.filter(({ pages }) => Number(pages) > 32)) await client.query(`VACUUM ${table.name}`);
  for (const sequence of rows.filter(({ kind }) => kind === 'S'))
    await client.query(`ALTER SEQUENCE ${sequence.name} RESTART`);
  const secret = randomBytes(32).toString('base64url');
  await client.query(`INSERT INTO ${name}.service_key (secret) VALUES ($1)`, [secret]);
  return true;
}

/** Whether everything in the schema is from the transaction that created it. */
async function isUnchanged(client: pg.Client, name: string): Promise<boolean> {
  const { rows } = await client.query(
    `WITH own AS (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1)
     SELECT a.xmin::text FROM pg_attribute a WHERE a.attrelid IN (SELECT oid FROM own)
     UNION SELECT t.xmin::text FROM pg_trigger t WHERE t.tgrelid IN (SELECT oid FROM own)
     UNION SELECT k.xmin::text FROM pg_constraint k WHERE k.conrelid IN (SELECT oid FROM own)
     UNION SELECT p.xmin::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1`,
    [name],
  );
  return rows.length === 1;
}

/** Drops the schemas that are left when all tests are done. */
export async function dropEmptied(): Promise<void> {
  if (!existsSync(EMPTIED)) return;
  await inDatabase(POSTGRES_URL, async (client) => {
    for (let name = takeEmptied(); name !== undefined; name = takeEmptied()) await dropSchema(client, name);
  });
}

interface OpenOptions {
  readonly onFault?: (error: unknown) => void;
}

/** Opens a new, empty store of the kind under test. Closing it removes it. */
export function openTestStore(options: OpenOptions = {}): Promise<Database> {
  return openStore(TEST_STORE, options);
}

/** Opens a new, empty store. Closing it removes it. */
export async function openStore(kind: StoreKind, options: OpenOptions = {}): Promise<Database> {
  if (kind === 'postgres') return openSchema(options);
  if (kind === 'memory') return openSqlite('memory', options);
  const directory = mkdtempSync(join(tmpdir(), 'asp-store-'));
  const database = await openSqlite({ directory: join(directory, 'data') }, options);
  return {
    ...database,
    async close() {
      await database.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

async function openSchema(options: OpenOptions): Promise<SharedDatabase> {
  const schema = takeSchema();
  const database = await openPostgres(schema.url, options);
  return {
    ...database,
    async close() {
      await database.close();
      await schema.drop();
    },
  };
}
