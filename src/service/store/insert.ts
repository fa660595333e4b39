import type { SqlValue, Transaction } from '../core/database.js';

/**
 * Inserts one row: these columns, by the members of `row` with their names. `conflict` is what follows `ON CONFLICT`.
 * Returns how many rows were written: 0 if a conflict was ignored.
 */
export function insertRow<Row extends { readonly [Name in keyof Row]: SqlValue }>(
  transaction: Transaction,
  table: string,
  row: Row,
  columns: readonly (keyof Row & string)[],
  conflict?: string,
): Promise<number> {
  const placeholders = columns.map((_, index) => `$${index + 1}`).join(', ');
  const rest = conflict === undefined ? '' : ` ON CONFLICT ${conflict}`;
  return transaction.run(
    `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${placeholders})${rest}`,
    ...columns.map((column) => row[column]),
  );
}
