import type { Query, Transaction } from './database.js';

/** What a client asked for and a person has yet to answer. */
export interface AuthorizationRequestRow {
  readonly id_hash: string;
  /** The browser that asked; no other one may answer. */
  readonly browser_hash: string;
  readonly client_id: string;
  readonly redirect_uri: string;
  readonly scope: string;
  readonly state: string | null;
  readonly code_challenge: string;
  /** JSON: the resources that its tokens may be for, and the usual ones. */
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
  /** What its first use started; null when that use failed. */
  readonly family_id: string | null;
}

export async function insertAuthorizationRequest(
  transaction: Transaction,
  row: AuthorizationRequestRow,
): Promise<void> {
  await transaction.run(
    `INSERT INTO authorization_request (id_hash, browser_hash, client_id, redirect_uri, scope, state, code_challenge,
       resources, agent_handle, intent, created_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
    row.id_hash,
    row.browser_hash,
    row.client_id,
    row.redirect_uri,
    row.scope,
    row.state,
    row.code_challenge,
    row.resources,
    row.agent_handle,
    row.intent,
    row.created_at,
  );
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

/** False: somebody answered it first. */
export async function deleteAuthorizationRequest(transaction: Transaction, idHash: string): Promise<boolean> {
  return (await transaction.run('DELETE FROM authorization_request WHERE id_hash = $1', idHash)) === 1;
}

/** The browser's secret changes when somebody signs in or out; what it was asked stays its own. */
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
  await transaction.run(
    `INSERT INTO authorization_code (code_hash, client_id, account_id, agent_id, redirect_uri, scope, code_challenge,
       resources, created_at, used_at, family_id)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
    row.code_hash,
    row.client_id,
    row.account_id,
    row.agent_id,
    row.redirect_uri,
    row.scope,
    row.code_challenge,
    row.resources,
    row.created_at,
    row.used_at,
    row.family_id,
  );
}

export function findAuthorizationCode(query: Query, codeHash: string): Promise<AuthorizationCodeRow | undefined> {
  return query.get<AuthorizationCodeRow>('SELECT * FROM authorization_code WHERE code_hash = $1', codeHash);
}

/** False: it was used before. */
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
