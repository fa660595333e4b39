import { join } from 'node:path';

import { DATABASE_FILE, LOCK_FILE, prepareDataDirectory } from './data-directory.js';
import type { Database, Query } from './database.js';
import { createGroupCommit, createTurns, type Turns } from './group-commit.js';
import { migrate } from './migrate.js';
import { loadSqlite, type SqliteConnection } from './sqlite-driver.js';
import { lockDataDirectory } from './sqlite-lock.js';
import { openQuery, type PreparedConnection, prepareOn } from './sqlite-query.js';
import { applySettings, assertSettings, readSettings } from './sqlite-settings.js';

export interface SqliteOptions {
  /** Told what an effect that waited for COMMIT has thrown. */
  readonly onFault?: (error: unknown) => void;
  /** Told how many writes shared each commit. */
  readonly onCommit?: (writes: number) => void;
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
    migrate(prepared.connection);
    const turns = createTurns();
    return compose({ prepared, turns }, { prepared, turns }, options, () => prepared.connection.close());
  }

  const { directory } = location;
  prepareDataDirectory(directory);
  const path = join(directory, DATABASE_FILE);
  const unlock = lockDataDirectory(openConnection, join(directory, LOCK_FILE), directory);
  const opened: SqliteConnection[] = [];
  const close = (): void => {
    for (const connection of opened.reverse()) connection.close();
    unlock();
  };
  try {
    opened.push(openWith(openConnection, path, false));
    const writer = prepareOn(opened[0] as SqliteConnection);
    migrate(writer.connection);
    opened.push(openWith(openConnection, path, false));
    const reader = prepareOn(opened[1] as SqliteConnection);
    reader.connection.exec('PRAGMA query_only = ON');
    return compose(
      { prepared: writer, turns: createTurns() },
      { prepared: reader, turns: createTurns() },
      options,
      close,
    );
  } catch (error) {
    close();
    throw error;
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
function compose(writer: Lane, reader: Lane, options: SqliteOptions, close: () => void): Database {
  const { onFault = () => {}, onCommit } = options;
  const commits = createGroupCommit(writer.prepared, writer.turns, onFault, onCommit);
  let closing: Promise<void> | undefined;
  const assertOpen = (): void => {
    if (closing !== undefined) throw new Error('The database is closed.');
  };
  return {
    isExclusive: true,
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
