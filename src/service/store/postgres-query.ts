import type { ClientBase } from 'pg';

import type { Query, SqlValue, Transaction } from './database.js';
import { encodeValue } from './stored-text.js';

interface Answer {
  readonly rows: unknown[];
  readonly rowCount: number | null;
}

/** Runs one statement with its parameters. */
export type Ask = (statement: { name: string; text: string; values: (string | number | null)[] }) => Promise<Answer>;

/** One name for each text, so that every connection prepares it once. The texts are those of this program. */
const nameOf = new Map<string, string>();

function nameFor(sql: string): string {
  const known = nameOf.get(sql);
  if (known !== undefined) return known;
  const name = `asp_${nameOf.size}`;
  nameOf.set(sql, name);
  return name;
}

export function createQuery(ask: Ask): Query {
  const run = (sql: string, parameters: readonly SqlValue[]): Promise<Answer> =>
    ask({
      name: nameFor(sql),
      text: sql,
      values: parameters.map(encodeValue),
    });
  return {
    dialect: 'postgres',
    all: async <Row>(sql: string, ...parameters: SqlValue[]) => (await run(sql, parameters)).rows as Row[],
    get: async <Row>(sql: string, ...parameters: SqlValue[]) => (await run(sql, parameters)).rows[0] as Row | undefined,
    run: async (sql, ...parameters) => (await run(sql, parameters)).rowCount ?? 0,
  };
}

/** Lasts until `end`: a query kept beyond its work must not slip into another's transaction. */
export function openQuery(client: ClientBase): { query: Query; end: () => void } {
  let isOver = false;
  const query = createQuery((statement) => {
    if (isOver) throw new Error('This query was kept beyond the work it was given to.');
    return client.query(statement);
  });
  const end = (): void => {
    isOver = true;
  };
  return { query, end };
}

const LOCK = {
  exclusive: 'pg_advisory_xact_lock',
  shared: 'pg_advisory_xact_lock_shared',
} as const;

/**
 * Locks by name live in the database as a whole, so a schema puts its own name before each. Everybody takes them in one
 * order, so that two who want several do not wait for each other.
 */
export async function lockNames(
  query: Query,
  schema: string,
  names: readonly string[],
  kind: keyof typeof LOCK,
): Promise<void> {
  const wanted = [...new Set(names)].sort().map((name) => `asp ${schema} ${name}`);
  if (wanted.length === 0) return;
  await query.all(
    `SELECT ${LOCK[kind]}(hashtextextended(name, 0)) AS held FROM json_array_elements_text($1::json) AS name`,
    JSON.stringify(wanted),
  );
}

/** Runs one work of a transaction that has begun; gives its result and the effects that wait for COMMIT. */
export async function runWork<T>(
  client: ClientBase,
  schema: string,
  work: (transaction: Transaction) => Promise<T>,
): Promise<{ result: T; effects: readonly (() => void)[] }> {
  const effects: (() => void)[] = [];
  const { query, end } = openQuery(client);
  const transaction: Transaction = {
    ...query,
    lock: (names, kind = 'exclusive') => lockNames(query, schema, names, kind),
    afterCommit: (effect) => effects.push(effect),
    async attempt(step) {
      const kept = effects.length;
      await client.query('SAVEPOINT step');
      try {
        const result = await step(transaction);
        await client.query('RELEASE SAVEPOINT step');
        return result;
      } catch (error) {
        effects.length = kept;
        await client.query('ROLLBACK TO SAVEPOINT step; RELEASE SAVEPOINT step');
        throw error;
      }
    },
  };
  try {
    return { result: await work(transaction), effects };
  } finally {
    end();
  }
}
