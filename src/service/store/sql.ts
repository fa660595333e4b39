import type { Dialect, SqlValue, Transaction } from '../core/database.js';

/**
 * Inserts one row. The members of `row` are its columns. `conflict` is what follows `ON CONFLICT`.
 * Returns how many rows were written: 0 if a conflict was ignored.
 */
export function insertRow<Row extends { readonly [Name in keyof Row]: SqlValue }>(
  transaction: Transaction,
  table: string,
  row: Row,
  conflict?: string,
): Promise<number> {
  const columns = Object.keys(row);
  const placeholders = columns.map((_, index) => `$${index + 1}`).join(', ');
  const rest = conflict === undefined ? '' : ` ON CONFLICT ${conflict}`;
  return transaction.run(
    `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${placeholders})${rest}`,
    ...Object.values<SqlValue>(row),
  );
}

/** The values of a JSON list, each as `value`; each database has its own name for it. */
export function toValues(dialect: Dialect, list: string): string {
  return dialect === 'sqlite' ? `json_each(${list})` : `json_array_elements_text(${list}::json)`;
}

/** The pattern of texts that contain another, for LIKE with ESCAPE '!'. */
export function toContaining(text: string): string {
  return `%${text.toLowerCase().replace(/[!%_]/g, '!$&')}%`;
}

/** One row per record of a JSON array of objects. */
export function recordsIn(
  dialect: Dialect,
  list: string,
  columns: Readonly<Record<string, 'TEXT' | 'BIGINT'>>,
): string {
  const names = Object.entries(columns);
  if (dialect === 'postgres')
    return `json_to_recordset(${list}::json) AS asked (${names.map(([name, type]) => `${name} ${type}`).join(', ')})`;
  const extracted = names.map(([name]) => `json_extract(value, '$.${name}') AS ${name}`);
  return `(SELECT ${extracted.join(', ')} FROM json_each(${list})) AS asked`;
}

/**
 * Joins the event at a position of a queue, on PostgreSQL. OFFSET makes the planner look up each one: it knows nothing
 * about a queue that is empty most of the time, and would otherwise read all events up to that position.
 */
export function eventAt(position: string): string {
  return `CROSS JOIN LATERAL (SELECT * FROM event WHERE event.position = ${position} OFFSET 0) AS event`;
}
