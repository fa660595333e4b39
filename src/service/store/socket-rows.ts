import type { Query, Transaction } from './database.js';

/** A live socket. Rows of a process that is gone are removed by another one (process-rows.ts). */
export interface SocketRow {
  readonly id: string;
  readonly process_id: string;
  readonly agent_id: string;
  readonly grant_id: string;
  readonly opened_at: number;
  /** When it was told to close. */
  readonly revoked_at: number | null;
}

export async function insertSocket(transaction: Transaction, row: Omit<SocketRow, 'revoked_at'>): Promise<void> {
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

/** A socket and whose it is. */
export type SocketOfAgent = Pick<SocketRow, 'id' | 'agent_id'>;

/** Of this process, as the store knows them. They can be thousands. */
export function listSocketsOf(query: Query, processId: string): Promise<SocketOfAgent[]> {
  return query.all<SocketOfAgent>('SELECT id, agent_id FROM socket WHERE process_id = $1', processId);
}

export async function hasSocket(query: Query, agentId: string): Promise<boolean> {
  return (await query.get('SELECT 1 AS found FROM socket WHERE agent_id = $1 LIMIT 1', agentId)) !== undefined;
}

/** Tells the sockets that were opened with a grant to close. */
export async function markSocketsRevoked(transaction: Transaction, grantId: string, revokedAt: number): Promise<void> {
  await transaction.run(
    'UPDATE socket SET revoked_at = $2 WHERE grant_id = $1 AND revoked_at IS NULL',
    grantId,
    revokedAt,
  );
}

/** Sockets of a process that were told to close and are there still. */
export async function listRevokedSockets(query: Query, processId: string): Promise<string[]> {
  const rows = await query.all<{ id: string }>(
    'SELECT id FROM socket WHERE process_id = $1 AND revoked_at IS NOT NULL',
    processId,
  );
  return rows.map((row) => row.id);
}
