import { decodeTime } from 'ulid';

import { repeat } from '../../kit/repeat.js';
import { ID_PREFIX } from '../../wire/id.js';
import { PENDING_ATTACHMENT_LIFETIME_S } from '../../wire/limit.js';
import type { ServiceContext } from '../context.js';
import { deletePendingAttachment, findAttachment, listExpiredAttachments } from '../store/attachment-rows.js';

const BATCH = 100;

type SweepContext = Pick<ServiceContext, 'clock' | 'database' | 'files'>;

/**
 * Removes attachments that no message referred to within their hour. A row goes first, in a transaction that a claim
 * comes before or after as a whole, and its file only then: a crash between the two leaves a file without a row, which
 * `removeOrphanFiles` finds.
 */
export async function sweepAttachments(context: SweepContext): Promise<void> {
  const expiredAt = context.clock.now() - PENDING_ATTACHMENT_LIFETIME_S * 1000;
  let removed: string[];
  do {
    removed = await context.database.write(async (transaction) => {
      const deleted: string[] = [];
      for (const id of await listExpiredAttachments(transaction, expiredAt, BATCH))
        if (await deletePendingAttachment(transaction, id)) deleted.push(id);
      return deleted;
    });
    for (const id of removed) await context.files.remove(id);
  } while (removed.length === BATCH);
}

/** Removes files that are older than any upload takes, and have no row: of uploads and sweeps that a crash cut short. */
export async function removeOrphanFiles(context: SweepContext): Promise<void> {
  const expiredAt = context.clock.now() - PENDING_ATTACHMENT_LIFETIME_S * 1000;
  for (const id of await context.files.list()) {
    if (decodeTime(id.slice(ID_PREFIX.attachment.length)) > expiredAt) continue;
    const row = await context.database.read((query) => findAttachment(query, id));
    if (row === undefined) await context.files.remove(id);
  }
}

const PAUSE_MS = 60_000;
const ORPHANS_EVERY = 60;

/** Sweeps every minute, and looks for orphans at the start and every hour. */
export function startSweeping(context: SweepContext & Pick<ServiceContext, 'log'>): () => Promise<void> {
  let round = 0;
  const sweep = async (): Promise<void> => {
    await sweepAttachments(context);
    if (round % ORPHANS_EVERY === 0) await removeOrphanFiles(context);
    round += 1;
  };
  return repeat(context.clock, PAUSE_MS, sweep, (error) => context.log.error('sweep_failed', error));
}
