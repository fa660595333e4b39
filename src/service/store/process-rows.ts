import type { Query, Transaction } from './database.js';

/** A service that uses these data. */
export interface ProcessRow {
  readonly id: string;
  /** When it last said that it lives, by its own clock; 0: it has stopped. */
  readonly seen_at: number;
}

/** Says that this process lives. */
export async function putProcess(transaction: Transaction, processId: string, seenAt: number): Promise<void> {
  await transaction.run(
    `INSERT INTO server_process (id, seen_at) VALUES ($1, $2)
     ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at`,
    processId,
    seenAt,
  );
}

export function listOtherProcesses(query: Query, processId: string): Promise<ProcessRow[]> {
  return query.all<ProcessRow>('SELECT id, seen_at FROM server_process WHERE id <> $1', processId);
}

/** Forgets it, unless it has said something since or has sockets left. */
export async function deleteGoneProcess(transaction: Transaction, { id, seen_at }: ProcessRow): Promise<void> {
  await transaction.run(
    `DELETE FROM server_process WHERE id = $1 AND seen_at = $2
       AND NOT EXISTS (SELECT 1 FROM socket WHERE socket.process_id = server_process.id)`,
    id,
    seen_at,
  );
}
