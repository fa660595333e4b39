import type { SqliteConnection } from './sqlite-driver.js';

const SQLITE_BUSY = 5;

/** One data directory has one owner. */
export class DataInUseError extends Error {
  override readonly name = 'DataInUseError';
}

/** Holds `path` until the answer is called or the process ends, however it ends: the kernel releases it (D-34). */
export function lockDataDirectory(
  openConnection: (path: string) => SqliteConnection,
  path: string,
  directory: string,
): () => void {
  const connection = openConnection(path);
  try {
    connection.exec('PRAGMA busy_timeout = 0');
    connection.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    connection.close();
    if (error instanceof Error && 'errcode' in error && Number(error.errcode) % 256 === SQLITE_BUSY)
      throw new DataInUseError(`Another process is using the data in ${directory}.`, { cause: error });
    throw error;
  }
  return () => connection.close();
}
