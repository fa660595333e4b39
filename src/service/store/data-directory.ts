import { chmodSync, closeSync, lstatSync, openSync, statSync } from 'node:fs';
import { join } from 'node:path';

import { makeDirectory } from '../../kit/private-file.js';
import { DatabaseUnusableError } from './database.js';

export const DATABASE_FILE = 'asp.sqlite';
export const LOCK_FILE = 'asp.lock';
export const ATTACHMENTS_FOLDER = 'attachments';
/** In the attachments folder: files that the sweep took out of use, and the mark of the data that they belong to. */
export const TRASH_FOLDER = 'trash';
export const IDENTITY_FILE = 'identity';

const OWNER_ONLY_FILE = 0o600;
const OTHERS_MAY_WRITE = 0o022;
const STICKY = 0o1000;
const isPosix = process.platform !== 'win32';

/**
 * Makes a data directory, and the files that a database begins with, for their owner alone. Refused is one in which
 * others could put files in place of these, and files that are links to somewhere else.
 */
export function prepareDataDirectory(directory: string): void {
  makeDirectory(directory);
  const { mode } = statSync(directory);
  if (isPosix && (mode & OTHERS_MAY_WRITE) !== 0 && (mode & STICKY) === 0)
    throw new DatabaseUnusableError(
      `Other users may write in ${directory}, where the data are: chmod 700 it, or use a new folder in it.`,
    );
  for (const name of [DATABASE_FILE, `${DATABASE_FILE}-wal`, `${DATABASE_FILE}-shm`, LOCK_FILE])
    refuseLink(join(directory, name));
  for (const name of [DATABASE_FILE, LOCK_FILE]) keepToOwner(join(directory, name));
}

function refuseLink(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true)
    throw new DatabaseUnusableError(`${path} is a link to somewhere else, and is not followed.`);
}

/** SQLite gives its journal the mode of the database. */
export function keepToOwner(path: string): void {
  closeSync(openSync(path, 'a', OWNER_ONLY_FILE));
  if (isPosix) chmodSync(path, OWNER_ONLY_FILE);
}
