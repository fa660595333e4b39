import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';

import { systemClock } from '../../kit/clock.js';
import { DATABASE_FILE, LOCK_FILE, prepareDataDirectory } from './data-directory.js';
import { type Database, DatabaseUnusableError, type Query } from './database.js';
import { type Epoch, openEpoch } from './epochs.js';
import { createGroupCommit, createTurns, type Turns } from './group-commit.js';
import { missingData, mustCreateSchema, schemaStatements, VERSION_TABLE } from './schema.js';
import { isDamage, loadSqlite, type SqliteConnection } from './sqlite-driver.js';
import { lockDataDirectory } from './sqlite-lock.js';
import { openQuery, type PreparedConnection, prepareOn } from './sqlite-query.js';
import { applySettings, assertSettings, readSettings } from './sqlite-settings.js';
import { damaged, hasTable } from './sqlite-snapshot.js';

export interface SqliteOptions {
  /** Told what an effect that waited for COMMIT has thrown. */
  readonly onFault?: (error: unknown) => void;
  /** Told how many writes shared each commit. */
  readonly onCommit?: (writes: number) => void;
  /** Refuse a folder without a database instead of creating one. */
  readonly mustExist?: boolean | undefined;
  /** How a connection is opened: by the driver, unless a test stands between. */
  readonly openConnection?: (path: string) => SqliteConnection;
}

/** The database in `directory`, which is made if need be, for this process alone; or one that lives in memory. */
export async function openSqlite(
  location: { readonly directory: string } | 'memory',
  options: SqliteOptions = {},
): Promise<Database> {
  const openConnection = options.openConnection ?? (await loadSqlite());
  if (location === 'memory') {
    const prepared = prepareOn(openWith(openConnection, ':memory:', true));
    prepareSchema(prepared.connection);
    const epoch = await openOwnEpoch(prepared);
    const turns = createTurns();
    return compose({ prepared, turns }, { prepared, turns }, epoch, options, () => prepared.connection.close());
  }

  const { directory } = location;
  const path = join(directory, DATABASE_FILE);
  if (options.mustExist === true && !existsSync(path)) throw missingData(`there is no ${path}`);
  prepareDataDirectory(directory);
  const lock = lockDataDirectory(openConnection, join(directory, LOCK_FILE), directory);
  const opened: SqliteConnection[] = [];
  const close = (): void => {
    const [writer, ...others] = opened;
    for (const connection of others) connection.close();
    if (writer !== undefined) emptyLog(writer);
    writer?.close();
    lock.release();
  };
  try {
    refuseMissingLog(path);
    opened.push(openWith(openConnection, path, false));
    const writer = prepareOn(opened[0] as SqliteConnection);
    if (statSync(path).size <= CHECKED_MAX_BYTES) checkPages(writer.connection, path);
    prepareSchema(writer.connection, options.mustExist);
    const epoch = await openOwnEpoch(writer);
    opened.push(openWith(openConnection, path, false));
    const reader = prepareOn(opened[1] as SqliteConnection);
    reader.connection.exec('PRAGMA query_only = ON');
    const composed = compose(
      { prepared: writer, turns: createTurns() },
      { prepared: reader, turns: createTurns() },
      epoch,
      options,
      close,
    );
    return { ...composed, keepLock: lock.keep };
  } catch (error) {
    close();
    throw isDamage(error) ? damaged(String(error), path) : error;
  }
}

/** SQLite keeps both beside a database in use: where one of them was left by a process that was killed, the other was, too. */
function refuseMissingLog(path: string): void {
  const [log, index] = [`${path}-wal`, `${path}-shm`];
  if (!existsSync(path) || existsSync(log) || !existsSync(index)) return;
  throw new DatabaseUnusableError(
    `${log} is missing, which holds what was written last. Nothing was changed. Put it back; if it is gone for good, ` +
      `delete ${index}, and start without what it held.`,
  );
}

/** Larger ones would hold up the start; a backup reads all of a database as well. */
const CHECKED_MAX_BYTES = 128 * 1024 * 1024;

function checkPages(connection: SqliteConnection, path: string): void {
  const [finding] = Object.values(connection.prepare('PRAGMA quick_check(1)').get() as object);
  if (finding !== 'ok') throw damaged(String(finding), path);
}

/** What a backup holds has another origin, so what is restored from one begins an epoch of its own. */
const ORIGIN = 'sqlite';

async function openOwnEpoch(prepared: PreparedConnection): Promise<Epoch> {
  const { query, end } = openQuery(prepared);
  prepared.prepare('BEGIN IMMEDIATE').run();
  try {
    const epoch = await openEpoch(query, ORIGIN, systemClock.now());
    prepared.prepare('COMMIT').run();
    return epoch;
  } catch (error) {
    if (prepared.connection.isTransaction) prepared.prepare('ROLLBACK').run();
    throw error;
  } finally {
    end();
  }
}

/**
 * A driver that leaves statements open leaves the write-ahead log behind, with all that was written since the last
 * checkpoint. After a stop the database is whole without it, for those who copy that one file.
 */
function emptyLog(connection: SqliteConnection): void {
  try {
    connection.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  } catch {
    // A full disk, say. The log stays, and the next start reads it.
  }
}

function openWith(
  openConnection: (path: string) => SqliteConnection,
  path: string,
  isMemory: boolean,
): SqliteConnection {
  const connection = openConnection(path);
  try {
    applySettings(connection);
    assertSettings(readSettings(connection), isMemory);
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

interface Lane {
  readonly prepared: PreparedConnection;
  readonly turns: Turns;
}

/** In memory, reader and writer are one connection and take turns, so that a read never sees what is not committed. */
function compose(writer: Lane, reader: Lane, epoch: Epoch, options: SqliteOptions, close: () => void): Database {
  const { onFault = () => {}, onCommit } = options;
  const commits = createGroupCommit(writer.prepared, writer.turns, onFault, onCommit);
  let closing: Promise<void> | undefined;
  const assertOpen = (): void => {
    if (closing !== undefined) throw new Error('The database is closed.');
  };
  return {
    isExclusive: true,
    writeFault: commits.fault,
    epoch: () => epoch,
    async read(work) {
      assertOpen();
      return reader.turns(() => readOnce(reader.prepared, work));
    },
    async write(work) {
      assertOpen();
      return commits.write(work);
    },
    close() {
      closing ??= commits
        .drain()
        .then(() => reader.turns(async () => {}))
        .then(close);
      return closing;
    },
  };
}

/** One snapshot for the whole of `work`. */
async function readOnce<T>(prepared: PreparedConnection, work: (query: Query) => Promise<T>): Promise<T> {
  const { query, end } = openQuery(prepared);
  prepared.prepare('BEGIN').run();
  try {
    return await work(query);
  } finally {
    end();
    if (prepared.connection.isTransaction) prepared.prepare('COMMIT').run();
  }
}

/** Creates the schema in an empty database, wholly or not at all. Throws for data of another version. */
export function prepareSchema(connection: SqliteConnection, mustExist = false): void {
  connection.exec(VERSION_TABLE);
  const row = connection.prepare('SELECT MAX(version) AS version FROM schema_version').get();
  const found = Number((row as { version: number | null }).version ?? 0);
  if (found === 0 && hasTable(connection, 'event')) throw damaged('it does not tell its version');
  if (!mustCreateSchema(found, mustExist)) return;
  connection.exec('BEGIN IMMEDIATE');
  try {
    for (const statement of schemaStatements('sqlite')) connection.exec(statement);
    connection.exec('COMMIT');
  } catch (error) {
    if (connection.isTransaction) connection.exec('ROLLBACK');
    throw error;
  }
}
