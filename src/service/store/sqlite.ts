import { existsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../../kit/clock.js';
import { createMutex, type Mutex } from '../../kit/mutex.js';
import { isFileError } from '../../kit/private-file.js';
import type { Database, DatabaseFailure, Epoch, Query, SqlValue, Transaction, Work } from '../core/database.js';
import { OperatorError } from '../core/errors.js';
import { keepScope } from '../core/request-scope.js';
import { estimateWaitMs } from '../core/semaphore.js';
import { DATABASE_FILE, LOCK_FILE, prepareDataDirectory, UNFINISHED_FOLDER } from './data-directory.js';
import { openEpoch } from './epochs.js';
import {
  listPending,
  MIGRATIONS,
  type Migration,
  missingData,
  type PlannedStep,
  planSteps,
  recordVersion,
  type Step,
  sqlOf,
  VERSION_TABLE,
} from './migrations.js';
import { decodeRow, encodeValue } from './postgres-query.js';
import { schemaStatements } from './schema.js';
import {
  fileAt,
  isDamage,
  isDiskFull,
  isSafeSqlite,
  loadSqlite,
  lockDataDirectory,
  type SqliteConnection,
  type SqliteStatement,
  withFile,
} from './sqlite-driver.js';
import { damaged, findVersion, hasTable } from './sqlite-snapshot.js';

const STATEMENTS_MAX = 400;

/** A connection and its prepared statements. */
interface PreparedConnection {
  readonly connection: SqliteConnection;
  prepare(sql: string): SqliteStatement;
}

/** SQLite numbers `$1` by order of appearance; `?1` means the first parameter wherever it stands. */
export function toSqlite(sql: string): string {
  return sql.replace(/\$(\d+)/g, '?$1');
}

function prepareOn(connection: SqliteConnection): PreparedConnection {
  const statements = new Map<string, SqliteStatement>();
  return {
    connection,
    prepare(sql) {
      const known = statements.get(sql);
      if (known !== undefined) return known;
      if (statements.size >= STATEMENTS_MAX) statements.clear();
      const statement = connection.prepare(toSqlite(sql));
      statements.set(sql, statement);
      return statement;
    },
  };
}

/** Valid until `end`: a query used after its work must not slip into another transaction. */
function openQuery(prepared: PreparedConnection): { query: Query; end: () => void } {
  let isOver = false;
  const statement = (sql: string): SqliteStatement => {
    if (isOver) throw new Error('This query was used after its work ended.');
    return prepared.prepare(sql);
  };
  const query: Query = {
    dialect: 'sqlite',
    all: async <Row>(sql: string, ...parameters: SqlValue[]) =>
      (statement(sql).all(...parameters.map(encodeValue)) as Row[]).map(decodeRow),
    get: async <Row>(sql: string, ...parameters: SqlValue[]) =>
      decodeRow(statement(sql).get(...parameters.map(encodeValue)) as Row | undefined),
    run: async (sql, ...parameters) => Number(statement(sql).run(...parameters.map(encodeValue)).changes),
  };
  const end = (): void => {
    isOver = true;
  };
  return { query, end };
}

/**
 * Runs one piece of work in a savepoint of a running transaction; returns its result and the effects to run after
 * COMMIT.
 */
async function runStep<T>(
  prepared: PreparedConnection,
  work: (transaction: Transaction) => Promise<T>,
): Promise<{ result: T; effects: readonly (() => void)[] }> {
  const effects: (() => void)[] = [];
  /** For statements that were not awaited. */
  const failures: unknown[] = [];
  const { query, end } = openQuery(prepared);
  const transaction: Transaction = {
    ...query,
    lock: async () => {},
    send(sql, ...parameters) {
      query.run(sql, ...parameters).catch((error) => failures.push(error));
    },
    afterCommit: (effect) => effects.push(effect),
    async attempt(step) {
      const kept = effects.length;
      const before = failures.length;
      prepared.prepare('SAVEPOINT step').run();
      try {
        const result = await step(transaction);
        if (failures.length > before) throw failures[before];
        prepared.prepare('RELEASE step').run();
        return result;
      } catch (error) {
        effects.length = kept;
        failures.length = before;
        if (prepared.connection.isTransaction) {
          prepared.prepare('ROLLBACK TO step').run();
          prepared.prepare('RELEASE step').run();
        }
        throw error;
      }
    },
  };
  try {
    return { result: await transaction.attempt(work), effects };
  } finally {
    end();
  }
}

const WRITES_PER_COMMIT_MAX = 256;
const WAITING_WRITES_MAX = 10_000;

interface Waiting {
  readonly sinceMs: number;
  /** How many commits had begun when it came. */
  readonly commits: number;
  /** Whether a power failure may undo it. */
  readonly isVolatile: boolean;
  /** Runs the work; the returned function settles its caller once the outcome of the transaction is known. */
  run(): Promise<() => void>;
  fail(error: unknown): void;
}

interface GroupCommit {
  write<T>(work: (transaction: Transaction) => Promise<T>, isVolatile: boolean): Promise<T>;
  /** Why the last commit failed; undefined: it succeeded. */
  fault(): unknown;
  /** How long a write that comes now will wait for its commit. */
  waitMs(): number;
  /** How many writes wait for theirs. */
  waiting(): number;
  drain(): Promise<void>;
}

/**
 * Writes that arrive in one turn of the event loop share one transaction and one fsync. No caller gets an answer, not
 * even a refusal, before COMMIT has returned: a refusal may depend on what other work in the same transaction wrote.
 */
function createGroupCommit(prepared: PreparedConnection, turns: Mutex, options: ComposeOptions): GroupCommit {
  const { onFault = () => {}, onCommit = () => {}, onFailure = () => {}, onOutage = () => {} } = options;
  const waiting: Waiting[] = [];
  const setFlush = createFlush(prepared.connection);
  let running: Promise<void> | undefined;
  let fault: unknown;
  let commits = 0;

  const runAll = async (): Promise<void> => {
    while (waiting.length > 0) {
      await new Promise(setImmediate);
      const group = waiting.splice(0, WRITES_PER_COMMIT_MAX);
      commits += 1;
      const committed = await turns(() => commitTogether(prepared, setFlush, group, options.findMisplaced));
      const hasChanged = (fault === undefined) !== (committed.fault === undefined);
      fault = committed.fault;
      if (hasChanged) onOutage(fault);
      if (fault === undefined) onCommit(group.length, committed.ms);
      else onFailure('refused');
    }
    running = undefined;
  };

  return {
    write: (work, isVolatile) =>
      new Promise((resolve, reject) => {
        if (waiting.length >= WAITING_WRITES_MAX)
          return reject(new OperatorError('DATABASE_BUSY', 'Too many writes are waiting.'));
        waiting.push({
          sinceMs: systemClock.monotonic(),
          commits,
          isVolatile,
          // The group runs in the scope of its first member.
          run: keepScope(async () => {
            try {
              const { result, effects } = await runStep(prepared, work);
              return keepScope(() => {
                for (const effect of effects) runEffect(effect, onFault);
                resolve(result);
              });
            } catch (error) {
              return () => reject(error);
            }
          }),
          fail: reject,
        });
        running ??= runAll();
      }),
    fault: () => fault,
    waiting: () => waiting.length,
    waitMs() {
      const [first] = waiting;
      if (first === undefined) return 0;
      const firstWaitedMs = systemClock.monotonic() - first.sinceMs;
      const turnsAhead = Math.ceil(waiting.length / WRITES_PER_COMMIT_MAX);
      return estimateWaitMs({ firstWaitedMs, turnsSince: commits - first.commits, turnsAhead });
    },
    async drain() {
      await running;
    },
  };
}

/** Why it failed, if it did, or how long COMMIT took. */
async function commitTogether(
  prepared: PreparedConnection,
  setFlush: (wanted: Flush) => void,
  group: readonly Waiting[],
  findMisplaced: () => Error | undefined = () => undefined,
): Promise<{ readonly fault: unknown; readonly ms: number }> {
  const { connection } = prepared;
  let isCommitting = false;
  try {
    const misplaced = findMisplaced();
    if (misplaced !== undefined) throw misplaced;
    setFlush(group.every((member) => member.isVolatile) ? 'NORMAL' : 'FULL');
    prepared.prepare('BEGIN IMMEDIATE').run();
    const settlements: (() => void)[] = [];
    for (const member of group) {
      settlements.push(await member.run());
      if (!connection.isTransaction) throw new Error('The database rolled back the transaction.');
    }
    const before = systemClock.monotonic();
    isCommitting = true;
    prepared.prepare('COMMIT').run();
    const ms = systemClock.monotonic() - before;
    for (const settle of settlements) settle();
    return { fault: undefined, ms };
  } catch (cause) {
    rollBack(prepared);
    const [code, said] = isCommitting && !isDiskFull(cause) ? COMMIT_FAILED : NOT_COMMITTED;
    const reason = cause instanceof Error ? `: ${cause.message}` : '.';
    const fault = new OperatorError(code, `${said}${reason}`, cause);
    for (const member of group) member.fail(fault);
    return { fault, ms: 0 };
  }
}

const NOT_COMMITTED = ['DATABASE_BUSY', 'The write was not committed'] as const;
/** A disk that fails may have kept the write nevertheless. */
const COMMIT_FAILED = ['COMMIT_UNKNOWN', 'The write was not committed, as far as SQLite knows'] as const;

/** Whether a commit is flushed to the disk (FULL) or only written (NORMAL). */
type Flush = 'FULL' | 'NORMAL';

/** Changes it between transactions; throws inside one. A connection begins with FULL. */
function createFlush(connection: SqliteConnection): (wanted: Flush) => void {
  let flush: Flush = 'FULL';
  return (wanted) => {
    if (wanted === flush) return;
    connection.exec(`PRAGMA synchronous = ${wanted}`);
    flush = wanted;
  };
}

function rollBack(prepared: PreparedConnection): void {
  try {
    if (prepared.connection.isTransaction) prepared.prepare('ROLLBACK').run();
  } catch {
    // BEGIN of the next group fails while this transaction is open, so nothing is acknowledged or read in the meantime.
  }
}

function runEffect(effect: () => void, onFault: (error: unknown) => void): void {
  try {
    effect();
  } catch (error) {
    onFault(error);
  }
}

const BUSY_TIMEOUT_MS = 5000;
const FULL = 2;

/** Settings that durability and integrity depend on, as the connection reports them. */
export interface SqliteSettings {
  readonly version: string;
  readonly journal_mode: string;
  readonly synchronous: number;
  readonly foreign_keys: number;
  readonly busy_timeout: number;
}

/**
 * A commit is on disk when it returns; readers do not wait for the writer; the log file shrinks again after a burst.
 */
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

/** Throws unless the connection has the settings that durability depends on. Memory is never durable. */
export function assertSettings(settings: SqliteSettings, isMemory: boolean): void {
  if (!isSafeSqlite(settings.version))
    throw new Error(`SQLite ${settings.version} can corrupt data in WAL mode; 3.51.3 or later is required.`);
  const wanted: readonly [string, boolean][] = [
    [`journal_mode is ${settings.journal_mode}, not wal`, isMemory || settings.journal_mode === 'wal'],
    [`synchronous is ${settings.synchronous}, not FULL`, isMemory || settings.synchronous === FULL],
    ['foreign_keys is off', settings.foreign_keys === 1],
    [`busy_timeout is ${settings.busy_timeout} ms`, settings.busy_timeout >= BUSY_TIMEOUT_MS],
  ];
  for (const [complaint, isMet] of wanted)
    if (!isMet) throw new Error(`The database did not accept a setting that durable writes need: ${complaint}.`);
}

export interface SqliteOptions {
  /** Called with errors of effects that run after COMMIT. */
  readonly onFault?: (error: unknown) => void;
  /** Called with the number of writes in each commit, and how long it took. */
  readonly onCommit?: (writes: number, ms: number) => void;
  /** Called with the reason when commits begin to fail, and with undefined when they succeed again. */
  readonly onOutage?: (fault: unknown) => void;
  /** Called for each commit that failed. */
  readonly onFailure?: (failure: DatabaseFailure) => void;
  /** Refuse a folder without a database instead of creating one. */
  readonly mustExist?: boolean | undefined;
  readonly migrations?: readonly Migration[];
  /** How a connection is opened: by the driver, unless a test replaces it. */
  readonly openConnection?: (path: string) => SqliteConnection;
}

interface ComposeOptions extends SqliteOptions {
  /** Why writes would be lost, because the file of the database is no longer in its place. */
  readonly findMisplaced?: () => Error | undefined;
}

/** The database in `directory`, created if necessary, for this process alone; or one in memory. */
export async function openSqlite(
  location: { readonly directory: string } | 'memory',
  options: SqliteOptions = {},
): Promise<Database> {
  const openConnection = options.openConnection ?? (await loadSqlite());
  if (location === 'memory') {
    const prepared = prepareOn(openWith(openConnection, ':memory:', true));
    prepareSchema(prepared.connection);
    const epoch = await openOwnEpoch(prepared);
    const turns = createMutex();
    return compose({ prepared, turns }, { prepared, turns }, epoch, options, () => prepared.connection.close());
  }

  const { directory } = location;
  const path = join(directory, DATABASE_FILE);
  if (options.mustExist === true && !existsSync(path)) throw missingData(`there is no ${path}`);
  if (!existsSync(path) && existsSync(join(directory, UNFINISHED_FOLDER)))
    throw new OperatorError(
      'DATABASE_NOT_USABLE',
      `A backup was being restored into ${directory}, but not to the end. Restore it again, or use another folder.`,
    );
  prepareDataDirectory(directory);
  const lock = lockDataDirectory(openConnection, join(directory, LOCK_FILE), directory);
  const opened: SqliteConnection[] = [];
  const close = (): void => {
    const [writer, ...others] = opened;
    for (const connection of others) connection.close();
    if (writer !== undefined) emptyLog(writer, path);
    writer?.close();
    lock.release();
  };
  try {
    refuseMissingLog(path);
    opened.push(openWith(openConnection, path, false));
    const writer = prepareOn(opened[0] as SqliteConnection);
    if (statSync(path).size <= CHECKED_MAX_BYTES) checkPages(writer.connection, path);
    prepareSchema(writer.connection, options.mustExist, options.migrations);
    const epoch = await openOwnEpoch(writer);
    opened.push(openWith(openConnection, path, false));
    const reader = prepareOn(opened[1] as SqliteConnection);
    reader.connection.exec('PRAGMA query_only = ON');
    const composed = compose(
      { prepared: writer, turns: createMutex() },
      { prepared: reader, turns: createMutex() },
      epoch,
      { ...options, findMisplaced: watchPlace(path) },
      close,
    );
    return { ...composed, keepLock: lock.keep };
  } catch (error) {
    close();
    throw isDamage(error) ? damaged(error.message, path) : withFile(error, path);
  }
}

/**
 * A file that was removed or replaced is still open here, and takes writes that would be gone at the next start: a mount
 * that is over it, or a folder that was deleted by mistake. SQLite creates the log before the first write.
 */
function watchPlace(path: string): () => Error | undefined {
  const places = new Map([[path, fileAt(path)]]);
  const findFault = (file: string): Error | undefined => {
    const [found, expected] = [fileAt(file), places.get(file)];
    if (found === expected) return undefined;
    if (found === undefined) return new Error(`${file} is gone.`);
    if (expected !== undefined) return new Error(`${file} was replaced by another file.`);
    places.set(file, found);
    return undefined;
  };
  return () => {
    try {
      return findFault(path) ?? findFault(`${path}-wal`);
    } catch (error) {
      return isFileError(error, 'ENOTDIR') ? new Error(`${path} is gone.`) : undefined;
    }
  };
}

/** SQLite keeps both files next to a database in use: if a killed process left one of them, it also left the other. */
function refuseMissingLog(path: string): void {
  const [log, index] = [`${path}-wal`, `${path}-shm`];
  if (!existsSync(path) || existsSync(log) || !existsSync(index)) return;
  throw new OperatorError(
    'DATABASE_NOT_USABLE',
    `${log} is missing. It held the latest writes. Nothing was changed. Put it back; if it is gone for good, ` +
      `delete ${index}, and start without those writes.`,
  );
}

/** Checking larger databases would delay startup; a backup reads the whole database too. */
const CHECKED_MAX_BYTES = 128 * 1024 * 1024;

function checkPages(connection: SqliteConnection, path: string): void {
  const [finding] = Object.values(connection.prepare('PRAGMA quick_check(1)').get() as object);
  if (finding !== 'ok') throw damaged(String(finding), path);
}

/** The copy in a backup has a different origin, so restoring it begins a new epoch. */
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
 * A driver that leaves statements open leaves the write-ahead log behind, with everything that was written since the
 * last checkpoint. After a stop the database is complete without it, for people who copy only that file.
 */
function emptyLog(connection: SqliteConnection, path: string): void {
  try {
    const { busy } = connection.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get() as { readonly busy: number };
    // Someone has removed it, but nothing is missing: the next start must not refuse the data.
    if (busy === 0 && !existsSync(`${path}-wal`)) writeFileSync(`${path}-wal`, '', { mode: 0o600 });
  } catch {
    // For example a full disk. The log stays, and the next start reads it.
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
  readonly turns: Mutex;
}

const PAGE_ROWS = 200;

/** In memory, reader and writer are one connection and take turns, so that a read never sees uncommitted data. */
function compose(writer: Lane, reader: Lane, epoch: Epoch, options: ComposeOptions, close: () => void): Database {
  const commits = createGroupCommit(writer.prepared, writer.turns, options);
  const read = createSharedReads(reader);
  let closing: Promise<void> | undefined;
  const assertOpen = (): void => {
    if (closing !== undefined) throw new Error('The database is closed.');
  };
  const work: Work = {
    async read(work) {
      assertOpen();
      return read(work);
    },
    async write(work) {
      assertOpen();
      return commits.write(work, false);
    },
  };
  return {
    isExclusive: true,
    pageRows: PAGE_ROWS,
    writeFault: () => options.findMisplaced?.() ?? commits.fault(),
    epoch: () => epoch,
    queueMs: commits.waitMs,
    load: () => ({ waiting: commits.waiting(), pools: {} }),
    ...work,
    async writeVolatile(work) {
      assertOpen();
      return commits.write(work, true);
    },
    // One writer: all that waits for it shares its next commit.
    behind: work,
    close() {
      closing ??= commits
        .drain()
        .then(() => reader.turns(async () => {}))
        .then(close);
      return closing;
    },
  };
}

/**
 * Reads that wait for their turn share one snapshot, which begins after all of them have arrived: to begin and end one
 * costs as much as a small read.
 */
function createSharedReads({ prepared, turns }: Lane): Work['read'] {
  let waiting: (() => Promise<void>)[] = [];
  let hasBegun = false;

  const readAll = async (): Promise<void> => {
    const group = waiting;
    waiting = [];
    hasBegun = false;
    for (const read of group) await read();
    rollBack(prepared);
  };
  return (work) =>
    new Promise((resolve, reject) => {
      // The group runs in the scope of its first member.
      const read = keepScope(async () => {
        const { query, end } = openQuery(prepared);
        try {
          // An error can end it. It fails while an earlier one is still open.
          if (!hasBegun || !prepared.connection.isTransaction) prepared.prepare('BEGIN').run();
          hasBegun = true;
          resolve(await work(query));
        } catch (error) {
          reject(error);
        } finally {
          end();
        }
      });
      waiting.push(read);
      if (waiting.length === 1) void turns(readAll);
    });
}

/**
 * Creates the schema in an empty database, or migrates an older one: wholly or not at all. Throws for data that this
 * program can't use.
 */
export function prepareSchema(connection: SqliteConnection, mustExist = false, migrations = MIGRATIONS): void {
  connection.exec(VERSION_TABLE);
  const found = findVersion(connection);
  if (found === undefined && hasTable(connection, 'event')) throw damaged('it does not report its version');
  if (found === undefined && mustExist) throw missingData('it has no tables');
  const pending = found === undefined ? [] : listPending(found, migrations);
  if (found !== undefined && pending.length === 0) return;
  connection.exec('BEGIN IMMEDIATE');
  try {
    if (found === undefined) for (const statement of schemaStatements('sqlite')) connection.exec(statement);
    for (const step of pending.flatMap(({ steps }) => steps)) takeStep(connection, step);
    if (found !== undefined) connection.exec(recordVersion(migrations));
    connection.exec('COMMIT');
  } catch (error) {
    if (connection.isTransaction) connection.exec('ROLLBACK');
    throw error;
  }
}

function takeStep(connection: SqliteConnection, step: Step): void {
  const sql =
    step.kind === 'index'
      ? `CREATE INDEX ${step.name} ON ${step.table} ${step.columns}`
      : step.kind === 'fill'
        ? `UPDATE ${step.table} SET ${step.set} WHERE ${step.where}`
        : sqlOf(step.sql, 'sqlite');
  if (sql !== undefined) connection.exec(sql);
}

/** The version of a database file and the steps that it lacks, while a service may be using it. */
export async function planSqlite(
  file: string,
  migrations: readonly Migration[],
): Promise<{ readonly version: number | undefined; readonly steps: readonly PlannedStep[] }> {
  const prepared = prepareOn(openWith(await loadSqlite(), file, false));
  try {
    prepared.connection.exec('PRAGMA query_only = ON');
    if (!hasTable(prepared.connection, 'schema_version')) return { version: undefined, steps: [] };
    const found = findVersion(prepared.connection);
    if (found === undefined) return { version: undefined, steps: [] };
    return {
      version: found.version,
      steps: await planSteps(openQuery(prepared).query, listPending(found, migrations)),
    };
  } finally {
    prepared.connection.close();
  }
}
