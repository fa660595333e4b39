import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { chmod, type FileHandle, mkdtemp, open, readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isFileError, makeDirectory, replaceFile, syncDirectory } from '../../kit/private-file.js';
import { isId } from '../../wire/id.js';
import type { AttachmentFiles } from '../core/attachment-store.js';
import type { Database, Query } from '../core/database.js';
import { OperatorError } from '../core/errors.js';
import { hasAttachments, listKnownAttachments } from '../store/attachments.js';
import { ATTACHMENTS_FOLDER, IDENTITY_FILE, TRASH_FOLDER } from '../store/data-directory.js';
import { claimHome, seal } from '../store/keys.js';

const UNFINISHED = '.part';
const IDENTITY_MAX_LENGTH = 200;
const OWNER_ONLY_FILE = 0o600;
const OWNER_ONLY_DIRECTORY = 0o700;

/** `dataDirectory` undefined: files live in a temporary directory that is deleted when the service stops. */
export async function openAttachmentFiles(dataDirectory: string | undefined): Promise<AttachmentFiles> {
  const isTemporary = dataDirectory === undefined;
  const directory = isTemporary ? await mkdtemp(join(tmpdir(), 'asp-')) : getFolder(dataDirectory);
  const trash = join(directory, TRASH_FOLDER);
  await makeFolder(directory);
  const held = new Set<string>();
  let claimed: string | undefined;
  const requireOwn = async (): Promise<void> => {
    if (claimed !== undefined && (await readIdentity(directory)) !== claimed)
      throw new Error(`${directory} is no longer the attachments folder of this service. Is it mounted?`);
  };
  return {
    async create(id) {
      await requireOwn();
      held.add(id);
      return open(`${getPath(directory, id)}${UNFINISHED}`, 'wx', OWNER_ONLY_FILE);
    },
    async keep(id) {
      await rename(`${getPath(directory, id)}${UNFINISHED}`, getPath(directory, id));
      await syncDirectory(directory);
    },
    open: (id) => openForReading(getPath(directory, id)),
    openHere: (id) => openForReading(getPath(directory, id)),
    async remove(id) {
      await removeBoth(directory, id);
      held.delete(id);
    },
    release: (id) => void held.delete(id),
    list: async () => (await listIds(directory)).filter((id) => !held.has(id)),

    async discard(id, now) {
      await requireOwn();
      await makeFolder(trash);
      for (const name of [id, `${id}${UNFINISHED}`])
        if (await moved(join(directory, name), join(trash, name))) await touch(join(trash, name), now);
    },
    async restore(id) {
      if (!(await moved(getPath(trash, id), getPath(directory, id)))) return false;
      await syncDirectory(directory);
      return true;
    },
    async listTrash() {
      const found = [];
      for (const id of (await unlessMissing(listIds(trash))) ?? [])
        for (const name of [id, `${id}${UNFINISHED}`]) {
          const facts = await unlessMissing(stat(join(trash, name)));
          if (facts !== undefined) found.push({ id, discardedAt: facts.mtimeMs });
        }
      return found;
    },
    async removeFromTrash(id) {
      await requireOwn();
      await removeBoth(trash, id);
    },

    readIdentity: () => readIdentity(directory),
    async claim(identity) {
      if ((await readIdentity(directory)) !== identity) await writeIdentity(directory, identity);
      claimed = identity;
    },
    async close() {
      if (isTemporary) await rm(directory, { recursive: true, force: true });
    },
  };
}

/** The contents of the attachments folder of a data directory. Creates nothing. */
export async function lookAtFolder(
  dataDirectory: string,
): Promise<{ readonly path: string; readonly isClaimed: boolean; readonly hasFiles: boolean }> {
  const path = getFolder(dataDirectory);
  const [ids, identity] = await Promise.all([unlessMissing(listIds(path)), readIdentity(path)]);
  return { path, isClaimed: identity !== undefined, hasFiles: (ids ?? []).length > 0 };
}

async function makeFolder(path: string): Promise<void> {
  makeDirectory(path);
  await chmod(path, OWNER_ONLY_DIRECTORY);
}

function getFolder(dataDirectory: string): string {
  return join(dataDirectory, ATTACHMENTS_FOLDER);
}

function getPath(directory: string, attachmentId: string): string {
  if (!isId('attachment', attachmentId)) throw new TypeError('not an attachment id');
  return join(directory, attachmentId);
}

