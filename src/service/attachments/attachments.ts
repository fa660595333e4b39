import { decodeTime } from 'ulid';
import { ID_PREFIX, isId } from '../../wire/id.js';
import { ATTACHMENT_URL_LIFETIME_S, PENDING_ATTACHMENT_LIFETIME_S } from '../../wire/limit.js';
import type { ReplyOf } from '../../wire/schemas/endpoint.js';
import { takeAttachmentBytes } from '../agents/accounts.js';
import type { AgentActor, Handler, ServiceContext } from '../core/context.js';
import type { Query, Transaction } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import { type AccountView, seesAllThrough } from '../messaging/events.js';
import { type AgentRow, updatePicture } from '../store/agents.js';
import {
  type AttachmentRow,
  claimAttachmentRow,
  deletePendingAttachment,
  type ExpiredAttachment,
  findAttachment,
  findFirstInvitation,
  insertAttachment,
  listExpiredAttachments,
  listKnownAttachments,
  releasePictures,
} from '../store/attachments.js';
import { listEventsAboutAgentsOf } from '../store/events.js';
import { isSeal, seal } from '../store/keys.js';
import { findParticipation } from '../store/participants.js';
import type { StagedUpload } from './receive-upload.js';

/** Where downloads are, below the web origin. */
export const DOWNLOAD_PATH = '/attachments';

const EXPIRES = /^[1-9]\d{12,14}$/;

/** Anyone who has the address may read the file until it expires (wire: Content and attachments). */
async function signDownload(
  context: Pick<ServiceContext, 'clock' | 'settings'>,
  query: Query,
  attachmentId: string,
): Promise<{ url: string; url_expires_at: number }> {
  const expiresAt = context.clock.now() + ATTACHMENT_URL_LIFETIME_S * 1000;
  const signature = (await seal(query, 'download', `${attachmentId} ${expiresAt}`)).toString('base64url');
  const url = `${context.settings.addresses.webUrl}${DOWNLOAD_PATH}/${attachmentId}?expires=${expiresAt}&signature=${signature}`;
  return { url, url_expires_at: expiresAt };
}

/** Whether these are the id and the query of an address that was signed here and has not expired. */
export async function isSignedDownload(
  context: Pick<ServiceContext, 'clock'>,
  query: Query,
  received: { readonly id: unknown; readonly expires: unknown; readonly signature: unknown },
): Promise<boolean> {
  const { id, expires, signature } = received;
  if (typeof id !== 'string' || typeof expires !== 'string' || typeof signature !== 'string') return false;
  if (!isId('attachment', id) || !EXPIRES.test(expires)) return false;
  const isOurs = isSeal(signature, await seal(query, 'download', `${id} ${expires}`));
  return isOurs && context.clock.now() < Number(expires);
}

export const getAttachment: Handler<'getAttachment'> = async (context, actor, input, query) => {
  const row = await findAttachment(query, input.path.attachment_id);
  if (row === undefined || !(await maySee(context, query, actor.agentId, row))) throw new ServiceError('NOT_FOUND');
  return {
    id: row.id,
    filename: row.filename,
    content_type: row.content_type,
    size: row.size,
    ...(await signDownload(context, query, row.id)),
  };
};

const INVITATIONS_READ_MAX = 100;

/** A signed address of an attachment in a session that an account is viewing. */
export async function signAccountDownload(
  context: ServiceContext,
  view: AccountView,
  attachmentId: string,
  query: Query,
): Promise<string> {
  const sessionId = view.participations[0].session_id;
  const row = await findAttachment(query, attachmentId);
  if (row?.session_id !== sessionId || !(await isInView(query, view, row))) throw new ServiceError('NOT_FOUND');
  return (await signDownload(context, query, row.id)).url;
}

async function isInView(query: Query, view: AccountView, { sequence }: AttachmentRow): Promise<boolean> {
  if (sequence === null || sequence > view.end) return false;
  if (sequence <= view.through) return true;
  const { session_id: sessionId } = view.participations[0];
  const own = await listEventsAboutAgentsOf(query, view.accountId, sessionId, view.through, INVITATIONS_READ_MAX);
  return own.some((event) => event.sequence <= view.end && carriesMessage(event.payload, sequence));
}

/**
 * While pending, its uploader; then everyone who can see the message now (wire: Content and attachments; spec:
 * Eligibility filtering).
 */
async function maySee(
  context: Pick<ServiceContext, 'clock'>,
  query: Query,
  agentId: string,
  row: AttachmentRow,
): Promise<boolean> {
  const { session_id: sessionId, sequence } = row;
  if (sessionId === null || sequence === null)
    return row.agent_id === agentId && row.created_at + PENDING_ATTACHMENT_LIFETIME_S * 1000 > context.clock.now();
  const viewer = await findParticipation(query, sessionId, agentId);
  if (viewer === undefined) return false;
  if (sequence <= seesAllThrough(viewer)) return true;
  const invitation = await findFirstInvitation(query, sessionId, agentId);
  return invitation !== undefined && carriesMessage(invitation, sequence);
}

/** An invitation to a one-shot session carries its only message in full. */
function carriesMessage(payload: string, sequence: number): boolean {
  const { initial_message: message } = JSON.parse(payload) as { initial_message?: { sequence: number } };
  return message?.sequence === sequence;
}

