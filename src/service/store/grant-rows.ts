import type { Query, Transaction } from './database.js';

interface IdRow {
  readonly id: string;
}

/** Ends every way to get tokens for an agent, and gives the ids of the grants that were revoked by it. */
export async function revokeGrantsOfAgent(
  transaction: Transaction,
  agent: { readonly id: string; readonly accountId: string },
  revokedAt: number,
): Promise<string[]> {
  await transaction.run('DELETE FROM authorization_code WHERE agent_id = $1 AND used_at IS NULL', agent.id);
  const families = await transaction.all<IdRow>(
    `UPDATE refresh_family SET revoked_at = $3 WHERE account_id = $1 AND agent_id = $2 AND revoked_at IS NULL
     RETURNING id`,
    agent.accountId,
    agent.id,
    revokedAt,
  );
  const clients = await transaction.all<IdRow>(
    `UPDATE oauth_client SET revoked_at = $3 WHERE account_id = $1 AND agent_id = $2 AND revoked_at IS NULL
     RETURNING id`,
    agent.accountId,
    agent.id,
    revokedAt,
  );
  return [...families, ...clients].map((row) => row.id);
}

/** Ends every sign-in of an account's applications, and gives the ids of the grants that were revoked by it. */
export async function revokeSignInsOfAccount(
  transaction: Transaction,
  accountId: string,
  revokedAt: number,
): Promise<string[]> {
  await transaction.run('DELETE FROM authorization_code WHERE account_id = $1 AND used_at IS NULL', accountId);
  const families = await transaction.all<IdRow>(
    'UPDATE refresh_family SET revoked_at = $2 WHERE account_id = $1 AND revoked_at IS NULL RETURNING id',
    accountId,
    revokedAt,
  );
  return families.map((row) => row.id);
}

/** The clients that act for an account's agents with secrets of their own. */
export async function listClientIdsOfAccount(query: Query, accountId: string): Promise<string[]> {
  const clients = await query.all<IdRow>(
    'SELECT id FROM oauth_client WHERE account_id = $1 AND revoked_at IS NULL',
    accountId,
  );
  return clients.map((row) => row.id);
}
