import type { FileHandle } from 'node:fs/promises';

import type { AttachmentFiles } from '../../../src/service/core/attachment-store.js';
import type { Bus } from '../../../src/service/core/bus.js';
import type {
  Calls,
  Database,
  Query,
  SharedDatabase,
  SqlValue,
  Transaction,
  Work,
} from '../../../src/service/core/database.js';
import type { RateLimits } from '../../../src/service/core/rate-limits.js';
import { DATABASE_FILE } from '../../../src/service/store/data-directory.js';
import type { SqliteConnection, SqliteStatement } from '../../../src/service/store/sqlite-driver.js';
import type { Life, World } from './world.js';

const STATEMENT_PAUSE = 0.03;
const LATE_MS = 2_500;

interface DriverEvents {
  /** Called right after a commit, before anyone learns of it. */
  committed(): void;
  /** Makes the process die here. */
  crash(): void;
  /** Whether other processes use the database too. A successful commit then counts even if this process dies. */
  readonly isShared?: boolean;
}

type Open = (path: string) => SqliteConnection;

/** An error from an injected fault. */
class InjectedFault extends Error {
  override readonly name = 'InjectedFault';
}

export function isInjected(error: unknown): boolean {
  return (
    error instanceof InjectedFault || (error instanceof Error && error.cause !== undefined && isInjected(error.cause))
  );
}

const dead = (): Error => new InjectedFault('This process is dead.');

/** Wraps the real driver. Its disk can fail, and its process can die before and after each commit. */
export function faultyDriver(world: World, life: Life, open: Open, events: DriverEvents): Open {
  let opened = 0;
  return (path) => {
    if (life.isDead) throw dead();
    const real = open(path);
    // The service writes over the first connection to its database and reads over the second.
    const isWriter = path.endsWith(DATABASE_FILE) && ++opened === 1;
    const assertAlive = (): void => {
      if (life.isDead) throw dead();
    };
    return {
      get isTransaction() {
        return real.isTransaction;
      },
      exec: (sql) => {
        assertAlive();
        real.exec(sql);
      },
      prepare: (sql) => {
        assertAlive();
        const statement = real.prepare(sql);
        if (isWriter && sql === 'COMMIT') return faultyCommit(world, real, statement, events, assertAlive);
        return guarded(statement, () => {
          assertAlive();
          if (isWriter && /^(?:INSERT|UPDATE|DELETE)/.test(sql) && world.fires('disk error'))
            throw new InjectedFault('disk I/O error');
        });
      },
      close: () => {
        // Connections of a dead process are closed when it is cleared away.
        if (!life.isDead) real.close();
      },
    };
  };
}

function guarded(statement: SqliteStatement, before: () => void): SqliteStatement {
  return {
    all: (...parameters) => {
      before();
      return statement.all(...parameters);
    },
    get: (...parameters) => {
      before();
      return statement.get(...parameters);
    },
    run: (...parameters) => {
      before();
      return statement.run(...parameters);
    },
  };
}

function faultyCommit(
  world: World,
  connection: SqliteConnection,
  statement: SqliteStatement,
  { committed, crash, isShared = false }: DriverEvents,
  assertAlive: () => void,
): SqliteStatement {
  return {
    ...guarded(statement, assertAlive),
    run: () => {
      assertAlive();
      if (world.fires('crash before commit')) {
        crash();
        throw dead();
      }
      if (world.fires('commit failed')) {
        // Some failures end the transaction, others leave that to the caller.
        if (world.chance(0.5)) connection.prepare('ROLLBACK').run();
        throw new InjectedFault('database or disk is full');
      }
      const result = statement.run();
      committed();
      if (world.fires('crash after commit')) {
        crash();
        if (!isShared) throw dead();
      }
      return result;
    },
  };
}

