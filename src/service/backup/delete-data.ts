import { type Dirent, existsSync } from 'node:fs';
import { lstat, readdir, rm, rmdir } from 'node:fs/promises';
import { join } from 'node:path';

import { isId } from '../../wire/id.js';
import { ATTACHMENTS_FOLDER, DATABASE_FILE, IDENTITY_FILE, LOCK_FILE, TRASH_FOLDER } from '../store/data-directory.js';
import { loadSqlite } from '../store/sqlite-driver.js';
import { lockDataDirectory } from '../store/sqlite-lock.js';
import { isOwnDatabase } from '../store/sqlite-snapshot.js';
import { BackupError } from './backup-error.js';

/** The database comes after its journals: without them it is still one, while journals alone would belong to the next. */
const DATABASE_FILES = [`${DATABASE_FILE}-wal`, `${DATABASE_FILE}-shm`, DATABASE_FILE];
const UNFINISHED = '.part';

/** What there is to delete in a data folder. */
export interface Found {
  readonly attachments: number;
  readonly bytes: number;
}

/** A data folder that nobody else can use until it is let go. */
export interface HeldData {
  readonly found: Found;
  /** Deletes the data and nothing else: what is not the service's stays, as do the folder and its lock. */
  delete(): Promise<void>;
  letGo(): void;
}

/**
 * Takes the data of a stopped service, to delete them. Refused is a folder that a service uses (`DataInUseError`), one whose
 * database is not this program's, and one with links in place of the data. Undefined: there is nothing in it.
 */
export async function holdData(directory: string): Promise<HeldData | undefined> {
  const entries = await listFolder(directory);
  if (entries.every(({ name }) => name === LOCK_FILE)) return undefined;
  requireOurs(directory, entries);
  const open = await loadSqlite();
  const { release: letGo } = lockDataDirectory(open, join(directory, LOCK_FILE), directory);
  try {
    if (!(await isOwnDatabase(join(directory, DATABASE_FILE))))
      throw notOurs(directory, `${DATABASE_FILE} in it is damaged, or some other program's.`);
    const folder = join(directory, ATTACHMENTS_FOLDER);
    const hasAttachments = entries.some(({ name }) => name === ATTACHMENTS_FOLDER);
    const attachments = hasAttachments ? await listAttachments(folder) : [];
    const trash = join(folder, TRASH_FOLDER);
    const discarded = existsSync(trash) ? await listAttachments(trash) : [];
    const paths = [...DATABASE_FILES.map((name) => join(directory, name)), ...attachments];
    return {
      found: {
        attachments: attachments.filter((path) => !path.endsWith(UNFINISHED)).length,
        bytes: await sizeOf(paths),
      },
      async delete() {
        for (const path of [...paths, ...discarded, join(folder, IDENTITY_FILE)]) await rm(path, { force: true });
        for (const path of [trash, folder]) if (existsSync(path)) await removeIfEmpty(path);
      },
      letGo,
    };
  } catch (error) {
    letGo();
    throw error;
  }
}

async function listFolder(directory: string): Promise<Dirent[]> {
  try {
    if ((await lstat(directory)).isSymbolicLink())
      throw notOurs(directory, 'it is a link. Name the folder that it leads to.');
    return await readdir(directory, { withFileTypes: true });
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
    throw error;
  }
}

function requireOurs(directory: string, entries: readonly Dirent[]): void {
  const find = (name: string): Dirent | undefined => entries.find((entry) => entry.name === name);
  if (find(DATABASE_FILE) === undefined) throw notOurs(directory, `there is no ${DATABASE_FILE} in it.`);
  for (const name of [...DATABASE_FILES, LOCK_FILE])
    if (find(name)?.isFile() === false) throw notOurs(directory, `${name} in it is a link, or no file.`);
  if (find(ATTACHMENTS_FOLDER)?.isDirectory() === false)
    throw notOurs(directory, `${ATTACHMENTS_FOLDER} in it is a link, or no folder.`);
}

function notOurs(directory: string, why: string): BackupError {
  return new BackupError('NO_DATA', `${directory} is not known to be the data of a service: ${why}`);
}

async function listAttachments(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && isId('attachment', entry.name.replace(/\.part$/, '')))
    .map(({ name }) => join(folder, name));
}

async function sizeOf(paths: readonly string[]): Promise<number> {
  let bytes = 0;
  for (const path of paths) bytes += (await lstat(path).catch(() => undefined))?.size ?? 0;
  return bytes;
}

/** What somebody else has put there stays, and the folder with it. */
async function removeIfEmpty(folder: string): Promise<void> {
  const [first] = await readdir(folder);
  if (first === undefined) await rmdir(folder);
}
