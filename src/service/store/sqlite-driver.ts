import { statSync } from 'node:fs';
import { OperatorError } from '../core/errors.js';
import { keepToOwner } from './data-directory.js';

/** The common part of `node:sqlite` and `@photostructure/sqlite`, as far as it is used. */
export interface SqliteConnection {
  readonly isTransaction: boolean;
  exec(sql: string): void;
  prepare(sql: string): SqliteStatement;
  close(): void;
}

export interface SqliteStatement {
  all(...parameters: (string | number | null)[]): unknown[];
  get(...parameters: (string | number | null)[]): unknown;
  run(...parameters: (string | number | null)[]): { readonly changes: number | bigint };
}

interface SqliteModule {
  readonly DatabaseSync: new (path: string) => SqliteConnection;
}

/** https://sqlite.org/rescode.html */
const SQLITE_CORRUPT = 11;
const SQLITE_NOTADB = 26;

/** SQLite's primary error code; undefined for any other error. */
function sqliteCode(error: unknown): number | undefined {
  return error instanceof Error && 'errcode' in error ? Number(error.errcode) % 256 : undefined;
}

/** Whether the file itself is damaged or not a SQLite database. */
export function isDamage(error: unknown): error is Error {
  const code = sqliteCode(error);
  return code === SQLITE_CORRUPT || code === SQLITE_NOTADB;
}

const SQLITE_FULL = 13;

export const isDiskFull = (error: unknown): boolean => sqliteCode(error) === SQLITE_FULL;

/** SQLite does not say which file it could not write: a full disk as the error of any other file. */
export function withFile(error: unknown, path: string): unknown {
  if (!isDiskFull(error)) return error;
  return Object.assign(new Error(`ENOSPC: ${path}`, { cause: error }), { code: 'ENOSPC', path });
}

const FIRST_NODE_WITH_SQLITE = 24;
/** A variable, so that neither the bundler nor the types of older Node.js versions look for it. */
const BUILT_IN: string = 'node:sqlite';

/** The database of the running Node.js if it has a safe one, otherwise the one that ships with this program. */
export async function loadSqlite(): Promise<(path: string) => SqliteConnection> {
  const module = await loadModule();
  return (path) => new module.DatabaseSync(path);
}

async function loadModule(): Promise<SqliteModule> {
  const [major = 0] = process.versions.node.split('.').map(Number);
  const builtInVersion = (process.versions as Readonly<Record<string, string | undefined>>)['sqlite'];
  if (major >= FIRST_NODE_WITH_SQLITE && builtInVersion !== undefined && isSafeSqlite(builtInVersion)) {
    const builtIn: SqliteModule = await import(BUILT_IN);
    return builtIn;
  }
  try {
    return await import('@photostructure/sqlite');
  } catch (error) {
    throw new OperatorError(
      'DATABASE_NOT_USABLE',
      'The SQLite library could not be loaded: install asp-cli with its optional packages, use Node.js 24 or newer, or give --database.',
      error,
    );
  }
}

/** False for versions that can corrupt a database in WAL mode when a checkpoint meets a writer (sqlite.org/wal.html, WAL-reset bug). */
export function isSafeSqlite(version: string): boolean {
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number);
  if (major !== 3) return major > 3;
  if (minor === 44) return patch >= 6;
  if (minor === 50) return patch >= 7;
  return minor > 51 || (minor === 51 && patch >= 3) || minor < 7;
}

const SQLITE_BUSY = 5;

export interface DataLock {
  /** Takes the lock again where its file was removed or replaced. Throws `DATA_IN_USE` where another was faster. */
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
      throw new OperatorError('DATA_IN_USE', `Another process is using the data in ${directory}.`, error);
    throw withFile(error, path);
  }
}

/** The file that a path leads to now; undefined: none. */
export function fileAt(path: string): string | undefined {
  const facts = statSync(path, { bigint: true, throwIfNoEntry: false });
  return facts && `${facts.dev}:${facts.ino}`;
}
