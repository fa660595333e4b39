import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
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
  const name = `asp_test_${process.pid}_${randomBytes(6).toString('hex')}`;
  const url = new URL(databaseUrl);
  url.searchParams.set('search_path', name);
  return {
    url: url.href,
    async drop() {
      const client = new pg.Client({ connectionString: databaseUrl });
      await client.connect();
      await client.query('SET client_min_messages = warning');
      await client.query(`DROP SCHEMA IF EXISTS ${name} CASCADE`);
      await client.end();
    },
  };
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
  const schema = createSchema();
  const database = await openPostgres(schema.url, options);
  return {
    ...database,
    async close() {
      await database.close();
      await schema.drop();
    },
  };
}
