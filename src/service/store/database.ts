import type { Epoch } from './epochs.js';

/** What a column or a parameter can be. Booleans are 0 or 1. */
export type SqlValue = string | number | null;

/** Where the SQL of the two databases must differ, the difference is a row by this name. */
export type Dialect = 'sqlite' | 'postgres';

/** Reads and writes in one SQL for every database: `$1`, `$2` … stand for the parameters, and may repeat. */
export interface Query {
  readonly dialect: Dialect;
  all<Row>(sql: string, ...parameters: SqlValue[]): Promise<Row[]>;
  get<Row>(sql: string, ...parameters: SqlValue[]): Promise<Row | undefined>;
  /** How many rows it changed. */
  run(sql: string, ...parameters: SqlValue[]): Promise<number>;
}

export interface Transaction extends Query {
  /**
   * Waits until no other write holds any of `names` (see lock-names.ts), and holds them until this one is over; `shared`
   * holders bear each other. What is read afterwards is what the holders before have committed. Where writes take turns
   * anyway there is nothing to wait for.
   */
  lock(names: readonly string[], kind?: 'exclusive' | 'shared'): Promise<void>;
  /** Runs `effect` once this work is durable; never if it is rolled back. */
  afterCommit(effect: () => void): void;
  /** A throw rolls back `step` alone, its effects too, and is passed on: who catches it may go on writing. */
  attempt<T>(step: (transaction: Transaction) => Promise<T>): Promise<T>;
}

/** `work` awaits nothing but the query that it is given, and can be run again: a database may ask for a second try. */
export interface Database {
  /** Whether no other process can use the data. */
  readonly isExclusive: boolean;
  /** Sees to it that no other process can use them from now on either; absent where others may. Throws `DataInUseError`. */
  keepLock?(): void;
  /** Why what was written last is not kept; undefined while writes succeed. */
  writeFault(): unknown;
  /** The stretch of history that the data are in now; another one after they were restored. */
  epoch(): Epoch;
  read<T>(work: (query: Query) => Promise<T>): Promise<T>;
  /** Resolves when the work is durable. A throw rolls back this work alone, whatever was committed together with it. */
  write<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** A database that several services use at the same time. */
export interface SharedDatabase extends Database {
  /** Calls `listener` when another epoch has begun while the data are in use: after a failover, say. The answer stops it. */
  onNewEpoch(listener: () => void): () => void;
  /** Notices an epoch that somebody else has begun. */
  refreshEpoch(): Promise<void>;
  /** Single statements, each its own, on connections that no transaction waits for. */
  readonly aside: Query;
  /** Calls to all who use this database, this process among them; what is called while a line is down is lost. */
  readonly calls: Calls;
}

export function isShared(database: Database): database is SharedDatabase {
  return 'aside' in database;
}

export interface Calls {
  send(text: string): Promise<void>;
  /** The answer stops it. */
  listen(listener: (text: string) => void): () => void;
}

/** Why a database cannot be used, in words for whoever starts the service; they hold no secret. */
export class DatabaseUnusableError extends Error {
  override readonly name = 'DatabaseUnusableError';
}

/** The database cannot be reached or does not answer, and was asked often enough. */
export class DatabaseLostError extends Error {
  override readonly name: string = 'DatabaseLostError';
}