/** Gives a staged file its row: after the commit it is an attachment, pending until a message refers to it. */
export async function uploadAttachment(
  context: Pick<ServiceContext, 'clock' | 'meter' | 'settings'>,
  actor: Pick<AgentActor, 'accountId' | 'agentId'>,
  staged: StagedUpload,
  transaction: Transaction,
): Promise<ReplyOf<'uploadAttachment'>> {
  await takeAttachmentBytes(context, transaction, actor.accountId, staged.size);
  await insertAttachment(transaction, {
    id: staged.id,
    agent_id: actor.agentId,
    filename: staged.filename,
    content_type: staged.contentType,
    size: staged.size,
    sha256: staged.sha256,
    created_at: context.clock.now(),
  });
  transaction.afterCommit(() => {
    staged.keep();
    context.meter.attachmentBytes('in', staged.size);
  });
  return { id: staged.id, filename: staged.filename, content_type: staged.contentType, size: staged.size };
}

const BATCH = 100;

type SweepContext = Pick<ServiceContext, 'clock' | 'database' | 'files' | 'log' | 'meter'>;

/**
 * Removes attachments that no message referred to within an hour. The row goes first, in a transaction that runs
 * entirely before or after a claim, and the file second: a crash in between leaves a file without a row, which
 * `discardOrphans` finds.
 */
export async function sweepAttachments(context: SweepContext): Promise<void> {
  const expiredAt = context.clock.now() - PENDING_ATTACHMENT_LIFETIME_S * 1000;
  let removed: ExpiredAttachment[];
  do {
    removed = await context.database.write(async (transaction) => {
      const deleted: ExpiredAttachment[] = [];
      for (const row of await listExpiredAttachments(transaction, expiredAt, BATCH))
        if (await deletePendingAttachment(transaction, row.id)) deleted.push(row);
      return deleted;
    });
    // A message that was lost in a restore, or that exists in the original of this data, may refer to an older one.
    const { restoredAt } = context.database.epoch();
    for (const { id, created_at: createdAt } of removed)
      await (createdAt < restoredAt ? context.files.discard(id, context.clock.now()) : context.files.remove(id));
  } while (removed.length === BATCH);
}

/** Files that are older than any upload takes and have no row: from uploads and sweeps that a crash interrupted. */
async function listOrphans({ clock, database }: SweepContext, ids: readonly string[]): Promise<string[]> {
  const expiredAt = clock.now() - PENDING_ATTACHMENT_LIFETIME_S * 1000;
  const old = ids.filter((id) => decodeTime(id.slice(ID_PREFIX.attachment.length)) <= expiredAt);
  const known = await listKnownAttachments(database, old);
  return old.filter((id) => !known.has(id));
}

/** More orphans than this mean that the database or the folder is wrong, not that a crash interrupted something. */
const ORPHANS_MAX = 10;
const ORPHANS_SHARE_MAX = 0.02;
const TRASH_KEPT_MS = 7 * 24 * 60 * 60 * 1000;

/**
 * Moves orphans to the trash, and deletes files that have been there for a week. Moves nothing if the orphans are more
 * than a small share of the files.
 */
export async function discardOrphans(context: SweepContext): Promise<void> {
  const { clock, files, log, meter } = context;
  const ids = await files.list();
  const orphans = await listOrphans(context, ids);
  meter.orphansFound(orphans.length);
  if (orphans.length > Math.max(ORPHANS_MAX, ids.length * ORPHANS_SHARE_MAX)) {
    const facts = { orphans: orphans.length, files: ids.length };
    log.error('attachment_orphans_kept', new Error('Too many attachment files have no row in the database.'), facts);
    return;
  }
  for (const id of orphans) await files.discard(id, clock.now());
  if (orphans.length > 0) log.info('attachment_orphans_discarded', { count: orphans.length });
  await emptyTrash(context);
}

/** A file that has a row after all is moved back. */
async function emptyTrash({ clock, database, files, log }: SweepContext): Promise<void> {
  const due = (await files.listTrash()).filter(({ discardedAt }) => discardedAt <= clock.now() - TRASH_KEPT_MS);
  const known = await listKnownAttachments(
    database,
    due.map(({ id }) => id),
  );
  for (const { id } of due) await (known.has(id) ? files.restore(id) : files.removeFromTrash(id));
  if (due.length > 0) log.info('attachment_trash_emptied', { removed: due.length - known.size, restored: known.size });
}

/**
 * Gives an agent a picture, or takes it away: an attachment that belongs to the agent in place of a session, so no one
 * gets it as an attachment. The one before is swept like one that no message refers to.
 */
export async function changePicture(
  context: Pick<ServiceContext, 'clock' | 'meter' | 'settings'>,
  transaction: Transaction,
  { id: agentId, account_id: accountId }: Pick<AgentRow, 'id' | 'account_id'>,
  staged: StagedUpload | undefined,
): Promise<void> {
  await releasePictures(transaction, agentId);
  if (staged !== undefined) {
    await uploadAttachment(context, { agentId, accountId }, staged, transaction);
    await claimAttachmentRow(transaction, { id: staged.id, agentId, sessionId: agentId, sequence: 0, expiredAt: 0 });
  }
  await updatePicture(transaction, agentId, staged?.id ?? null, context.clock.now());
}

/** A signed address of the picture, below the web origin. */
export async function signPicture(
  context: Pick<ServiceContext, 'clock' | 'settings'>,
  query: Query,
  { image_url: pictureId }: Pick<AgentRow, 'image_url'>,
): Promise<string> {
  if (pictureId === null) throw new ServiceError('NOT_FOUND');
  const { pathname, search } = new URL((await signDownload(context, query, pictureId)).url);
  return `${pathname}${search}`;
}
