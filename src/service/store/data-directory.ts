import { chmodSync, closeSync, lstatSync, openSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { makeDirectory } from '../../kit/private-file.js';
import { OperatorError } from '../core/errors.js';

export const DATABASE_FILE = 'asp.sqlite';
export const LOCK_FILE = 'asp.lock';
/** The latest backups of the folder, for its operator. */
export const BACKUPS_FILE = 'backups.json';
export const ATTACHMENTS_FOLDER = 'attachments';
/** In the attachments folder: files that the sweep moved to the trash, and the mark of the data that they belong to. */
export const TRASH_FOLDER = 'trash';
export const IDENTITY_FILE = 'identity';

/** Where a backup is unpacked and checked before it is put in place. */
export const UNFINISHED_FOLDER = '.restoring';

const OWNER_ONLY_FILE = 0o600;
const OTHERS_MAY_WRITE = 0o022;
const STICKY = 0o1000;
const isPosix = process.platform !== 'win32';

/**
 * Creates a private data directory and the files of a new database. Refuses one where others could replace these files,
 * and files that are links.
 */
export function prepareDataDirectory(directory: string): void {
  makeDirectory(directory);
  const { mode } = statSync(directory);
  if (isPosix && (mode & OTHERS_MAY_WRITE) !== 0 && (mode & STICKY) === 0)
    throw new OperatorError(
      'DATABASE_NOT_USABLE',
      `Other users can write to ${directory}, the data folder. Run chmod 700 on it, or use a new folder in it.`,
    );
  for (const name of [DATABASE_FILE, `${DATABASE_FILE}-wal`, `${DATABASE_FILE}-shm`, LOCK_FILE])
    refuseLink(join(directory, name));
  for (const name of [DATABASE_FILE, LOCK_FILE]) keepToOwner(join(directory, name));
}

function refuseLink(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true)
    throw new OperatorError('DATABASE_NOT_USABLE', `${path} is a link, which asp does not follow.`);
}

/** SQLite gives its journal the mode of the database. */
export function keepToOwner(path: string): void {
  closeSync(openSync(path, 'a', OWNER_ONLY_FILE));
  if (isPosix) chmodSync(path, OWNER_ONLY_FILE);
}
