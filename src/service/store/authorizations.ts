import type { Query, Transaction } from '../core/database.js';
import { insertRow } from './sql.js';

/** A client's request that a person has not answered yet. */
export interface AuthorizationRequestRow {
  readonly id_hash: string;
  /** The browser that made the request; no other one may answer. */
  readonly browser_hash: string;
  readonly client_id: string;
  readonly redirect_uri: string;
  readonly scope: string;
  readonly state: string | null;
  readonly code_challenge: string;
  /** JSON: the resources that its tokens may be for, and the default ones. */
  readonly resources: string;
  readonly agent_handle: string | null;
  readonly intent: string | null;
  readonly created_at: number;
}

export interface AuthorizationCodeRow {
  readonly code_hash: string;
  readonly client_id: string;
  readonly account_id: string;
  readonly agent_id: string | null;
  readonly redirect_uri: string;
  readonly scope: string;
  readonly code_challenge: string;
  readonly resources: string;
  readonly created_at: number;
  readonly used_at: number | null;
  /** The family that its first use started; null if that use failed. */
  readonly family_id: string | null;
}

export async function insertAuthorizationRequest(
  transaction: Transaction,
  row: AuthorizationRequestRow,
): Promise<void> {
  await insertRow(transaction, 'authorization_request', row);
}

export function findAuthorizationRequest(
  query: Query,
  idHash: string,
  browserHash: string,
  createdAfter: number,
): Promise<AuthorizationRequestRow | undefined> {
  return query.get<AuthorizationRequestRow>(
    'SELECT * FROM authorization_request WHERE id_hash = $1 AND browser_hash = $2 AND created_at > $3',
    idHash,
    browserHash,
    createdAfter,
  );
}

/** False: it was already answered. */
export async function deleteAuthorizationRequest(transaction: Transaction, idHash: string): Promise<boolean> {
  return (await transaction.run('DELETE FROM authorization_request WHERE id_hash = $1', idHash)) === 1;
}

/** The browser's secret changes when someone signs in or out; its pending requests stay its own. */
export async function rebindAuthorizationRequests(
  transaction: Transaction,
  oldBrowserHash: string,
  newBrowserHash: string,
): Promise<void> {
  await transaction.run(
    'UPDATE authorization_request SET browser_hash = $2 WHERE browser_hash = $1',
    oldBrowserHash,
    newBrowserHash,
  );
}

export function deleteAuthorizationRequestsBefore(transaction: Transaction, epochMs: number): Promise<number> {
  return transaction.run('DELETE FROM authorization_request WHERE created_at < $1', epochMs);
}

export async function insertAuthorizationCode(transaction: Transaction, row: AuthorizationCodeRow): Promise<void> {
  await insertRow(transaction, 'authorization_code', row);
}

export function findAuthorizationCode(query: Query, codeHash: string): Promise<AuthorizationCodeRow | undefined> {
  return query.get<AuthorizationCodeRow>('SELECT * FROM authorization_code WHERE code_hash = $1', codeHash);
}

/** False: it was already used, or removed. */
export async function useAuthorizationCode(
  transaction: Transaction,
  codeHash: string,
  usedAt: number,
  familyId: string | null,
): Promise<boolean> {
  const changed = await transaction.run(
    'UPDATE authorization_code SET used_at = $2, family_id = $3 WHERE code_hash = $1 AND used_at IS NULL',
    codeHash,
    usedAt,
    familyId,
  );
  return changed === 1;
}

export function deleteAuthorizationCodesBefore(transaction: Transaction, epochMs: number): Promise<number> {
  return transaction.run('DELETE FROM authorization_code WHERE created_at < $1', epochMs);
}

/** Where a token was last requested from. Null: since before this was stored. */
export interface LastUse {
  readonly last_network: string | null;
  /** Its `User-Agent`. */
  readonly last_program: string | null;
}

/** All refresh tokens from one authorization (spec: Refresh). */
export interface RefreshFamilyRow extends LastUse {
  readonly id: string;
  readonly client_id: string;
  readonly account_id: string;
  /** Null: an account's own. */
  readonly agent_id: string | null;
  readonly scope: string;
  /** JSON: the resources that its tokens may be for, and the default ones. */
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
  /** When its successor replaced it; only the newest token of a family has none. */
  readonly rotated_at: number | null;
}

/** A refresh token with its family. */
export type RefreshTokenOfFamily = RefreshFamilyRow & Pick<RefreshTokenRow, 'token_hash' | 'rotated_at'>;

export async function insertRefreshFamily(transaction: Transaction, row: RefreshFamilyRow): Promise<void> {
  await insertRow(transaction, 'refresh_family', row);
}

export async function insertRefreshToken(transaction: Transaction, row: RefreshTokenRow): Promise<void> {
  await insertRow(transaction, 'refresh_token', row);
}