/** Makes each read and write wait for its turn, and sometimes each of their statements. */
export function scheduledDatabase(world: World, life: Life, real: Database): Database {
  const pausing = <Part extends Query>(query: Part): Part => {
    const paused = async <T>(run: () => Promise<T>): Promise<T> => {
      if (!world.isCalm && world.chance(STATEMENT_PAUSE)) await world.turn('statement', life);
      return run();
    };
    return {
      ...query,
      all: (sql: string, ...parameters: (string | number | null)[]) => paused(() => query.all(sql, ...parameters)),
      get: (sql: string, ...parameters: (string | number | null)[]) => paused(() => query.get(sql, ...parameters)),
      run: (sql: string, ...parameters: (string | number | null)[]) => paused(() => query.run(sql, ...parameters)),
    };
  };
  const scheduled: Work = {
    async read(work) {
      await world.turn('read', life);
      return real.read((query) => work(pausing(query)));
    },
    async write(work) {
      await world.turn('write', life);
      return real.write((transaction) => {
        const wrapped: Transaction = {
          ...pausing(transaction),
          attempt: (step) => transaction.attempt(() => step(wrapped)),
        };
        return work(wrapped);
      });
    },
  };
  return {
    isExclusive: real.isExclusive,
    pageRows: real.pageRows,
    writeFault: real.writeFault,
    epoch: real.epoch,
    queueMs: real.queueMs,
    load: real.load,
    ...scheduled,
    behind: scheduled,
    close: () => real.close(),
  };
}

/** What several processes share, as they would share PostgreSQL: a database and notifications. */
export interface SharedStore {
  readonly database: Database;
  readonly limits: RateLimits;
  readonly listeners: Set<(text: string) => void>;
}

