import { statSync } from 'node:fs';

import { keepToOwner } from './data-directory.js';
import { type SqliteConnection, sqliteCode } from './sqlite-driver.js';

const SQLITE_BUSY = 5;

/** One data directory has one owner. */
export class DataInUseError extends Error {
  override readonly name = 'DataInUseError';
}

export interface DataLock {
  /** Takes the lock again where its file was removed or replaced. Throws `DataInUseError` where another was faster. */
  keep(): void;
  release(): void;
}

/** Holds `path` until it is released or the process ends, however it ends: the kernel releases it (D-34). */
export function lockDataDirectory(
  openConnection: (path: string) => SqliteConnection,
  path: string,
  directory: string,
): DataLock {
  let held = take(openConnection, path, directory);
  return {
    keep() {
      if (fileAt(path) === held.file) return;
      keepToOwner(path);
      const next = take(openConnection, path, directory);
      held.connection.close();
      held = next;
    },
    release: () => held.connection.close(),
  };
}

function take(openConnection: (path: string) => SqliteConnection, path: string, directory: string) {
  const connection = openConnection(path);
  try {
    connection.exec('PRAGMA busy_timeout = 0');
    connection.exec('BEGIN EXCLUSIVE');
    return { connection, file: fileAt(path) };
  } catch (error) {
    connection.close();
    if (sqliteCode(error) === SQLITE_BUSY)
      throw new DataInUseError(`Another process is using the data in ${directory}.`, { cause: error });
    throw error;
  }
}

/** Which file a path leads to now; undefined: none. */
function fileAt(path: string): string | undefined {
  const facts = statSync(path, { bigint: true, throwIfNoEntry: false });
  return facts && `${facts.dev}:${facts.ino}`;
}
