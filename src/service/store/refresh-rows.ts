import type { Query, Transaction } from './database.js';

/** Every refresh token that came of one authorization (spec: Refresh). */
export interface RefreshFamilyRow {
  readonly id: string;
  readonly client_id: string;
  readonly account_id: string;
  /** Null: an account's own. */
  readonly agent_id: string | null;
  readonly scope: string;
  /** JSON: the resources that its tokens may be for, and the usual ones. */
  readonly resources: string;
  readonly created_at: number;
  readonly last_used_at: number;
  readonly revoked_at: number | null;
}

export interface RefreshTokenRow {
  readonly token_hash: string;
  readonly family_id: string;
  readonly parent_hash: string | null;
  readonly created_at: number;
  /** When its successor took over; only the newest token of a family has none. */
  readonly rotated_at: number | null;
}

/** A refresh token with the family that it belongs to. */
export type RefreshTokenOfFamily = RefreshFamilyRow & Pick<RefreshTokenRow, 'token_hash' | 'rotated_at'>;

export async function insertRefreshFamily(transaction: Transaction, row: RefreshFamilyRow): Promise<void> {
  await transaction.run(
    `INSERT INTO refresh_family (id, client_id, account_id, agent_id, scope, resources, created_at, last_used_at,
       revoked_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
    row.id,
    row.client_id,
    row.account_id,
    row.agent_id,
    row.scope,
    row.resources,
    row.created_at,
    row.last_used_at,
    row.revoked_at,
  );
}

export async function insertRefreshToken(transaction: Transaction, row: RefreshTokenRow): Promise<void> {
  await transaction.run(
    `INSERT INTO refresh_token (token_hash, family_id, parent_hash, created_at, rotated_at)
     VALUES ($1, $2, $3, $4, $5)`,
    row.token_hash,
    row.family_id,
    row.parent_hash,
    row.created_at,
    row.rotated_at,
  );
}

export function findRefreshToken(query: Query, tokenHash: string): Promise<RefreshTokenOfFamily | undefined> {
  return query.get<RefreshTokenOfFamily>(
    `SELECT refresh_family.*, refresh_token.token_hash, refresh_token.rotated_at
     FROM refresh_token JOIN refresh_family ON refresh_family.id = refresh_token.family_id
     WHERE refresh_token.token_hash = $1`,
    tokenHash,
  );
}

/** False: another one rotated it first. */
export async function markRefreshTokenRotated(
  transaction: Transaction,
  tokenHash: string,
  rotatedAt: number,
): Promise<boolean> {
  const changed = await transaction.run(
    'UPDATE refresh_token SET rotated_at = $2 WHERE token_hash = $1 AND rotated_at IS NULL',
    tokenHash,
    rotatedAt,
  );
  return changed === 1;
}

/** False: the family was revoked. */
export async function markRefreshFamilyUsed(
  transaction: Transaction,
  familyId: string,
  usedAt: number,
): Promise<boolean> {
  const changed = await transaction.run(
    'UPDATE refresh_family SET last_used_at = $2 WHERE id = $1 AND revoked_at IS NULL',
    familyId,
    usedAt,
  );
  return changed === 1;
}

/** The successor goes and its parent counts again, unless the successor was used or the family revoked meanwhile. */
export async function undoRotation(
  transaction: Transaction,
  parentHash: string,
  successorHash: string,
): Promise<boolean> {
  const removed = await transaction.run(
    `DELETE FROM refresh_token WHERE token_hash = $2 AND parent_hash = $1 AND rotated_at IS NULL
       AND EXISTS (SELECT 1 FROM refresh_family WHERE refresh_family.id = family_id AND revoked_at IS NULL)`,
    parentHash,
    successorHash,
  );
  if (removed === 0) return false;
  await transaction.run('UPDATE refresh_token SET rotated_at = NULL WHERE token_hash = $1', parentHash);
  return true;
}

export async function revokeRefreshFamily(
  transaction: Transaction,
  familyId: string,
  revokedAt: number,
): Promise<void> {
  await transaction.run(
    'UPDATE refresh_family SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL',
    familyId,
    revokedAt,
  );
}

/** A family with the names of its client and of the agent it acts as. */
export interface FamilyOfAccountRow extends RefreshFamilyRow {
  readonly client_name: string;
  /** Null: it acts as the account itself. */
  readonly handle: string | null;
}

const FAMILY_OF_ACCOUNT = `SELECT refresh_family.*, oauth_client.name AS client_name, agent.handle AS handle
  FROM refresh_family JOIN oauth_client ON oauth_client.id = refresh_family.client_id
    LEFT JOIN agent ON agent.id = refresh_family.agent_id
  WHERE refresh_family.account_id = $1 AND refresh_family.revoked_at IS NULL AND refresh_family.last_used_at >= $2`;

/** Those that were used since `epochMs` and are not revoked. */
export function findFamilyOfAccount(
  query: Query,
  accountId: string,
  epochMs: number,
  familyId: string,
): Promise<FamilyOfAccountRow | undefined> {
  return query.get<FamilyOfAccountRow>(`${FAMILY_OF_ACCOUNT} AND refresh_family.id = $3`, accountId, epochMs, familyId);
}

/** The next `limit` of them after a place, the newest first. */
export function listFamiliesOfAccount(
  query: Query,
  accountId: string,
  epochMs: number,
  place: { readonly createdAt: number; readonly id: string },
  limit: number,
): Promise<FamilyOfAccountRow[]> {
  return query.all<FamilyOfAccountRow>(
    `${FAMILY_OF_ACCOUNT} AND (refresh_family.created_at < $3
       OR (refresh_family.created_at = $3 AND refresh_family.id < $4))
     ORDER BY refresh_family.created_at DESC, refresh_family.id DESC LIMIT $5`,
    accountId,
    epochMs,
    place.createdAt,
    place.id,
    limit,
  );
}

/** Families that nobody used since `epochMs`, with all their tokens. */
export async function deleteRefreshFamiliesUnusedSince(transaction: Transaction, epochMs: number): Promise<void> {
  await transaction.run(
    'DELETE FROM refresh_token WHERE family_id IN (SELECT id FROM refresh_family WHERE last_used_at < $1)',
    epochMs,
  );
  await transaction.run('DELETE FROM refresh_family WHERE last_used_at < $1', epochMs);
}