export function findRefreshToken(query: Query, tokenHash: string): Promise<RefreshTokenOfFamily | undefined> {
  return query.get<RefreshTokenOfFamily>(
    `SELECT refresh_family.*, refresh_token.token_hash, refresh_token.rotated_at
     FROM refresh_token JOIN refresh_family ON refresh_family.id = refresh_token.family_id
     WHERE refresh_token.token_hash = $1`,
    tokenHash,
  );
}

/** False: it was already rotated, or removed. */
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
  { last_network: network, last_program: program }: LastUse,
): Promise<boolean> {
  const changed = await transaction.run(
    `UPDATE refresh_family SET last_used_at = $2, last_network = $3, last_program = $4
     WHERE id = $1 AND revoked_at IS NULL`,
    familyId,
    usedAt,
    network,
    program,
  );
  return changed === 1;
}

/**
 * Removes the successor and makes its parent valid again, unless the successor was used or the family revoked
 * in the meantime.
 */
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

/** Where a person used an app is kept only as long as that person can see it. */
const NO_LAST_USE = 'last_network = NULL, last_program = NULL';

export async function revokeRefreshFamily(
  transaction: Transaction,
  familyId: string,
  revokedAt: number,
): Promise<void> {
  await transaction.run(
    `UPDATE refresh_family SET revoked_at = $2, ${NO_LAST_USE} WHERE id = $1 AND revoked_at IS NULL`,
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

/** Families that were used since `epochMs` and are not revoked. */
export function findFamilyOfAccount(
  query: Query,
  accountId: string,
  epochMs: number,
  familyId: string,
): Promise<FamilyOfAccountRow | undefined> {
  return query.get<FamilyOfAccountRow>(`${FAMILY_OF_ACCOUNT} AND refresh_family.id = $3`, accountId, epochMs, familyId);
}

/** The next `limit` of them after a position, newest first. */
export function listFamiliesOfAccount(
  query: Query,
  accountId: string,
  epochMs: number,
  position: { readonly createdAt: number; readonly id: string },
  limit: number,
): Promise<FamilyOfAccountRow[]> {
  return query.all<FamilyOfAccountRow>(
    `${FAMILY_OF_ACCOUNT} AND (refresh_family.created_at < $3
       OR (refresh_family.created_at = $3 AND refresh_family.id < $4))
     ORDER BY refresh_family.created_at DESC, refresh_family.id DESC LIMIT $5`,
    accountId,
    epochMs,
    position.createdAt,
    position.id,
    limit,
  );
}

/** The newest of them that act as one agent. */
export function listFamiliesOfAgent(
  query: Query,
  accountId: string,
  epochMs: number,
  agentId: string,
  limit: number,
): Promise<FamilyOfAccountRow[]> {
  return query.all<FamilyOfAccountRow>(
    `${FAMILY_OF_ACCOUNT} AND refresh_family.agent_id = $3 ORDER BY refresh_family.created_at DESC LIMIT $4`,
    accountId,
    epochMs,
    agentId,
    limit,
  );
}

/** Families that were not used since `epochMs`, with all their tokens. */
export async function deleteRefreshFamiliesUnusedSince(transaction: Transaction, epochMs: number): Promise<void> {
  await transaction.run(
    'DELETE FROM refresh_token WHERE family_id IN (SELECT id FROM refresh_family WHERE last_used_at < $1)',
    epochMs,
  );
  await transaction.run('DELETE FROM refresh_family WHERE last_used_at < $1', epochMs);
}

interface IdRow {
  readonly id: string;
}

/** Ends every way to get tokens for an agent, and returns the ids of the revoked grants. */
export async function revokeGrantsOfAgent(
  transaction: Transaction,
  agent: { readonly id: string; readonly accountId: string },
  revokedAt: number,
): Promise<string[]> {
  await transaction.run('DELETE FROM authorization_code WHERE agent_id = $1 AND used_at IS NULL', agent.id);
  const families = await transaction.all<IdRow>(
    `UPDATE refresh_family SET revoked_at = $3, ${NO_LAST_USE} WHERE account_id = $1 AND agent_id = $2 AND revoked_at IS NULL
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

/** Ends every sign-in of an account's apps, and returns the ids of the revoked grants. */
export async function revokeSignInsOfAccount(
  transaction: Transaction,
  accountId: string,
  revokedAt: number,
): Promise<string[]> {
  await transaction.run('DELETE FROM authorization_code WHERE account_id = $1 AND used_at IS NULL', accountId);
  const families = await transaction.all<IdRow>(
    `UPDATE refresh_family SET revoked_at = $2, ${NO_LAST_USE} WHERE account_id = $1 AND revoked_at IS NULL RETURNING id`,
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
