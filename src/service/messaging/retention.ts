import type { ServiceContext } from '../core/context.js';
import type { Transaction } from '../core/database.js';
import type { DeletedKind } from '../core/meter.js';
import { deleteAttachmentsOfSession, listAttachmentsOfSession } from '../store/attachments.js';
import {
  deleteRowsOfSession,
  deleteSession,
  type EndPosition,
  FIRST_END,
  forgetDeletedSession,
  type HeldSession,
  holdSession,
  listDeletedSessions,
  listEnded,
} from '../store/deleted-sessions.js';
import { isUnspread } from '../store/inboxes.js';
import { sessionLock } from '../store/lock-names.js';
import { deleteWordsOfSession, FIRST_WORD, isUnindexed, type WordPosition } from '../store/search.js';

/** How much was deleted. */
export type Deletions = Record<DeletedKind, number>;

type RetentionContext = Pick<ServiceContext, 'clock' | 'database' | 'files'>;

interface Run {
  /** Counts as it goes, so that an interrupted run knows what it did. */
  readonly deleted: Deletions;
  /** The rest can wait for another run. */
  readonly isOver: () => boolean;
}

export function nothingDeleted(): Deletions {
  return { sessions: 0, events: 0, attachments: 0 };
}

/** Whether a run of `deleteOldSessions` would find something to do. */
export async function isDeletionDue({ clock, database }: RetentionContext, ageMs: number): Promise<boolean> {
  return database.behind.read(async (query) => {
    if ((await listDeletedSessions(query, 1)).length > 0) return true;
    const ended = await listEnded(query, clock.now() - ageMs, FIRST_END, database.pageRows);
    return ended.some(({ is_quiet: isQuiet }) => isQuiet === 1) || ended.length === database.pageRows;
  });
}

/**
 * Deletes ended sessions in which nothing has happened for `ageMs`, oldest first, with everything that belongs to them.
 * One short transaction makes a session vanish, and others remove in pieces what it leaves. A run that was interrupted
 * is continued by the next one.
 */
export async function deleteOldSessions(context: RetentionContext, ageMs: number, run: Run): Promise<void> {
  const { clock, database } = context;
  await deleteRemains(context, run);
  const before = clock.now() - ageMs;
  const mayGo = async (_: Transaction, { state, last_at: lastAt }: HeldSession): Promise<boolean> =>
    state === 'ended' && lastAt !== null && lastAt <= before;
  let after: EndPosition | undefined = FIRST_END;
  while (after !== undefined && !run.isOver()) {
    const start: EndPosition = after;
    const page = await database.behind.read((query) => listEnded(query, before, start, database.pageRows));
    for (const { id, is_quiet: isQuiet } of page) {
      if (run.isOver()) return;
      if (isQuiet === 1) await deleteOne(context, id, mayGo, run);
    }
    after = page.length < database.pageRows ? undefined : page.at(-1);
  }
}

type Condition = (transaction: Transaction, session: HeldSession) => Promise<boolean>;

async function deleteOne(context: RetentionContext, sessionId: string, mayGo: Condition, run: Run): Promise<void> {
  const isGone = await context.database.behind.write((transaction) => vanish(transaction, sessionId, mayGo));
  if (!isGone) return;
  run.deleted.sessions += 1;
  await deleteRemainsOf(context, sessionId, run);
}

/**
 * Asks again while it holds the session, which may have been reopened. A session whose events are not all in inboxes and
 * in the search index waits: the work that puts them there must find them.
 */
async function vanish(transaction: Transaction, sessionId: string, mayGo: Condition): Promise<boolean> {
  await transaction.lock([sessionLock(sessionId)]);
  const session = await holdSession(transaction, sessionId);
  if (session === undefined || !(await mayGo(transaction, session))) return false;
  const { last_position: position } = session;
  if (position !== null && (await isUnspread(transaction, position))) return false;
  if (position !== null && (await isUnindexed(transaction, position))) return false;
  await deleteSession(transaction, sessionId);
  return true;
}

/** What interrupted runs have left. */
async function deleteRemains(context: RetentionContext, run: Run): Promise<void> {
  const { database } = context;
  while (!run.isOver()) {
    const ids = await database.behind.read((query) => listDeletedSessions(query, database.pageRows));
    if (ids.length === 0) return;
    for (const id of ids) await deleteRemainsOf(context, id, run);
  }
}

async function deleteRemainsOf(context: RetentionContext, sessionId: string, run: Run): Promise<void> {
  const { database } = context;
  const { pageRows } = database;
  if (!(await deleteAttachments(context, sessionId, run))) return;
  // While the events are still there: their positions tell which entries are theirs.
  let word: WordPosition | undefined = FIRST_WORD;
  while (word !== undefined) {
    if (run.isOver()) return;
    const after: WordPosition = word;
    word = await database.behind.write((transaction) => deleteWordsOfSession(transaction, sessionId, after, pageRows));
  }
  let hasMore = true;
  while (hasMore) {
    if (run.isOver()) return;
    const rows = await database.behind.write((transaction) => deleteRowsOfSession(transaction, sessionId, pageRows));
    run.deleted.events += rows.events;
    hasMore = rows.hasMore;
  }
  await database.behind.write((transaction) => forgetDeletedSession(transaction, sessionId));
}

/**
 * The file goes first: a row without a file is found again by the next run, and no one can ask for it. Files spend a week
 * in the trash, because a backup that is being made, or the dump of a database, may refer to them.
 */
async function deleteAttachments(
  { clock, database, files }: RetentionContext,
  sessionId: string,
  run: Run,
): Promise<boolean> {
  for (;;) {
    if (run.isOver()) return false;
    const ids = await database.behind.read((query) => listAttachmentsOfSession(query, sessionId, database.pageRows));
    if (ids.length === 0) return true;
    for (const id of ids) await files.discard(id, clock.now());
    run.deleted.attachments += await database.behind.write((transaction) =>
      deleteAttachmentsOfSession(transaction, sessionId, ids),
    );
  }
}
