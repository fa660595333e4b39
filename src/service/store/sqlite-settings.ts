import { isSafeSqlite, type SqliteConnection } from './sqlite-driver.js';

const BUSY_TIMEOUT_MS = 5000;
const FULL = 2;

/** What durability and integrity rest on, as the connection itself reports it. */
export interface SqliteSettings {
  readonly version: string;
  readonly journal_mode: string;
  readonly synchronous: number;
  readonly foreign_keys: number;
  readonly busy_timeout: number;
}

/** A commit is on the disk when it returns; readers do not wait for the writer; a file after a burst is cut back. */
const COMMON = [
  `PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`,
  'PRAGMA journal_mode = WAL',
  'PRAGMA synchronous = FULL',
  'PRAGMA fullfsync = ON',
  'PRAGMA checkpoint_fullfsync = ON',
  'PRAGMA foreign_keys = ON',
  'PRAGMA trusted_schema = OFF',
  'PRAGMA temp_store = MEMORY',
  'PRAGMA cache_size = -8192',
  'PRAGMA journal_size_limit = 16777216',
];

export function applySettings(connection: SqliteConnection): void {
  for (const pragma of COMMON) connection.prepare(pragma).all();
}

export function readSettings(connection: SqliteConnection): SqliteSettings {
  const value = (sql: string): unknown => Object.values(connection.prepare(sql).get() as object)[0];
  return {
    version: String(value('SELECT sqlite_version()')),
    journal_mode: String(value('PRAGMA journal_mode')),
    synchronous: Number(value('PRAGMA synchronous')),
    foreign_keys: Number(value('PRAGMA foreign_keys')),
    busy_timeout: Number(value('PRAGMA busy_timeout')),
  };
}

/** Throws unless the settings are those that the promises of durability rest on. Memory is never durable. */
export function assertSettings(settings: SqliteSettings, isMemory: boolean): void {
  if (!isSafeSqlite(settings.version))
    throw new Error(`SQLite ${settings.version} can corrupt data in WAL mode; 3.51.3 or later is needed.`);
  const wanted: readonly [string, boolean][] = [
    [`journal_mode is ${settings.journal_mode}, not wal`, isMemory || settings.journal_mode === 'wal'],
    [`synchronous is ${settings.synchronous}, not FULL`, isMemory || settings.synchronous === FULL],
    ['foreign_keys is off', settings.foreign_keys === 1],
    [`busy_timeout is ${settings.busy_timeout} ms`, settings.busy_timeout >= BUSY_TIMEOUT_MS],
  ];
  for (const [complaint, isMet] of wanted)
    if (!isMet) throw new Error(`The database did not take a setting that durable writes need: ${complaint}.`);
}
