import { isSearchOn, type SearchSetting, type ServiceContext } from '../core/context.js';
import type { Transaction } from '../core/database.js';
import type { DeletedKind } from '../core/meter.js';
import { deleteActivitiesOfAccount } from '../store/activities.js';
import { type AgentRecordRow, eraseAgent, eraseMarks, listEveryAgentOfAccount } from '../store/agents.js';
import { deleteAttachmentsOfSession, listAttachmentsOfSession } from '../store/attachments.js';
import { eachPage, eachRow } from '../store/cursor.js';
import {
  deleteRowsOfSession,
  deleteSession,
  type EndedRow,
  FIRST_END,
  forgetDeletedSession,
  type HeldSession,
  holdSession,
  isOfOneAccount,
  listDeletedSessions,
  listEnded,
} from '../store/deleted-sessions.js';
import { isUnspread } from '../store/inboxes.js';
import { sessionLock } from '../store/lock-names.js';
import { eraseClientNames } from '../store/oauth-clients.js';
import { listSessionIdsOfSibling } from '../store/participants.js';
import { deleteWordsOfSession, FIRST_WORD, isUnindexed, type WordPosition } from '../store/search.js';
import { forgetKeysOf } from './idempotency.js';
import { indexMessages } from './search-messages.js';

/** How much was deleted. */
export type Deletions = Record<DeletedKind, number>;

type RetentionContext = Pick<ServiceContext, 'clock' | 'database' | 'files'> & SearchSetting;

interface Run {
  /** Counts as it goes, so that an interrupted run knows what it did. */
  readonly deleted: Deletions;
  /** The rest can wait for another run. */
  readonly isOver: () => boolean;
}

const NEVER = (): boolean => false;

export function nothingDeleted(): Deletions {
  return { sessions: 0, events: 0, attachments: 0 };
}

/** Whether a run of `deleteOldSessions` would find something to do. */
export async function isDeletionDue(
  { clock, database }: RetentionContext,
  ageMs: number | undefined,
): Promise<boolean> {
  return database.behind.read(async (query) => {
    if ((await listDeletedSessions(query, 1)).length > 0) return true;
    if (ageMs === undefined) return false;
    const ended = await listEnded(query, clock.now() - ageMs, FIRST_END, database.pageRows);
    return ended.some(({ is_quiet: isQuiet }) => isQuiet === 1) || ended.length === database.pageRows;
  });
}

/**
 * Deletes ended sessions in which nothing has happened for `ageMs`, oldest first, with everything that belongs to them.
 * One short transaction makes a session vanish, and others remove in pieces what it leaves. A run that was interrupted
 * is continued by the next one. Without an age, it only continues others.
 */
export async function deleteOldSessions(context: RetentionContext, ageMs: number | undefined, run: Run): Promise<void> {
  const { clock, database } = context;
  await deleteRemains(context, run);
  if (ageMs === undefined) return;
  const before = clock.now() - ageMs;
  const mayGo = async (_: Transaction, { state, last_at: lastAt }: HeldSession): Promise<boolean> =>
    state === 'ended' && lastAt !== null && lastAt <= before;
  const ended = eachRow<EndedRow>(database.pageRows, (last, limit) =>
    database.behind.read((query) => listEnded(query, before, last ?? FIRST_END, limit)),
  );
  for await (const { id, is_quiet: isQuiet } of ended) {
    if (run.isOver()) return;
    if (isQuiet === 1) await deleteOne(context, id, mayGo, run);
  }
}

/**
 * Deletes what a removed account leaves that no one else can see: sessions in which only its agents have ever taken part,
 * the texts about its agents, the names of its API credentials, what its calls were answered, its activity. Messages that
 * others received stay with them.
 */
export async function eraseAccount(
  context: RetentionContext & Pick<ServiceContext, 'inboxes'>,
  accountId: string,
  deleted: Deletions,
): Promise<void> {
  const { database } = context;
  const { pageRows } = database;
  await deleteRemains(context, { deleted, isOver: NEVER });
  const agents = eachRow<AgentRecordRow>(pageRows, (last, limit) =>
    database.read((query) => listEveryAgentOfAccount(query, accountId, last?.id ?? '', limit)),
  );
  for await (const { id: agentId } of agents) {
    const pages = eachPage<string>(pageRows, (last = '', limit) =>
      database.read((query) => listSessionIdsOfSibling(query, accountId, agentId, last, limit)),
    );
    for await (const ids of pages) await eraseSessions(context, accountId, ids, deleted);
    await forgetKeysOf(context, agentId);
    await database.write((transaction) => eraseAgent(transaction, agentId));
  }
  await forgetKeysOf(context, accountId);
  await database.write(async (transaction) => {
    await eraseClientNames(transaction, accountId);
    await eraseMarks(transaction, accountId);
    await deleteActivitiesOfAccount(transaction, accountId);
  });
}

/** Its agents have just left these sessions, so inboxes and the search index may have to follow first. */
const TRIES_MAX = 10;

async function eraseSessions(
  context: RetentionContext & Pick<ServiceContext, 'inboxes'>,
  accountId: string,
  sessionIds: readonly string[],
  deleted: Deletions,
): Promise<void> {
  const { database, inboxes } = context;
  const run = { deleted, isOver: NEVER };
  let left = sessionIds;
  for (let tries = 0; tries < TRIES_MAX && left.length > 0; tries += 1) {
    await inboxes.settle();
    if (isSearchOn(context)) while (await indexMessages(context));
    const kept: string[] = [];
    for (const id of left) {
      if (!(await database.read((query) => isOfOneAccount(query, id, accountId)))) continue;
      const mayGo = (transaction: Transaction): Promise<boolean> => isOfOneAccount(transaction, id, accountId);
      if (!(await deleteOne(context, id, mayGo, run))) kept.push(id);
    }
    left = kept;
  }
  if (left.length > 0) throw new Error('Inboxes or the search index do not follow, so sessions could not be erased.');
}

type Condition = (transaction: Transaction, session: HeldSession) => Promise<boolean>;

/** False: it may not go, or not yet. */
async function deleteOne(context: RetentionContext, sessionId: string, mayGo: Condition, run: Run): Promise<boolean> {
  const isGone = await context.database.behind.write((transaction) =>
    vanish(transaction, sessionId, mayGo, isSearchOn(context)),
  );
  if (!isGone) return false;
  run.deleted.sessions += 1;
  await deleteRemainsOf(context, sessionId, run);
  return true;
}

/**
 * Asks again while it holds the session, which may have been reopened. A session whose events are not all in inboxes and
 * in the search index waits: the work that puts them there must find them.
 */
async function vanish(
  transaction: Transaction,
  sessionId: string,
  mayGo: Condition,
  isIndexed: boolean,
): Promise<boolean> {
  await transaction.lock([sessionLock(sessionId)]);
  const session = await holdSession(transaction, sessionId);
  if (session === undefined || !(await mayGo(transaction, session))) return false;
  const { last_position: position } = session;
  if (position !== null && (await isUnspread(transaction, position))) return false;
  if (isIndexed && position !== null && (await isUnindexed(transaction, position))) return false;
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
