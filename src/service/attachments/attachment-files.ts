import { constants } from 'node:fs';
import { chmod, type FileHandle, mkdir, mkdtemp, open, readdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { isId } from '../../wire/id.js';

const UNFINISHED = '.part';
const OWNER_ONLY_FILE = 0o600;
const OWNER_ONLY_DIRECTORY = 0o700;

/** The bytes of attachments, one file each, named by the attachment's id and by nothing that a caller chose. */
export interface AttachmentFiles {
  /** A new file that is read by nobody until it is kept. */
  create(attachmentId: string): Promise<FileHandle>;
  /** Makes a created file the attachment's own; durable when it resolves. */
  keep(attachmentId: string): Promise<void>;
  /** Undefined: there is no such file. */
  open(attachmentId: string): Promise<FileHandle | undefined>;
  /** Finished or not; a missing file is as good as removed. */
  remove(attachmentId: string): Promise<void>;
  /** Every id that has a file, finished or not. */
  list(): Promise<string[]>;
  close(): Promise<void>;
}

/** `dataDirectory` undefined: files live in a directory of their own that goes when the service stops. */
export async function openAttachmentFiles(dataDirectory: string | undefined): Promise<AttachmentFiles> {
  const isTemporary = dataDirectory === undefined;
  const directory = isTemporary ? await mkdtemp(join(tmpdir(), 'asp-')) : join(dataDirectory, 'attachments');
  await mkdir(directory, { recursive: true, mode: OWNER_ONLY_DIRECTORY });
  await chmod(directory, OWNER_ONLY_DIRECTORY);
  return {
    create: (id) => open(`${pathOf(directory, id)}${UNFINISHED}`, 'wx', OWNER_ONLY_FILE),
    keep: async (id) => {
      await rename(`${pathOf(directory, id)}${UNFINISHED}`, pathOf(directory, id));
      await syncDirectory(directory);
    },
    open: (id) => openForReading(pathOf(directory, id)),
    remove: async (id) => {
      await rm(pathOf(directory, id), { force: true });
      await rm(`${pathOf(directory, id)}${UNFINISHED}`, { force: true });
    },
    list: async () => {
      const names = await readdir(directory);
      const ids = names.map((name) => (name.endsWith(UNFINISHED) ? name.slice(0, -UNFINISHED.length) : name));
      return ids.filter((id) => isId('attachment', id));
    },
    close: async () => {
      if (isTemporary) await rm(directory, { recursive: true, force: true });
    },
  };
}

function pathOf(directory: string, attachmentId: string): string {
  if (!isId('attachment', attachmentId)) throw new TypeError('not an attachment id');
  return join(directory, attachmentId);
}

async function openForReading(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
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
