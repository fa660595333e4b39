import type { Query, Transaction } from './database.js';

/** A live socket. Rows of a process that is gone are removed by another one (process-rows.ts). */
export interface SocketRow {
  readonly id: string;
  readonly process_id: string;
  readonly agent_id: string;
  readonly grant_id: string;
  readonly opened_at: number;
}

export async function insertSocket(transaction: Transaction, row: SocketRow): Promise<void> {
  await transaction.run(
    'INSERT INTO socket (id, process_id, agent_id, grant_id, opened_at) VALUES ($1, $2, $3, $4, $5)',
    row.id,
    row.process_id,
    row.agent_id,
    row.grant_id,
    row.opened_at,
  );
}

export async function deleteSocket(transaction: Transaction, socketId: string): Promise<void> {
  await transaction.run('DELETE FROM socket WHERE id = $1', socketId);
}

export async function hasSocket(query: Query, agentId: string): Promise<boolean> {
  return (await query.get('SELECT 1 AS found FROM socket WHERE agent_id = $1 LIMIT 1', agentId)) !== undefined;
}
