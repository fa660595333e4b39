import type { Query, Transaction } from '../core/database.js';
import { insertRow } from './sql.js';

export interface OAuthClientRow {
  readonly id: string;
  readonly kind: 'public' | 'confidential';
  readonly name: string;
  /** JSON: an array of URIs. */
  readonly redirect_uris: string;
  /** The maximum that it may be granted. */
  readonly scope: string;
  readonly secret_hash: string | null;
  /** The previous secret, which works until then. */
  readonly old_secret_hash: string | null;
  readonly old_secret_until: number | null;
  /** From then on it gets no tokens. */
  readonly expires_at: number | null;
  /** The account and the agent that a confidential client acts for. */
  readonly account_id: string | null;
  readonly agent_id: string | null;
  readonly created_at: number;
  readonly last_used_at: number | null;
  readonly revoked_at: number | null;
}

export async function insertOAuthClient(transaction: Transaction, row: OAuthClientRow): Promise<void> {
  await insertRow(transaction, 'oauth_client', row);
}

/** Adds a public client that describes itself, or updates it. */
export async function putOAuthClient(
  transaction: Transaction,
  row: Pick<OAuthClientRow, 'id' | 'name' | 'redirect_uris' | 'scope' | 'created_at'>,
): Promise<void> {
  await transaction.run(
    `INSERT INTO oauth_client (id, kind, name, redirect_uris, scope, created_at) VALUES ($1, 'public', $2, $3, $4, $5)
     ON CONFLICT (id) DO UPDATE SET name = excluded.name, redirect_uris = excluded.redirect_uris, scope = excluded.scope,
       created_at = excluded.created_at`,
    row.id,
    row.name,
    row.redirect_uris,
    row.scope,
    row.created_at,
  );
}

/** Revoked clients are not found. */
export function findOAuthClient(query: Query, clientId: string): Promise<OAuthClientRow | undefined> {
  return query.get<OAuthClientRow>('SELECT * FROM oauth_client WHERE id = $1 AND revoked_at IS NULL', clientId);
}

/** A confidential client with the agent that it acts as. */
export interface ClientOfAccountRow extends OAuthClientRow {
  readonly handle: string;
  readonly agent_name: string;
}

const CLIENT_OF_ACCOUNT = `SELECT oauth_client.*, agent.handle AS handle, agent.name AS agent_name
  FROM oauth_client JOIN agent ON agent.id = oauth_client.agent_id
  WHERE oauth_client.account_id = $1 AND oauth_client.revoked_at IS NULL AND oauth_client.kind = 'confidential'`;

export function findClientOfAccount(
  query: Query,
  accountId: string,
  clientId: string,
): Promise<ClientOfAccountRow | undefined> {
  return query.get<ClientOfAccountRow>(`${CLIENT_OF_ACCOUNT} AND oauth_client.id = $2`, accountId, clientId);
}

/** The next `limit` created before the one with `beforeId`, newest first; ids grow with time. */
export function listClientsOfAccount(
  query: Query,
  accountId: string,
  beforeId: string,
  limit: number,
): Promise<ClientOfAccountRow[]> {
  return query.all<ClientOfAccountRow>(
    `${CLIENT_OF_ACCOUNT} AND oauth_client.id < $2 ORDER BY oauth_client.id DESC LIMIT $3`,
    accountId,
    beforeId,
    limit,
  );
}

/** Those of an account that stop working before a moment, or already have; the first to stop comes first. */
export function listExpiringClients(
  query: Query,
  accountId: string,
  before: number,
  limit: number,
): Promise<ClientOfAccountRow[]> {
  return query.all<ClientOfAccountRow>(
    `${CLIENT_OF_ACCOUNT} AND oauth_client.expires_at < $2 AND agent.removed_at IS NULL
     ORDER BY oauth_client.expires_at, oauth_client.id LIMIT $3`,
    accountId,
    before,
    limit,
  );
}

/** The newest that act as one agent. */
export function listClientsOfAgent(
  query: Query,
  accountId: string,
  agentId: string,
  limit: number,
): Promise<ClientOfAccountRow[]> {
  return query.all<ClientOfAccountRow>(
    `${CLIENT_OF_ACCOUNT} AND oauth_client.agent_id = $2 ORDER BY oauth_client.id DESC LIMIT $3`,
    accountId,
    agentId,
    limit,
  );
}

export async function markOAuthClientUsed(transaction: Transaction, clientId: string, usedAt: number): Promise<void> {
  await transaction.run('UPDATE oauth_client SET last_used_at = $2 WHERE id = $1', clientId, usedAt);
}

export async function updateOAuthClient(
  transaction: Transaction,
  { id, name, scope, expires_at: expiresAt }: Pick<OAuthClientRow, 'id' | 'name' | 'scope' | 'expires_at'>,
): Promise<void> {
  await transaction.run(
    'UPDATE oauth_client SET name = $2, scope = $3, expires_at = $4 WHERE id = $1',
    id,
    name,
    scope,
    expiresAt,
  );
}

/** From now on it has another secret; the previous one works until `oldUntil`. */
export async function replaceClientSecret(
  transaction: Transaction,
  clientId: string,
  secretHash: string,
  oldUntil: number,
): Promise<void> {
  await transaction.run(
    `UPDATE oauth_client SET old_secret_hash = secret_hash, old_secret_until = $3, secret_hash = $2
     WHERE id = $1 AND revoked_at IS NULL`,
    clientId,
    secretHash,
    oldUntil,
  );
}

/** False: there is no such client, or it is already revoked. */
export async function markOAuthClientRevoked(
  transaction: Transaction,
  clientId: string,
  revokedAt: number,
): Promise<boolean> {
  const changed = await transaction.run(
    'UPDATE oauth_client SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL',
    clientId,
    revokedAt,
  );
  return changed === 1;
}

/** Deletes the names that an account chose for its clients. */
export async function eraseClientNames(transaction: Transaction, accountId: string): Promise<void> {
  await transaction.run("UPDATE oauth_client SET name = '' WHERE account_id = $1", accountId);
}

/** At most `limit` that were registered before `epochMs` and never approved since, oldest first. */
export function deleteUnusedOAuthClients(transaction: Transaction, epochMs: number, limit: number): Promise<number> {
  return transaction.run(
    `DELETE FROM oauth_client WHERE id IN (
       SELECT id FROM oauth_client WHERE last_used_at IS NULL AND created_at < $1 AND kind = 'public'
         AND NOT EXISTS (SELECT 1 FROM authorization_request WHERE authorization_request.client_id = oauth_client.id)
       ORDER BY created_at LIMIT $2)`,
    epochMs,
    limit,
  );
}

/** When the one after the newest `count` was registered, of those since `epochMs` that were never approved. */
export async function findUnusedOAuthClientAfter(
  query: Query,
  count: number,
  epochMs: number,
): Promise<number | undefined> {
  const row = await query.get<{ created_at: number }>(
    `SELECT created_at FROM oauth_client WHERE last_used_at IS NULL AND created_at >= $2 AND kind = 'public'
     ORDER BY created_at DESC LIMIT 1 OFFSET $1`,
    count,
    epochMs,
  );
  return row === undefined ? undefined : Number(row.created_at);
}

/** How many confidential clients an account has. */
export async function countClients(query: Query, accountId: string): Promise<number> {
  const row = await query.get<{ count: number }>(
    "SELECT COUNT(*) AS count FROM oauth_client WHERE account_id = $1 AND revoked_at IS NULL AND kind = 'confidential'",
    accountId,
  );
  return Number(row?.count ?? 0);
}