/** Translates statements that only PostgreSQL knows. While this database runs one, no one else is writing. */
function toSqlite(sql: string, now: number): string {
  return sql
    .replace(/\(SELECT STRING_AGG\(virtualtransaction.*\) AS writers/s, 'NULL AS writers')
    .replaceAll(/FLOOR\(EXTRACT\(EPOCH FROM clock_timestamp\(\)\) \* 1000\)::bigint/g, String(Math.floor(now)))
    .replaceAll('::bigint', '');
}

/** Gives one process its view of the shared database. Transactions of a dead process roll back without effect. */
export function sharedDatabase(world: World, life: Life, { database, listeners }: SharedStore): SharedDatabase {
  const alive = async <T>(label: string, go: () => Promise<T>): Promise<T> => {
    await world.turn(label, life);
    return go();
  };
  const asserted = <Part extends Query>(query: Part): Part => {
    const assertAlive = async <T>(run: () => Promise<T>): Promise<T> => {
      if (!world.isCalm && world.chance(STATEMENT_PAUSE)) await world.turn('statement');
      if (life.isDead) throw dead();
      return run();
    };
    return {
      ...query,
      all: (sql: string, ...parameters: SqlValue[]) => assertAlive(() => query.all(sql, ...parameters)),
      get: (sql: string, ...parameters: SqlValue[]) => assertAlive(() => query.get(sql, ...parameters)),
      run: (sql: string, ...parameters: SqlValue[]) => assertAlive(() => query.run(sql, ...parameters)),
    };
  };
  const transactionOf = (transaction: Transaction): Transaction => ({
    ...asserted(transaction),
    afterCommit: (effect) =>
      transaction.afterCommit(() => {
        if (!life.isDead) effect();
      }),
    attempt: (step) => transaction.attempt((inner) => step(transactionOf(inner))),
  });
  const work: Work = {
    read: (step) => alive('read', () => database.read((query) => step(asserted(query)))),
    write: (step, holds) =>
      alive('write', () => database.write((transaction) => step(transactionOf(transaction)), holds)),
  };
  const once = <T>(go: (transaction: Transaction) => Promise<T>): Promise<T> =>
    alive('aside', () => database.write((transaction) => go(transaction)));
  const aside: Query = {
    dialect: 'sqlite',
    all: (sql, ...parameters) => once((query) => query.all(toSqlite(sql, world.now), ...parameters)),
    get: (sql, ...parameters) => once((query) => query.get(toSqlite(sql, world.now), ...parameters)),
    // This database does not store the limits.
    run: async (sql, ...parameters) =>
      sql.includes('rate_budget') ? 0 : once((query) => query.run(toSqlite(sql, world.now), ...parameters)),
  };
  return {
    isExclusive: false,
    pageRows: database.pageRows,
    writeFault: () => undefined,
    epoch: database.epoch,
    onNewEpoch: () => () => {},
    refreshEpoch: async () => {},
    queueMs: () => 0,
    load: database.load,
    ...work,
    behind: work,
    aside,
    calls: scheduledCalls(world, life, listeners),
    close: async () => {},
  };
}

/** Delivers notifications between processes late, twice, or not at all. The sender does not notice. */
function scheduledCalls(world: World, life: Life, listeners: Set<(text: string) => void>): Calls {
  const clock = world.clockOf({ isDead: false });
  return {
    async send(text) {
      if (life.isDead || world.fires('bell lost')) return;
      for (const listener of listeners) {
        const arrive = (): void => world.later('bell', () => listener(text));
        if (world.fires('bell late')) clock.schedule(LATE_MS, arrive);
        else arrive();
        if (world.fires('bell doubled')) arrive();
      }
    },
    listen(listener) {
      const hear = (text: string): void => {
        if (!life.isDead) listener(text);
      };
      listeners.add(hear);
      return () => listeners.delete(hear);
    },
    isUp: () => true,
    lines: () => ({}),
    onUp: () => {},
  };
}

/** Delivers notifications after the commit: late, out of order, twice, or not at all. */
export function scheduledBus(world: World, life: Life, real: Bus): Bus {
  const clock = world.clockOf({ isDead: false });
  const later = (pass: () => void): void => world.later('bell', pass, life);
  return {
    ...real,
    isReliable: false,
    watchLosses: () => () => true,
    notify(signal) {
      if (life.isDead) return;
      const pass = (): void => real.notify(signal);
      if (world.fires('bell lost')) return;
      if (world.fires('bell late')) {
        clock.schedule(LATE_MS, () => {
          if (!life.isDead) pass();
        });
        return;
      }
      later(pass);
      if (world.fires('bell doubled')) later(pass);
    },
  };
}

/** Makes each file operation wait for its turn. Writes can fail. `opened` holds the open files. */
export function scheduledFiles(
  world: World,
  life: Life,
  real: AttachmentFiles,
  opened: Set<FileHandle>,
): AttachmentFiles {
  const touch = async <T>(work: () => Promise<T>, canFail: boolean): Promise<T> => {
    await world.turn('file', life);
    if (canFail && world.fires('file error')) throw new InjectedFault('no space left on device');
    return world.outside(work());
  };
  const handleOf = (handle: FileHandle): FileHandle => {
    opened.add(handle);
    return new Proxy(handle, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name, target);
        if (typeof member !== 'function') return member;
        const canFail = name === 'writeFile' || name === 'sync';
        return (...given: unknown[]) =>
          touch(() => {
            if (name === 'close') opened.delete(handle);
            return Promise.resolve(Reflect.apply(member, target, given));
          }, canFail);
      },
    });
  };
  return {
    create: async (id) => handleOf(await touch(() => real.create(id), true)),
    keep: (id) => touch(() => real.keep(id), true),
    open: async (id) => {
      const handle = await touch(() => real.open(id), false);
      return handle && handleOf(handle);
    },
    openHere: async (id) => {
      const handle = await touch(() => real.openHere(id), false);
      return handle && handleOf(handle);
    },
    remove: (id) => touch(() => real.remove(id), true),
    release: (id) => real.release(id),
    list: () => touch(() => real.list(), false),
    discard: (id, now) => touch(() => real.discard(id, now), true),
    restore: (id) => touch(() => real.restore(id), true),
    listTrash: () => touch(() => real.listTrash(), false),
    removeFromTrash: (id) => touch(() => real.removeFromTrash(id), true),
    readIdentity: () => touch(() => real.readIdentity(), false),
    claim: (identity) => touch(() => real.claim(identity), true),
    close: () => touch(() => real.close(), false),
  };
}
