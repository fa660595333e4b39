import type { Client } from 'pg';

import type { DatabaseAddress } from './database-address.js';
import { MIGRATION_LOCK } from './lock-names.js';
import { MIGRATIONS, pendingMigrations, statementsFor, VERSION_TABLE } from './migrate.js';
import type { Migration } from './migrations/migration.js';
import { codeOf } from './postgres-errors.js';
import { createQuery, lockNames } from './postgres-query.js';
import { assertSettings, readSettings } from './postgres-settings.js';

/** Made by another service in the same moment. */
const IS_THERE_NOW: readonly string[] = ['23505', '42P06'];

/**
 * Checks that the database can be trusted, and brings its schema up to the newest version, all of it in one transaction.
 * Services that start at the same time take turns, and only the first finds something to do. Gives the schema's name.
 */
export async function preparePostgres(
  client: Client,
  address: DatabaseAddress,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<string> {
  const query = createQuery((statement) => client.query(statement));
  const { schema: wanted } = address;
  const found = await readSettings(query);
  if (wanted !== undefined && found.schema !== wanted) await makeSchema(client, wanted);
  const schema = assertSettings(await readSettings(query));
  await client.query('BEGIN');
  try {
    await lockNames(query, schema, [MIGRATION_LOCK], 'exclusive');
    if ((await query.get("SELECT 1 AS found WHERE to_regclass('schema_version') IS NOT NULL")) === undefined)
      await client.query(VERSION_TABLE);
    const row = await query.get<{ version: number | null }>('SELECT MAX(version) AS version FROM schema_version');
    for (const migration of pendingMigrations(row?.version ?? 0, migrations)) {
      for (const statement of statementsFor('postgres', migration)) await client.query(toPostgres(statement));
      await query.run('INSERT INTO schema_version (version) VALUES ($1)', migration.version);
    }
    await client.query('COMMIT');
    return schema;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {});
    throw error;
  }
}

async function makeSchema(client: Client, schema: string): Promise<void> {
  try {
    await client.query(`CREATE SCHEMA IF NOT EXISTS ${schema}`);
  } catch (error) {
    if (!IS_THERE_NOW.includes(codeOf(error))) throw error;
  }
}

/** Text is ordered by its bytes, as SQLite does, whatever the language of the database. */
function toPostgres(statement: string): string {
  if (!/^CREATE (UNLOGGED )?TABLE/.test(statement)) return statement;
  return statement.replace(/\bTEXT\b/g, 'TEXT COLLATE "C"');
}
