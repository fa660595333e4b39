import type { Query, Transaction } from '../core/database.js';
import { SCHEMA_VERSION } from './migrations.js';
import { insertRow, toValues } from './sql.js';

/** A service that uses this data. */
export interface ProcessRow {
  readonly id: string;
  /** The time of its last heartbeat, by its own clock; 0: it has stopped. */
  readonly seen_at: number;
}

/** Writes the heartbeat of this process. */
export async function putProcess(transaction: Transaction, processId: string, seenAt: number): Promise<void> {
  await transaction.run(
    `INSERT INTO server_process (id, seen_at, schema_version) VALUES ($1, $2, $3)
     ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at`,
    processId,
    seenAt,
    SCHEMA_VERSION,
  );
}

/** Every process that uses this data, also those that have stopped or died. */
export function listProcessRows(query: Query): Promise<ProcessRow[]> {
  return query.all<ProcessRow>('SELECT id, seen_at FROM server_process');
}

/** Forgets it, unless it has a newer heartbeat or has sockets left. */
export async function deleteGoneProcess(transaction: Transaction, { id, seen_at }: ProcessRow): Promise<void> {
  await transaction.run(
    `DELETE FROM server_process WHERE id = $1 AND seen_at = $2
       AND NOT EXISTS (SELECT 1 FROM socket WHERE socket.process_id = server_process.id)`,
    id,
    seen_at,
  );
}

/** A live socket. If its process is gone, another process removes its row. */
export interface SocketRow {
  readonly id: string;
  readonly process_id: string;
  readonly agent_id: string;
  readonly grant_id: string;
  readonly opened_at: number;
  /** When it was marked to close. */
  readonly revoked_at: number | null;
}

export async function insertSocket(transaction: Transaction, row: Omit<SocketRow, 'revoked_at'>): Promise<void> {
  await insertRow(transaction, 'socket', row);
}

export async function deleteSockets(transaction: Transaction, socketIds: readonly string[]): Promise<void> {
  const ids = toValues(transaction.dialect, '$1');
  await transaction.run(
    `DELETE FROM socket WHERE id IN (SELECT each.value FROM ${ids} AS each)`,
    JSON.stringify(socketIds),
  );
}

/** A socket and its agent. */
export type SocketOfAgent = Pick<SocketRow, 'id' | 'agent_id'>;

/** The sockets of this process according to the store. There can be thousands. */
export function listSocketsOf(query: Query, processId: string): Promise<SocketOfAgent[]> {
  return query.all<SocketOfAgent>('SELECT id, agent_id FROM socket WHERE process_id = $1', processId);
}

export async function hasSocket(query: Query, agentId: string): Promise<boolean> {
  return (await query.get('SELECT 1 AS found FROM socket WHERE agent_id = $1 LIMIT 1', agentId)) !== undefined;
}

/** Marks the sockets that were opened with a grant to close. */
export async function markSocketsRevoked(transaction: Transaction, grantId: string, revokedAt: number): Promise<void> {
  await transaction.run(
    'UPDATE socket SET revoked_at = $2 WHERE grant_id = $1 AND revoked_at IS NULL',
    grantId,
    revokedAt,
  );
}

/** Sockets of a process that were marked to close and are still open. */
export async function listRevokedSockets(query: Query, processId: string): Promise<string[]> {
  const rows = await query.all<{ id: string }>(
    'SELECT id FROM socket WHERE process_id = $1 AND revoked_at IS NOT NULL',
    processId,
  );
  return rows.map((row) => row.id);
}
