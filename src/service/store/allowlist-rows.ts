import type { Query, Transaction } from './database.js';

/** True: it was not on the list before. */
export async function insertAllowlistEntry(
  transaction: Transaction,
  agentId: string,
  entry: string,
  createdAt: number,
): Promise<boolean> {
  const changed = await transaction.run(
    `INSERT INTO allowlist_entry (agent_id, entry, created_at) VALUES ($1, $2, $3)
     ON CONFLICT (agent_id, entry) DO NOTHING`,
    agentId,
    entry,
    createdAt,
  );
  return changed === 1;
}

/** False: there was none. */
export async function deleteAllowlistEntry(transaction: Transaction, agentId: string, entry: string): Promise<boolean> {
  return (
    (await transaction.run('DELETE FROM allowlist_entry WHERE agent_id = $1 AND entry = $2', agentId, entry)) === 1
  );
}

/** The whole list of an agent, sorted. */
export async function listAllowlistEntries(query: Query, agentId: string): Promise<string[]> {
  const rows = await query.all<{ entry: string }>(
    'SELECT entry FROM allowlist_entry WHERE agent_id = $1 ORDER BY entry',
    agentId,
  );
  return rows.map((row) => row.entry);
}

/** The next `limit` entries of an agent after a place, sorted. */
export async function listAllowlistPage(
  query: Query,
  agentId: string,
  after: string,
  limit: number,
): Promise<string[]> {
  const rows = await query.all<{ entry: string }>(
    'SELECT entry FROM allowlist_entry WHERE agent_id = $1 AND entry > $2 ORDER BY entry LIMIT $3',
    agentId,
    after,
    limit,
  );
  return rows.map((row) => row.entry);
}
