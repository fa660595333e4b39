import type { Query, SqlValue, Transaction } from './database.js';
import type { SqliteConnection, SqliteStatement } from './sqlite-driver.js';
import { decodeRow, encodeValue } from './stored-text.js';

const STATEMENTS_MAX = 400;

/** A connection and its prepared statements. */
export interface PreparedConnection {
  readonly connection: SqliteConnection;
  prepare(sql: string): SqliteStatement;
}

/** SQLite numbers `$1` by order of appearance; `?1` means the first parameter wherever it stands. */
export function toSqlite(sql: string): string {
  return sql.replace(/\$(\d+)/g, '?$1');
}

export function prepareOn(connection: SqliteConnection): PreparedConnection {
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

/** Lasts until `end`: a query kept beyond its work must not slip into another's transaction. */
export function openQuery(prepared: PreparedConnection): { query: Query; end: () => void } {
  let isOver = false;
  const statement = (sql: string): SqliteStatement => {
    if (isOver) throw new Error('This query was kept beyond the work it was given to.');
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

/** Runs one work of a running transaction in a savepoint of its own; gives its result and the effects that wait for COMMIT. */
export async function runStep<T>(
  prepared: PreparedConnection,
  work: (transaction: Transaction) => Promise<T>,
): Promise<{ result: T; effects: readonly (() => void)[] }> {
  const effects: (() => void)[] = [];
  const { query, end } = openQuery(prepared);
  const transaction: Transaction = {
    ...query,
    lock: async () => {},
    afterCommit: (effect) => effects.push(effect),
    async attempt(step) {
      const kept = effects.length;
      prepared.prepare('SAVEPOINT step').run();
      try {
        const result = await step(transaction);
        prepared.prepare('RELEASE step').run();
        return result;
      } catch (error) {
        effects.length = kept;
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
