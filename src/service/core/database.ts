/** The possible values of a column or a parameter. Booleans are 0 or 1. */
export type SqlValue = string | number | null;

/** If the SQL of the two databases must differ, a row with this name holds the difference. */
export type Dialect = 'sqlite' | 'postgres';

/**
 * Reads and writes in one SQL for every database: `$1`, `$2` … stand for the parameters, and may repeat. They run in the order
 * of the calls; statements that do not wait for each other are pipelined.
 */
export interface Query {
  readonly dialect: Dialect;
  all<Row>(sql: string, ...parameters: SqlValue[]): Promise<Row[]>;
  get<Row>(sql: string, ...parameters: SqlValue[]): Promise<Row | undefined>;
  /** How many rows it changed. */
  run(sql: string, ...parameters: SqlValue[]): Promise<number>;
}

export interface Transaction extends Query {
  /**
   * Waits until no other write holds any of `names` (see lock-names.ts), and holds them until this one ends; `shared`
   * holders do not exclude each other. Later reads see what the previous holders committed. If writes are serialized
   * anyway, there is no wait.
   */
  lock(names: readonly string[], kind?: 'exclusive' | 'shared'): Promise<void>;
  /**
   * Runs a statement whose answer no caller needs, without waiting for it. If it fails, so does the step it belongs to, or the
   * whole write.
   */
  send(sql: string, ...parameters: SqlValue[]): void;
  /** Runs `effect` once this work is durable; never if it is rolled back. */
  afterCommit(effect: () => void): void;
  /**
   * A throw rolls back only `step`, including its effects, and is rethrown: a caller that catches it may continue to
   * write.
   */
  attempt<T>(step: (transaction: Transaction) => Promise<T>): Promise<T>;
}

/** `work` awaits only the query that it gets, and must be repeatable: a database may ask for a second try. */
export interface Work {
  read<T>(work: (query: Query) => Promise<T>): Promise<T>;
  /**
   * Resolves when the work is durable. A throw rolls back only this work, not work committed with it. Work that locks
   * only `holds` may share its commit with other work on every database.
   */
  write<T>(work: (transaction: Transaction) => Promise<T>, holds?: readonly string[]): Promise<T>;
}

const DELETED_PER_BATCH = 500;

/**
 * Deletes in batches small enough not to delay the writes between them, and returns the number of rows. `deleteSome`
 * deletes up to `limit` and returns how many it found.
 */
export async function deleteInBatches(
  database: Work,
  deleteSome: (transaction: Transaction, limit: number) => Promise<number>,
): Promise<number> {
  let deleted = 0;
  while (true) {
    const count = await database.write((transaction) => deleteSome(transaction, DELETED_PER_BATCH));
    deleted += count;
    if (count < DELETED_PER_BATCH) return deleted;
  }
}

export interface Database extends Work {
  /** Whether no other process can use the data. */
  readonly isExclusive: boolean;
  /** About how many rows background work reads or changes at once. */
  readonly pageRows: number;
  /** Ensures that no other process can use them from now on, either; absent if others may. Throws `DATA_IN_USE`. */
  keepLock?(): void;
  /** Why the latest writes failed; undefined while writes succeed. */
  writeFault(): unknown;
  /** The current epoch of the data, which changes when the data is restored. */
  epoch(): Epoch;
  /**
   * As `write`, for what means nothing once this process is gone: after a power failure it may never have happened.
   * Absent if that would save nothing.
   */
  writeVolatile?<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  /** For background work such as delivery. It does not wait behind requests, and requests do not wait behind it. */
  readonly behind: Work;
  /**
   * The estimated wait of a request that arrives now, in milliseconds, based on the queue. 0 while the database is
   * down: requests then wait for it to return, not for each other.
   */
  queueMs(): number;
  load(): DatabaseLoad;
  close(): Promise<void>;
}

/** How busy a database is right now. */
export interface DatabaseLoad {
  /** Calls that wait for a connection, or for their turn to commit. */
  readonly waiting: number;
  /** Its connections by what they are for; empty for a file. */
  readonly pools: Readonly<Record<string, PoolLoad>>;
}

export interface PoolLoad {
  readonly used: number;
  readonly idle: number;
  readonly max: number;
}

/** Why a call failed: no connection, a refusal, or a commit that got no answer and may be done. */
export type DatabaseFailure = 'lost' | 'refused' | 'unknown';

/** How much of a database one service may use. */
export interface PostgresLimits {
  /** All of its connections. */
  readonly connections: number;
  readonly statementTimeoutMs: number;
  /** Shorter than the statement timeout, so that a wait for a lock fails as such. */
  readonly lockTimeoutMs: number;
  /** How many rows background work reads or changes at once. */
  readonly pageRows: number;
}

export const DEFAULT_POSTGRES_LIMITS: PostgresLimits = {
  connections: 14,
  statementTimeoutMs: 15_000,
  lockTimeoutMs: 10_000,
  pageRows: 200,
};

/** A database that several services use at the same time. */
export interface SharedDatabase extends Database {
  /**
   * Calls `listener` when a new epoch has begun while the data is in use, for example after a failover. The returned
   * function stops it.
   */
  onNewEpoch(listener: () => void): () => void;
  /** Notices an epoch that another service has begun. */
  refreshEpoch(): Promise<void>;
  /** Single statements, each its own transaction, on connections that no transaction waits for. */
  readonly aside: Query;
  /**
   * Notifications to everyone who uses this database, including this process; those sent while a connection is down are
   * lost.
   */
  readonly calls: Calls;
}

export function isShared(database: Database): database is SharedDatabase {
  return 'aside' in database;
}

export interface Calls {
  send(text: string): Promise<void>;
  /** The returned function stops it. */
  listen(listener: (text: string) => void): () => void;
  /** Whether this process receives notifications, as far as it knows. */
  isUp(): boolean;
  /** Whether each connection that carries them is up, by its name. */
  lines(): Readonly<Record<string, boolean>>;
  /** Calls `listener` whenever that begins, and so whenever notifications may have been lost before. */
  onUp(listener: () => void): void;
}

/** The current epoch of the data. */
export interface Epoch {
  /** The token that clients keep next to their cursors and send back. Opaque to them. */
  readonly token: string;
  /** When the data was last restored; 0 if never. */
  readonly restoredAt: number;
}
