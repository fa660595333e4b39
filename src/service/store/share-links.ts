import type { Query, Transaction } from '../core/database.js';
import { insertRow } from './sql.js';

/** An address with which anyone can read a session as its account saw it then. */
export interface ShareLinkRow {
  readonly id: string;
  readonly secret_hash: string;
  readonly account_id: string;
  readonly session_id: string;
  /** The account saw every event up to this one; */
  readonly through_sequence: number;
  /** after that, up to this one, what its invited agents saw. */
  readonly last_sequence: number;
  readonly created_at: number;
  readonly expires_at: number;
  /** The agent whose view it shows; null: the view of the account, or not known (links from before version 38). */
  readonly view_handle: string | null;
}

export async function insertShareLink(transaction: Transaction, row: ShareLinkRow): Promise<void> {
  await insertRow(transaction, 'share_link', row);
}

/** The link with this secret, and the name of its account; undefined if no one may use it now. */
export function findShareLink(
  query: Query,
  secretHash: string,
  now: number,
): Promise<(ShareLinkRow & { readonly username: string }) | undefined> {
  return query.get(
    `SELECT link.*, account.username FROM share_link AS link JOIN account ON account.id = link.account_id
     WHERE link.secret_hash = $1 AND link.expires_at > $2
       AND account.suspended_at IS NULL AND account.removed_at IS NULL`,
    secretHash,
    now,
  );
}

/** The links of an account to one session, newest first. */
export function listShareLinksOfSession(
  query: Query,
  { accountId, sessionId }: { readonly accountId: string; readonly sessionId: string },
  now: number,
  limit: number,
): Promise<ShareLinkRow[]> {
  return query.all(
    `SELECT * FROM share_link WHERE session_id = $2 AND account_id = $1 AND expires_at > $3
     ORDER BY id DESC LIMIT $4`,
    accountId,
    sessionId,
    now,
    limit,
  );
}

/** The links of an account and the topics of their sessions, newest first, after the one with this id. */
export function listShareLinksOfAccount(
  query: Query,
  accountId: string,
  now: number,
  before: string,
  limit: number,
): Promise<(ShareLinkRow & { readonly topic: string | null })[]> {
  return query.all(
    `SELECT link.*, session.topic FROM share_link AS link JOIN session ON session.id = link.session_id
     WHERE link.account_id = $1 AND link.id < $3 AND link.expires_at > $2 ORDER BY link.id DESC LIMIT $4`,
    accountId,
    now,
    before,
    limit,
  );
}

export async function countShareLinks(query: Query, accountId: string, now: number): Promise<number> {
  const row = await query.get<{ count: number }>(
    'SELECT COUNT(*) AS count FROM share_link WHERE account_id = $1 AND expires_at > $2',
    accountId,
    now,
  );
  return row?.count ?? 0;
}

/** The session of the link that this revoked; undefined if the account has no such link. */
export async function deleteShareLink(
  transaction: Transaction,
  accountId: string,
  id: string,
): Promise<string | undefined> {
  const row = await transaction.get<Pick<ShareLinkRow, 'session_id'>>(
    'DELETE FROM share_link WHERE id = $2 AND account_id = $1 RETURNING session_id',
    accountId,
    id,
  );
  return row?.session_id;
}

export async function deleteShareLinksOfAccount(transaction: Transaction, accountId: string): Promise<void> {
  await transaction.run('DELETE FROM share_link WHERE account_id = $1', accountId);
}

export async function deleteShareLinksExpiredBefore(transaction: Transaction, before: number): Promise<void> {
  await transaction.run('DELETE FROM share_link WHERE expires_at <= $1', before);
}
