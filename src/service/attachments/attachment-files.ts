import { constants } from 'node:fs';
import {
  chmod,
  type FileHandle,
  mkdtemp,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { makeDirectory } from '../../kit/private-file.js';
import { isId } from '../../wire/id.js';
import { ATTACHMENTS_FOLDER, IDENTITY_FILE, TRASH_FOLDER } from '../store/data-directory.js';

const UNFINISHED = '.part';
const IDENTITY_MAX_LENGTH = 200;
const OWNER_ONLY_FILE = 0o600;
const OWNER_ONLY_DIRECTORY = 0o700;

/** A file in the trash. */
export interface DiscardedFile {
  readonly id: string;
  /** Epoch milliseconds. */
  readonly discardedAt: number;
}

/** The bytes of attachments, one file each, named by the attachment's id and by nothing that a caller chose. */
export interface AttachmentFiles {
  /** A new file that is read by nobody until it is kept. Throws where the folder is no longer the one that was claimed. */
  create(attachmentId: string): Promise<FileHandle>;
  /** Makes a created file the attachment's own; durable when it resolves. */
  keep(attachmentId: string): Promise<void>;
  /** Undefined: there is no such file. */
  open(attachmentId: string): Promise<FileHandle | undefined>;
  /** Finished or not; a missing file is as good as removed. */
  remove(attachmentId: string): Promise<void>;
  /** Who created the file needs it no more, and it stays. */
  release(attachmentId: string): void;
  /** Every id that has a file, finished or not, but for those that this process created and has not let go of. */
  list(): Promise<string[]>;

  /** Moves a file to the trash, finished or not. */
  discard(attachmentId: string, now: number): Promise<void>;
  /** Takes a file out of the trash again. False: it is not there. */
  restore(attachmentId: string): Promise<boolean>;
  listTrash(): Promise<DiscardedFile[]>;
  removeFromTrash(attachmentId: string): Promise<void>;

  /** Which data the folder belongs to; undefined while nobody has claimed it. */
  readIdentity(): Promise<string | undefined>;
  /** Marks the folder as that of these data. From now on nothing is written into it while it bears another mark, or none. */
  claim(identity: string): Promise<void>;
  close(): Promise<void>;
}

/** `dataDirectory` undefined: files live in a directory of their own that goes when the service stops. */
export async function openAttachmentFiles(dataDirectory: string | undefined): Promise<AttachmentFiles> {
  const isTemporary = dataDirectory === undefined;
  const directory = isTemporary ? await mkdtemp(join(tmpdir(), 'asp-')) : folderOf(dataDirectory);
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
      return open(`${pathOf(directory, id)}${UNFINISHED}`, 'wx', OWNER_ONLY_FILE);
    },
    async keep(id) {
      await rename(`${pathOf(directory, id)}${UNFINISHED}`, pathOf(directory, id));
      await syncDirectory(directory);
    },
    open: (id) => openForReading(pathOf(directory, id)),
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
      if (!(await moved(pathOf(trash, id), pathOf(directory, id)))) return false;
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

/** What stands in the attachments folder of a data directory. Makes nothing. */
export async function lookAtFolder(
  dataDirectory: string,
): Promise<{ readonly path: string; readonly isClaimed: boolean; readonly hasFiles: boolean }> {
  const path = folderOf(dataDirectory);
  const [ids, identity] = await Promise.all([unlessMissing(listIds(path)), readIdentity(path)]);
  return { path, isClaimed: identity !== undefined, hasFiles: (ids ?? []).length > 0 };
}

async function makeFolder(path: string): Promise<void> {
  makeDirectory(path);
  await chmod(path, OWNER_ONLY_DIRECTORY);
}

function folderOf(dataDirectory: string): string {
  return join(dataDirectory, ATTACHMENTS_FOLDER);
}

function pathOf(directory: string, attachmentId: string): string {
  if (!isId('attachment', attachmentId)) throw new TypeError('not an attachment id');
  return join(directory, attachmentId);
}

async function listIds(directory: string): Promise<string[]> {
  const names = await readdir(directory);
  const ids = names.map((name) => (name.endsWith(UNFINISHED) ? name.slice(0, -UNFINISHED.length) : name));
  return ids.filter((id) => isId('attachment', id));
}

async function removeBoth(directory: string, id: string): Promise<void> {
  await rm(pathOf(directory, id), { force: true });
  await rm(`${pathOf(directory, id)}${UNFINISHED}`, { force: true });
}

async function readIdentity(directory: string): Promise<string | undefined> {
  const text = await unlessMissing(readFile(join(directory, IDENTITY_FILE), 'utf8'));
  return text?.trim().slice(0, IDENTITY_MAX_LENGTH);
}

/** Whoever finds the file finds all of it, also after a loss of power. */
async function writeIdentity(directory: string, identity: string): Promise<void> {
  const unfinished = join(directory, `${IDENTITY_FILE}${UNFINISHED}`);
  await writeFile(unfinished, `${identity}\n`, { mode: OWNER_ONLY_FILE, flush: true });
  await rename(unfinished, join(directory, IDENTITY_FILE));
  await syncDirectory(directory);
}

async function openForReading(path: string): Promise<FileHandle | undefined> {
  return unlessMissing(open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0)));
}

async function moved(from: string, to: string): Promise<boolean> {
  return (await unlessMissing(rename(from, to).then(() => true))) === true;
}

/** The time of its last change says when a file came into the trash. */
async function touch(path: string, now: number): Promise<void> {
  await unlessMissing(utimes(path, now / 1000, now / 1000));
}

async function unlessMissing<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/** A rename is durable once its directory is. Windows cannot open directories, and needs no such step. */
async function syncDirectory(directory: string): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await open(directory, constants.O_RDONLY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
