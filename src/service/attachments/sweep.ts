import { decodeTime } from 'ulid';

import { ID_PREFIX } from '../../wire/id.js';
import { PENDING_ATTACHMENT_LIFETIME_S } from '../../wire/limit.js';
import type { ServiceContext } from '../context.js';
import {
  deletePendingAttachment,
  type ExpiredAttachment,
  listExpiredAttachments,
  listKnownAttachments,
} from '../store/attachment-rows.js';

const BATCH = 100;

type SweepContext = Pick<ServiceContext, 'clock' | 'database' | 'files' | 'log' | 'meter'>;

/**
 * Removes attachments that no message referred to within their hour. A row goes first, in a transaction that a claim
 * comes before or after as a whole, and its file only then: a crash between the two leaves a file without a row, which
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
    // A message that was lost with a restore, or that stands in the data this is a copy of, may refer to an older one.
    const { restoredAt } = context.database.epoch();
    for (const { id, created_at: createdAt } of removed)
      await (createdAt < restoredAt ? context.files.discard(id, context.clock.now()) : context.files.remove(id));
  } while (removed.length === BATCH);
}

/** Files that are older than any upload takes, and have no row: of uploads and sweeps that a crash cut short. */
async function listOrphans({ clock, database }: SweepContext, ids: readonly string[]): Promise<string[]> {
  const expiredAt = clock.now() - PENDING_ATTACHMENT_LIFETIME_S * 1000;
  const old = ids.filter((id) => decodeTime(id.slice(ID_PREFIX.attachment.length)) <= expiredAt);
  const known = await listKnownAttachments(database, old);
  return old.filter((id) => !known.has(id));
}

/** More orphans than these say that the database or the folder is the wrong one, not that a crash cut something short. */
const ORPHANS_MAX = 10;
const ORPHANS_SHARE_MAX = 0.02;
const TRASH_KEPT_MS = 7 * 24 * 60 * 60 * 1000;

/**
 * Moves orphans to the trash, and removes for good what has lain there for a week. Moves nothing when the orphans are more
 * than a small share of the files.
 */
export async function discardOrphans(context: SweepContext): Promise<void> {
  const { clock, files, log, meter } = context;
  const ids = await files.list();
  const orphans = await listOrphans(context, ids);
  meter.orphansFound(orphans.length);
  if (orphans.length > Math.max(ORPHANS_MAX, ids.length * ORPHANS_SHARE_MAX)) {
    const facts = { orphans: orphans.length, files: ids.length };
    log.error(
      'attachment_orphans_kept',
      new Error('The database does not know too many of the attachment files.'),
      facts,
    );
    return;
  }
  for (const id of orphans) await files.discard(id, clock.now());
  if (orphans.length > 0) log.info('attachment_orphans_discarded', { count: orphans.length });
  await emptyTrash(context);
}

/** What has a row after all goes back to its place. */
async function emptyTrash({ clock, database, files, log }: SweepContext): Promise<void> {
  const due = (await files.listTrash()).filter(({ discardedAt }) => discardedAt <= clock.now() - TRASH_KEPT_MS);
  const known = await listKnownAttachments(
    database,
    due.map(({ id }) => id),
  );
  for (const { id } of due) await (known.has(id) ? files.restore(id) : files.removeFromTrash(id));
  if (due.length > 0) log.info('attachment_trash_emptied', { removed: due.length - known.size, restored: known.size });
}
