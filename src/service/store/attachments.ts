import type { Database, Query, Transaction } from '../core/database.js';
import { insertRow, toValues } from './sql.js';

export interface AttachmentRow {
  readonly id: string;
  /** The uploader. */
  readonly agent_id: string;
  readonly filename: string;
  readonly content_type: string;
  readonly size: number;
  readonly sha256: string;
  /** Null while no message refers to it; the id of an agent if it is the agent's picture. */
  readonly session_id: string | null;
  readonly sequence: number | null;
  readonly created_at: number;
}

export async function insertAttachment(
  transaction: Transaction,
  row: Omit<AttachmentRow, 'session_id' | 'sequence'>,
): Promise<void> {
  await insertRow(transaction, 'attachment', row);
}

/** Undefined also while its session is being deleted: a download address outlives the session by minutes. */
export function findAttachment(query: Query, attachmentId: string): Promise<AttachmentRow | undefined> {
  return query.get<AttachmentRow>(
    `SELECT * FROM attachment WHERE id = $1
       AND NOT EXISTS (SELECT 1 FROM deleted_session WHERE deleted_session.id = attachment.session_id)`,
    attachmentId,
  );
}

const KNOWN_PER_QUERY = 500;

/** The members of `ids` that have a row. */
export async function listKnownAttachments(
  database: Pick<Database, 'read'>,
  ids: readonly string[],
): Promise<Set<string>> {
  const known = new Set<string>();
  for (let start = 0; start < ids.length; start += KNOWN_PER_QUERY) {
    const part = JSON.stringify(ids.slice(start, start + KNOWN_PER_QUERY));
    const rows = await database.read((query) =>
      query.all<{ id: string }>(
        `SELECT attachment.id FROM ${toValues(query.dialect, '$1')} AS asked CROSS JOIN attachment
         WHERE attachment.id = asked.value`,
        part,
      ),
    );
    for (const { id } of rows) known.add(id);
  }
  return known;
}

export async function hasAttachments(query: Query): Promise<boolean> {
  return (await query.get("SELECT id FROM attachment WHERE id > 'att_' ORDER BY id LIMIT 1")) !== undefined;
}

/** Assigns it to the message. Undefined: it does not exist, is not the agent's, or is no longer pending. */
export async function claimAttachmentRow(
  transaction: Transaction,
  claim: {
    readonly id: string;
    readonly agentId: string;
    readonly sessionId: string;
    readonly sequence: number;
    /** Attachments uploaded at this time or before count as removed. */
    readonly expiredAt: number;
  },
): Promise<AttachmentRow | undefined> {
  const changed = await transaction.run(
    `UPDATE attachment SET session_id = $3, sequence = $4
     WHERE id = $1 AND agent_id = $2 AND session_id IS NULL AND created_at > $5`,
    claim.id,
    claim.agentId,
    claim.sessionId,
    claim.sequence,
    claim.expiredAt,
  );
  return changed === 1 ? findAttachment(transaction, claim.id) : undefined;
}

/** Makes the pictures of an agent pending again: they are swept, because they are older than a pending attachment may be. */
export async function releasePictures(transaction: Transaction, agentId: string): Promise<void> {
  await transaction.run('UPDATE attachment SET session_id = NULL, sequence = NULL WHERE session_id = $1', agentId);
}

export type ExpiredAttachment = Pick<AttachmentRow, 'id' | 'created_at'>;

/** Attachments that are still pending and were uploaded at `expiredAt` or before, oldest first. */
export function listExpiredAttachments(query: Query, expiredAt: number, limit: number): Promise<ExpiredAttachment[]> {
  return query.all<ExpiredAttachment>(
    `SELECT id, created_at FROM attachment WHERE session_id IS NULL AND created_at <= $1 ORDER BY created_at LIMIT $2`,
    expiredAt,
    limit,
  );
}

/** False: it was claimed, or is gone. */
export async function deletePendingAttachment(transaction: Transaction, attachmentId: string): Promise<boolean> {
  const [deleted] = await transaction.all<Pick<AttachmentRow, 'agent_id' | 'size'>>(
    'DELETE FROM attachment WHERE id = $1 AND session_id IS NULL RETURNING agent_id, size',
    attachmentId,
  );
  if (deleted === undefined) return false;
  await giveBackBytes(transaction, deleted.agent_id, deleted.size);
  return true;
}

/** They no longer count for the account of the agent that uploaded them. */
async function giveBackBytes(transaction: Transaction, agentId: string, bytes: number): Promise<void> {
  await transaction.run(
    `UPDATE account SET attachment_bytes = attachment_bytes - $2
     WHERE id = (SELECT account_id FROM agent WHERE agent.id = $1)`,
    agentId,
    bytes,
  );
}

/** Attachments of a deleted session, by id. */
export async function listAttachmentsOfSession(query: Query, sessionId: string, limit: number): Promise<string[]> {
  const rows = await query.all<{ id: string }>(
    'SELECT id FROM attachment WHERE session_id = $1 ORDER BY id LIMIT $2',
    sessionId,
    limit,
  );
  return rows.map(({ id }) => id);
}

/** Those of a deleted session; returns how many there were. */
export async function deleteAttachmentsOfSession(
  transaction: Transaction,
  sessionId: string,
  ids: readonly string[],
): Promise<number> {
  const deleted = await transaction.all<Pick<AttachmentRow, 'agent_id' | 'size'>>(
    `DELETE FROM attachment WHERE session_id = $1
       AND id IN (SELECT asked.value FROM ${toValues(transaction.dialect, '$2')} AS asked)
     RETURNING agent_id, size`,
    sessionId,
    JSON.stringify(ids),
  );
  const bytesOf = new Map<string, number>();
  for (const { agent_id: agentId, size } of deleted) bytesOf.set(agentId, (bytesOf.get(agentId) ?? 0) + size);
  for (const [agentId, bytes] of [...bytesOf].sort()) await giveBackBytes(transaction, agentId, bytes);
  return deleted.length;
}

/** The payload of an agent's first invitation to a session: only that one can carry a message. */
export async function findFirstInvitation(
  query: Query,
  sessionId: string,
  agentId: string,
): Promise<string | undefined> {
  const row = await query.get<{ payload: string }>(
    `SELECT payload FROM event
     WHERE session_id = $1 AND subject_agent_id = $2 AND type = 'session.invited'
     ORDER BY sequence LIMIT 1`,
    sessionId,
    agentId,
  );
  return row?.payload;
}
