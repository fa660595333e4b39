import type { Query, Transaction } from './database.js';
import type { SocketRow } from './socket-rows.js';

/** Says that this process lives. */
export async function putProcess(transaction: Transaction, processId: string, seenAt: number): Promise<void> {
  await transaction.run(
    `INSERT INTO server_process (id, seen_at) VALUES ($1, $2)
     ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at`,
    processId,
    seenAt,
  );
}

/** Sockets of other processes that were last seen before `goneBefore`. SQLite walks a cross join as it is written. */
export function listAbandonedSockets(
  query: Query,
  processId: string,
  goneBefore: number,
  limit: number,
): Promise<SocketRow[]> {
  return query.all<SocketRow>(
    `SELECT socket.* FROM server_process CROSS JOIN socket
     WHERE socket.process_id = server_process.id AND server_process.id <> $1 AND server_process.seen_at < $2 LIMIT $3`,
    processId,
    goneBefore,
    limit,
  );
}

/** Forgets processes that are gone and have no sockets left. */
export async function deleteGoneProcesses(
  transaction: Transaction,
  processId: string,
  goneBefore: number,
): Promise<void> {
  await transaction.run(
    `DELETE FROM server_process WHERE id <> $1 AND seen_at < $2
       AND NOT EXISTS (SELECT 1 FROM socket WHERE socket.process_id = server_process.id)`,
    processId,
    goneBefore,
  );
}
