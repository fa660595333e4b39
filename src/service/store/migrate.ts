import { DatabaseUnusableError, type Dialect } from './database.js';
import { initial } from './migrations/0001-initial.js';
import { search } from './migrations/0002-search.js';
import { serviceKey } from './migrations/0003-service-key.js';
import { severalProcesses } from './migrations/0004-several-processes.js';
import { revokedSockets } from './migrations/0005-revoked-sockets.js';
import { messageWords } from './migrations/0006-message-words.js';
import { localAccounts } from './migrations/0007-local-accounts.js';
import type { Migration } from './migrations/migration.js';
import type { SqliteConnection } from './sqlite-driver.js';

export const MIGRATIONS: readonly Migration[] = [
  initial,
  search,
  serviceKey,
  severalProcesses,
  revokedSockets,
  messageWords,
  localAccounts,
];

export const VERSION_TABLE = 'CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)';

/** Those that follow `current`; data that a newer program wrote is refused. */
export function pendingMigrations(current: number, migrations: readonly Migration[]): readonly Migration[] {
  const newest = migrations.at(-1)?.version ?? 0;
  if (current > newest)
    throw new DatabaseUnusableError(
      `The data was written by a newer asp (schema version ${current}; this one knows ${newest}). Upgrade asp, or choose other data.`,
    );
  return migrations.filter((migration) => migration.version > current);
}

/** What a migration says to one database. */
export function statementsFor(dialect: Dialect, migration: Migration): string[] {
  return migration.statements.flatMap((statement) => {
    const sql = typeof statement === 'string' ? statement : statement[dialect];
    return sql === undefined ? [] : [sql];
  });
}

/** Brings the schema up to the newest of `migrations`, each step wholly or not at all. */
export function migrate(connection: SqliteConnection, migrations: readonly Migration[] = MIGRATIONS): void {
  connection.exec(VERSION_TABLE);
  for (const migration of pendingMigrations(readVersion(connection), migrations)) apply(connection, migration);
}

function readVersion(connection: SqliteConnection): number {
  const row = connection.prepare('SELECT MAX(version) AS version FROM schema_version').get();
  return Number((row as { version: number | null }).version ?? 0);
}

function apply(connection: SqliteConnection, migration: Migration): void {
  connection.exec('BEGIN IMMEDIATE');
  try {
    for (const statement of statementsFor('sqlite', migration)) connection.exec(statement);
    connection.prepare('INSERT INTO schema_version (version) VALUES (?1)').run(migration.version);
    connection.exec('COMMIT');
  } catch (error) {
    if (connection.isTransaction) connection.exec('ROLLBACK');
    throw new Error(`The schema could not be brought to version ${migration.version}.`, { cause: error });
  }
}