async function listIds(directory: string): Promise<string[]> {
  const names = await readdir(directory);
  const ids = names.map((name) => (name.endsWith(UNFINISHED) ? name.slice(0, -UNFINISHED.length) : name));
  return ids.filter((id) => isId('attachment', id));
}

async function removeBoth(directory: string, id: string): Promise<void> {
  await rm(getPath(directory, id), { force: true });
  await rm(`${getPath(directory, id)}${UNFINISHED}`, { force: true });
}

async function readIdentity(directory: string): Promise<string | undefined> {
  const text = await unlessMissing(readFile(join(directory, IDENTITY_FILE), 'utf8'));
  return text?.trim().slice(0, IDENTITY_MAX_LENGTH);
}

/** If the file exists, it is complete, even after a power loss. */
function writeIdentity(directory: string, identity: string): Promise<void> {
  return replaceFile(join(directory, IDENTITY_FILE), `${identity}\n`);
}

async function openForReading(path: string): Promise<FileHandle | undefined> {
  return unlessMissing(open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0)));
}

async function moved(from: string, to: string): Promise<boolean> {
  return (await unlessMissing(rename(from, to).then(() => true))) === true;
}

/** The change time says when a file was moved to the trash. */
async function touch(path: string, now: number): Promise<void> {
  await unlessMissing(utimes(path, now / 1000, now / 1000));
}

async function unlessMissing<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (isFileError(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** In a larger folder, this many files are checked. */
const SAMPLE = 2_000;
const KNOWN_SHARE_MIN = 0.9;
const MARK_BYTES = 16;

interface Claim {
  readonly database: Database;
  readonly files: AttachmentFiles;
  /** For people. */
  readonly path: string;
  /** The operator confirmed that it belongs to this data, no matter what it contains. */
  readonly isAdopted: boolean;
}

/**
 * Refuses a folder or bucket that belongs to other data, and then changes nothing. It carries a mark with a seal of its
 * data. The first of all services on one database decides which mark is theirs: a service that starts with its own
 * folder would not find the files of the others. An unmarked folder is accepted if its files are in the database.
 */
export async function claimAttachments({ database, files, path, isAdopted }: Claim): Promise<void> {
  const found = await files.readIdentity();
  const mark = found === undefined ? undefined : await readMark(database, found);
  if (!isAdopted && found !== undefined && mark === undefined) throw unusable(path, 'belong to a different database');
  const hasOwnFiles = !isAdopted && found === undefined && (await requireConsistency(database, files, path));
  const isTrusted = isAdopted || hasOwnFiles || database.isExclusive;
  const own = mark ?? randomBytes(MARK_BYTES).toString('hex');
  // Services that start at once wait here for the first one, which marks the folder before it commits.
  await database.write(async (transaction) => {
    const home = await claimHome(transaction, own);
    const identity = await toIdentity(transaction, home);
    if (!isTrusted && home !== own && (await files.readIdentity()) !== identity)
      throw unusable(path, 'are not those that the other services on this database use: share one folder, or a bucket');
    await files.claim(identity);
  });
}

const toIdentity = async (query: Query, mark: string): Promise<string> =>
  `${mark}.${(await seal(query, 'attachments', mark)).toString('hex')}`;

/** The mark of an identity that this data has sealed. */
async function readMark(database: Database, identity: string): Promise<string | undefined> {
  const [mark = ''] = identity.split('.');
  return (await database.read((query) => toIdentity(query, mark))) === identity ? mark : undefined;
}

/** Whether there are files, all of them of this database. */
async function requireConsistency(database: Database, files: AttachmentFiles, path: string): Promise<boolean> {
  const ids = await files.list();
  if (ids.length === 0) {
    if (await database.read(hasAttachments))
      throw unusable(path, 'are missing: the database has some, and there are no files');
    return false;
  }
  const step = Math.ceil(ids.length / SAMPLE);
  const sample = ids.filter((_, index) => index % step === 0);
  const known = await listKnownAttachments(database, sample);
  if (known.size < sample.length * KNOWN_SHARE_MIN)
    throw unusable(path, `do not belong to this database, which has rows for ${known.size} of ${sample.length} files`);
  return true;
}

function unusable(path: string, why: string): OperatorError {
  return new OperatorError(
    'DATABASE_NOT_USABLE',
    `The attachments in ${path} ${why}. Nothing was changed. Check the data folder, the database and its search_path; ` +
      'if they are right, start once with --adopt-attachments.',
  );
}
