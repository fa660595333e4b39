import type { Query, Transaction } from './database.js';

export interface BlockRow {
  /** Who blocks. */
  readonly agent_id: string;
  readonly blocked_handle: string;
  /** What the blocker was told; only the handle decides. */
  readonly blocked_agent_id: string;
  readonly created_at: number;
}

/** False: it is there already. */
export async function insertBlock(transaction: Transaction, row: BlockRow): Promise<boolean> {
  const changed = await transaction.run(
    `INSERT INTO block (agent_id, blocked_handle, blocked_agent_id, created_at) VALUES ($1, $2, $3, $4)
     ON CONFLICT (agent_id, blocked_handle) DO NOTHING`,
    row.agent_id,
    row.blocked_handle,
    row.blocked_agent_id,
    row.created_at,
  );
  return changed === 1;
}

export function findBlock(query: Query, agentId: string, blockedHandle: string): Promise<BlockRow | undefined> {
  return query.get<BlockRow>('SELECT * FROM block WHERE agent_id = $1 AND blocked_handle = $2', agentId, blockedHandle);
}

/** When the agent last blocked another; 0 if it blocks nobody. */
export async function findLatestBlockTime(query: Query, agentId: string): Promise<number> {
  const row = await query.get<{ latest: number | null }>(
    'SELECT MAX(created_at) AS latest FROM block WHERE agent_id = $1',
    agentId,
  );
  return row?.latest ?? 0;
}

/** By handle or by the id that the blocker was told; false: there is none. */
export async function deleteBlock(transaction: Transaction, agentId: string, blocked: string): Promise<boolean> {
  const changed = await transaction.run(
    'DELETE FROM block WHERE agent_id = $1 AND (blocked_handle = $2 OR blocked_agent_id = $2)',
    agentId,
    blocked,
  );
  return changed > 0;
}

/** The next `limit` after a place, the newest first. */
export function listBlockRows(
  query: Query,
  agentId: string,
  after: { readonly createdAt: number; readonly handle: string },
  limit: number,
): Promise<BlockRow[]> {
  return query.all<BlockRow>(
    `SELECT * FROM block
     WHERE agent_id = $1 AND (created_at < $2 OR (created_at = $2 AND blocked_handle < $3))
     ORDER BY created_at DESC, blocked_handle DESC LIMIT $4`,
    agentId,
    after.createdAt,
    after.handle,
    limit,
  );
}

/** Whether the agent blocks an owner, or any of that owner's agents. */
export async function blocksAnyOf(query: Query, agentId: string, owner: string): Promise<boolean> {
  const found = await query.get(
    'SELECT 1 AS found FROM block WHERE agent_id = $1 AND blocked_handle >= $2 AND blocked_handle < $3 LIMIT 1',
    agentId,
    `@${owner}.`,
    `@${owner}/`,
  );
  return found !== undefined;
}
