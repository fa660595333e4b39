import { createHash } from 'node:crypto';
import { type FileHandle, open, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { makeDirectory } from '../../kit/private-file.js';
import { isId } from '../../wire/id.js';
import { ATTACHMENTS_FOLDER, DATABASE_FILE } from '../store/data-directory.js';
import { DatabaseUnusableError } from '../store/database.js';
import { checkDatabase, type Snapshot } from '../store/sqlite-snapshot.js';
import { BackupError } from './backup-error.js';
import { syncDirectory } from './create-backup.js';
import { type FoundEntry, listTar } from './tar.js';

const OWNER_ONLY_FILE = 0o600;
const UNFINISHED = '.restoring';

export interface Restored {
  readonly attachments: number;
  readonly schemaVersion: number;
}

/**
 * Lays the data of a backup into `directory`, which is made if need be and must be empty. The data are unpacked beside their
 * place and checked there: the database for integrity and version, each attachment against what the database knows of it.
 */
export async function restoreBackup(file: string, directory: string): Promise<Restored> {
  const archive = await open(file, 'r');
  try {
    await requireEmpty(directory);
    const work = join(directory, UNFINISHED);
    try {
      const hashes = await unpack(archive, work);
      const snapshot = await check(work);
      requireAttachments(snapshot, hashes);
      await putInPlace(work, directory);
      return { attachments: hashes.size, schemaVersion: snapshot.schemaVersion };
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  } finally {
    await archive.close();
  }
}

async function requireEmpty(directory: string): Promise<void> {
  makeDirectory(directory);
  const [first] = await readdir(directory);
  if (first !== undefined)
    throw new BackupError('NOT_EMPTY', `${directory} is not empty (${first} is in it), and was left as it is.`);
}

/** The SHA-256 of each attachment that was unpacked. */
async function unpack(archive: FileHandle, work: string): Promise<Map<string, string>> {
  makeDirectory(join(work, ATTACHMENTS_FOLDER));
  const hashes = new Map<string, string>();
  let hasDatabase = false;
  for await (const entry of listTar(archive)) {
    const [folder, id = '', ...more] = entry.name.split('/');
    if (entry.kind === 'directory') {
      if (folder !== ATTACHMENTS_FOLDER || id !== '') throw foreign(entry);
    } else if (entry.name === DATABASE_FILE && !hasDatabase) {
      hasDatabase = true;
      await extract(archive, entry, join(work, DATABASE_FILE));
    } else if (folder === ATTACHMENTS_FOLDER && more.length === 0 && isId('attachment', id) && !hashes.has(id)) {
      hashes.set(id, await extract(archive, entry, join(work, ATTACHMENTS_FOLDER, id)));
    } else throw foreign(entry);
  }
  if (!hasDatabase) throw new BackupError('BROKEN', 'The file is no backup of asp: it holds no database.');
  return hashes;
}

/** A name that no backup holds may be a path to anywhere. */
function foreign({ name }: FoundEntry): BackupError {
  return new BackupError('BROKEN', `The file is no backup of asp: it holds ${JSON.stringify(name)}.`);
}

async function extract(archive: FileHandle, { offset, size }: FoundEntry, path: string): Promise<string> {
  const hash = createHash('sha256');
  const out = await open(path, 'wx', OWNER_ONLY_FILE);
  try {
    if (size > 0)
      for await (const chunk of archive.createReadStream({ autoClose: false, start: offset, end: offset + size - 1 })) {
        hash.update(chunk as Buffer);
        await out.write(chunk as Buffer);
      }
    await out.sync();
  } finally {
    await out.close();
  }
  return hash.digest('hex');
}

async function check(work: string): Promise<Snapshot> {
  try {
    return await checkDatabase(join(work, DATABASE_FILE));
  } catch (error) {
    if (error instanceof DatabaseUnusableError) throw new BackupError('BROKEN', error.message, error);
    throw error;
  }
}

function requireAttachments({ attachments }: Snapshot, hashes: ReadonlyMap<string, string>): void {
  for (const { id, sha256, isClaimed } of attachments) {
    const found = hashes.get(id);
    if (found === undefined ? isClaimed : found !== sha256)
      throw new BackupError('BROKEN', `The backup is damaged: the attachment ${id} is missing or not what it was.`);
  }
}

/** The database comes last: without it nothing is there. */
async function putInPlace(work: string, directory: string): Promise<void> {
  await syncDirectory(join(work, ATTACHMENTS_FOLDER));
  await rename(join(work, ATTACHMENTS_FOLDER), join(directory, ATTACHMENTS_FOLDER));
  await rename(join(work, DATABASE_FILE), join(directory, DATABASE_FILE));
  await syncDirectory(directory);
}
