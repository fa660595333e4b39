import type { ClientBase } from 'pg';
import { codeOf } from '../../kit/format.js';
import type { Query, SqlValue, Transaction } from '../core/database.js';

/**
 * PostgreSQL refuses U+0000 in text, and SQLite's drivers end a text there, but JSON from others may contain one.
 * U+FDD0, which is a noncharacter, precedes a digit that says which one was meant.
 */
const MARK = '\uFDD0';

export function encodeValue(value: SqlValue): SqlValue {
  if (typeof value !== 'string' || !(value.includes('\0') || value.includes(MARK))) return value;
  return value.replaceAll(MARK, `${MARK}1`).replaceAll('\0', `${MARK}0`);
}

export function decodeText(text: string): string {
  if (!text.includes(MARK)) return text;
  return text.replace(/\uFDD0([01])/g, (_, digit) => (digit === '0' ? '\0' : MARK));
}

export function decodeRow<Row>(row: Row): Row {
  const columns = row as Record<string, unknown> | undefined;
  for (const name in columns) {
    const value = columns[name];
    if (typeof value === 'string' && value.includes(MARK)) columns[name] = decodeText(value);
  }
  return row;
}

interface Answer {
  readonly rows: unknown[];
  readonly rowCount: number | null;
}

/** Runs one statement with its parameters. */
export type Ask = (statement: { name: string; text: string; values: (string | number | null)[] }) => Promise<Answer>;

/** One name per text, so that every connection prepares it once. The texts come from this program only. */
const namesByText = new Map<string, string>();

function nameFor(sql: string): string {
  const known = namesByText.get(sql);
  if (known !== undefined) return known;
  const name = `asp_${namesByText.size}`;
  namesByText.set(sql, name);
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

/**
 * Valid until `end`: a query used after its work must not slip into another transaction. `onFailure` is called for
 * failed statements in the order in which PostgreSQL ran them.
 */
export function openQuery(
  client: ClientBase,
  onFailure: (error: unknown) => void = () => {},
): { query: Query; end: () => void } {
  let isOver = false;
  const query = createQuery((statement) => {
    if (isOver) throw new Error('This query was used after its work ended.');
    const answer = client.query(statement);
    answer.catch(onFailure);
    return answer;
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

/** All callers take locks in one order, so that two callers do not deadlock. */
export async function lockNames(
  query: Query,
  schema: string,
  names: readonly string[],
  kind: keyof typeof LOCK,
): Promise<void> {
  const wanted = [...new Set(names)].sort().map((name) => toLockName(schema, name));
  if (wanted.length === 0) return;
  await query.all(
    `SELECT ${LOCK[kind]}(hashtextextended(name, 0)) AS held FROM json_array_elements_text($1::json) AS name`,
    JSON.stringify(wanted),
  );
}

/** Takes these locks as far as they are free, without waiting. Returns the names that others hold. */
export async function tryNames(query: Query, schema: string, names: readonly string[]): Promise<ReadonlySet<string>> {
  const wanted = new Map(names.map((name) => [toLockName(schema, name), name]));
  const rows = await query.all<{ name: string }>(
    `SELECT name FROM json_array_elements_text($1::json) AS name
     WHERE NOT pg_try_advisory_xact_lock(hashtextextended(name, 0))`,
    JSON.stringify([...wanted.keys()]),
  );
  return new Set(rows.map(({ name }) => wanted.get(name) ?? name));
}

/** Named locks exist once per database, so a schema adds its own name as a prefix. */
export const toLockName = (schema: string, name: string): string => `asp ${schema} ${name}`;

/** What a work has done: its result, and the effects that wait for COMMIT. */
export interface Done<T> {
  readonly result: T;
  readonly effects: readonly (() => void)[];
  /** Why a statement that was not awaited has failed; checked once the connection has answered everything before it. */
  failure(): unknown;
}

export interface Committed<T> extends Done<T> {
  /** How long the database took to confirm it. */
  readonly commitMs: number;
}

/** A statement was refused because an earlier one of its transaction has failed. */
const isConsequence = (error: unknown): boolean => codeOf(error) === '25P02'; // in_failed_sql_transaction

/**
 * Runs one work of a transaction whose BEGIN was sent. Of several statements that failed, the first gives the reason,
 * whichever of them the work was waiting for.
 */
export async function runWork<T>(
  client: ClientBase,
  schema: string,
  work: (transaction: Transaction) => Promise<T>,
): Promise<Done<T>> {
  const effects: (() => void)[] = [];
  let failure: unknown;
  let first: unknown;
  // The end of a step can be refused before the statement that it is a consequence of has been noted.
  const note = (error: unknown): void => {
    failure ??= isConsequence(error) ? (first ?? error) : error;
  };
  const { query, end } = openQuery(client, (error) => {
    first ??= error;
  });
  const toReason = (error: unknown): unknown => failure ?? (isConsequence(error) ? first : undefined) ?? error;
  const transaction: Transaction = {
    ...query,
    lock: (names, kind = 'exclusive') => lockNames(query, schema, names, kind),
    send(sql, ...parameters) {
      query.run(sql, ...parameters).catch(note);
    },
    afterCommit: (effect) => effects.push(effect),
    async attempt(step) {
      const kept = effects.length;
      const [before, firstBefore] = [failure, first];
      client.query('SAVEPOINT step').catch(note);
      try {
        const result = await step(transaction);
        client.query('RELEASE SAVEPOINT step').catch(note);
        return result;
      } catch (error) {
        effects.length = kept;
        await client.query('ROLLBACK TO SAVEPOINT step; RELEASE SAVEPOINT step');
        const cause = toReason(error);
        [failure, first] = [before, firstBefore];
        throw cause;
      }
    },
  };
  try {
    return { result: await work(transaction), effects, failure: () => failure };
  } catch (error) {
    throw toReason(error);
  } finally {
    end();
  }
}
