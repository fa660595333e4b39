import type { Query, Transaction } from '../core/database.js';
import { insertRow } from './sql.js';

/** Something that an operator did, or tried to do. */
export interface OperatorActionRow {
  /** In order of time. */
  readonly id: string;
  /** The account of the operator; empty: the command line on the machine of the service. */
  readonly operator_name: string;
  readonly operation: string;
  /** The thing that the action affected; may be empty. */
  readonly target: string;
  /** The fields that it set, as JSON. */
  readonly changes: string;
  /** `done`, or the code of an error; null: it has not finished, or was interrupted. */
  readonly outcome: string | null;
  readonly address: string;
  readonly browser_name: string;
  readonly created_at: number;
}

export async function insertOperatorAction(
  transaction: Transaction,
  row: Omit<OperatorActionRow, 'outcome'>,
): Promise<void> {
  await insertRow(transaction, 'operator_action', row, [
    'id',
    'operator_name',
    'operation',
    'target',
    'changes',
    'address',
    'browser_name',
    'created_at',
  ]);
}

export async function concludeOperatorAction(
  transaction: Transaction,
  id: string,
  { outcome, changes }: { readonly outcome: string; readonly changes: string },
): Promise<void> {
  await transaction.run('UPDATE operator_action SET outcome = $2, changes = $3 WHERE id = $1', id, outcome, changes);
}

/** The next `limit` before the one with `beforeId`, newest first. */
export function listOperatorActions(query: Query, beforeId: string, limit: number): Promise<OperatorActionRow[]> {
  return query.all<OperatorActionRow>(
    'SELECT * FROM operator_action WHERE id < $1 ORDER BY id DESC LIMIT $2',
    beforeId,
    limit,
  );
}

export function deleteOperatorActionsBefore(transaction: Transaction, epochMs: number): Promise<number> {
  return transaction.run('DELETE FROM operator_action WHERE created_at < $1', epochMs);
}
