import { randomBytes } from 'node:crypto';
// Reads are small and synchronous: they need neither a thread nor `node:fs/promises`, which every command would pay
// for. The first write loads `promises`.
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  promises,
  readdirSync,
  readFileSync,
  type Stats,
  statSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { systemClock, wait } from './clock.js';
import { codeOf } from './format.js';

const READ_MAX_BYTES = 4 * 1024 * 1024;
const isPosix = process.platform !== 'win32';

const UNSAFE_FILE = 'UNSAFE_FILE';

/** Whether an error says that someone else could have written or could read a file or directory. Its message says how. */
export function isUnsafeFile(error: unknown): error is Error {
  return isFileError(error, UNSAFE_FILE);
}

function unsafeFile(message: string): Error {
  return Object.assign(new Error(message), { code: UNSAFE_FILE });
}

/** Whether a file operation failed with one of these codes. */
export function isFileError(error: unknown, ...codes: readonly string[]): boolean {
  return codes.includes(codeOf(error));
}

/** Failures that the user's disk or rights cause. A missing file is not among them: that can be a mistake of ours. */
const MACHINE_FAULT: Readonly<Record<string, string>> = {
  EACCES: 'this user has no access',
  EPERM: 'the system does not allow it',
  EROFS: 'the disk is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota of this user is used up',
  EFBIG: 'the file would be too large',
  EIO: 'the disk reported an error',
  EMFILE: 'this process has too many files open',
  ENFILE: 'the system has too many files open',
  ENOTDIR: 'it, or a folder above it, is a file',
  EISDIR: 'it is a folder',
  EEXIST: 'it, or a folder above it, is a file',
  ELOOP: 'its path contains a loop of links',
  ENAMETOOLONG: 'its path is too long',
};

/** The reason why a file could not be used, with the system's code, or from a check; undefined for every other error. */
export function fileFault(error: unknown): string | undefined {
  if (isUnsafeFile(error)) return error.message;
  const code = codeOf(error);
  return Object.hasOwn(MACHINE_FAULT, code) ? `${MACHINE_FAULT[code]} (${code})` : undefined;
}

/** The text of a file, even one that others can read, or undefined if there is none. */
export async function readIfPresent(path: string): Promise<string | undefined> {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (isFileError(error, 'ENOENT', 'ENOTDIR')) return undefined;
    throw error;
  }
}

/**
 * The text of a file that is this user's alone, or undefined when there is none.
 * @throws an error of {@link isUnsafeFile} for a link, anything but a regular file, another owner, or rights for group or world.
 */
export async function readPrivateFile(path: string): Promise<string | undefined> {
  return readChecked(path, READ_MAX_BYTES, refuseForeign);
}

/**
 * The text of a file that only this user or root can have written, even if others can read it; undefined if there is none.
 * @throws an error of {@link isUnsafeFile} for a link, anything but a regular file, a larger one, another owner, or other writers.
 */
export async function readTrustedFile(path: string, maxBytes: number): Promise<string | undefined> {
  return readChecked(path, maxBytes, refuseOtherWriters);
}

function readChecked(path: string, maxBytes: number, check: (path: string, state: Stats) => void): string | undefined {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (isFileError(error, 'ENOENT', 'ENOTDIR')) return undefined;
    if (isFileError(error, 'ELOOP', 'EMLINK')) throw unsafeFile(`${path} is a symbolic link`);
    throw error;
  }
  try {
    const state = fstatSync(file);
    if (!state.isFile()) throw unsafeFile(`${path} is not a regular file`);
    check(path, state);
    if (state.size > maxBytes) throw unsafeFile(`${path} is too large`);
    return readFileSync(file, 'utf8');
  } finally {
    closeSync(file);
  }
}

/** Like {@link replaceFile}, in a directory that is this user's alone. @throws an error of {@link isUnsafeFile} when it is not. */
export async function writePrivateFile(path: string, text: string): Promise<void> {
  await makePrivateDirectory(dirname(path));
  await replaceFile(path, text);
}

/**
 * Replaces a file atomically: writes a new file next to it, flushes it, renames it, and flushes the directory. The name
 * of the new file cannot be guessed, since others may write in the directory. A link at `path` is replaced, never
 * followed. Creates the directory (0700) if it is missing. If `isDurable` is false, nothing waits for the disk, so a
 * power loss may bring back the old file.
 */
export async function replaceFile(
  path: string,
  contents: string | Uint8Array,
  { mode = 0o600, isDurable = true }: { readonly mode?: number; readonly isDurable?: boolean } = {},
): Promise<void> {
  const directory = dirname(path);
  makeDirectory(directory);
  const temporary = `${path}.${randomBytes(8).toString('hex')}.tmp`;
  const file = await openNewFile(temporary, mode);
  try {
    await file.writeFile(contents);
    if (isDurable) await file.sync();
    await file.close();
    await renameFile(temporary, path);
  } catch (error) {
    await file.close().catch(() => undefined);
    await promises.rm(temporary, { force: true });
    // The error of a write does not name the file.
    throw error instanceof Error ? Object.assign(error, { path }) : error;
  }
  if (isDurable) await syncDirectory(directory);
}

/** Creates a new file for writing. @throws `EEXIST` if something is already there, even a link. */
export function openNewFile(path: string, mode = 0o600): Promise<promises.FileHandle> {
  return promises.open(
    path,
    constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0),
    mode,
  );
}

/**
 * Moves a finished file to its name atomically. Unless `isForced`, an existing file stays: creating a link fails there,
 * unlike a rename, and on file systems without links the name is reserved first. @throws `EEXIST` if the name is taken.
 */
export async function publishFile(finished: string, path: string, isForced: boolean): Promise<void> {
  if (isForced) return renameFile(finished, path);
  try {
    await promises.link(finished, path);
    await promises.rm(finished, { force: true });
  } catch (error) {
    if (!isFileError(error, 'EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EXDEV')) throw error;
    await (await promises.open(path, 'wx')).close();
    await renameFile(finished, path);
  }
}

/** Together more than a second: scanners have a new file open for less. */
const RENAME_TRIES = 50;
const RENAME_PAUSE_MS = 25;

/**
 * Gives a file a name that may be taken. Windows refuses this while another program has a file of that name open, if
 * only to read it, so it is tried again.
 */
async function renameFile(from: string, to: string): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await promises.rename(from, to);
    } catch (error) {
      if (isPosix || tries >= RENAME_TRIES || !isFileError(error, 'EPERM', 'EACCES', 'EBUSY')) throw error;
    }
    await wait(systemClock, RENAME_PAUSE_MS);
  }
}

/** Removes a file; returns whether it existed. */
export async function removePrivateFile(path: string): Promise<boolean> {
  try {
    await promises.rm(path);
  } catch (error) {
    if (isFileError(error, 'ENOENT', 'ENOTDIR')) return false;
    throw error;
  }
  await syncDirectory(dirname(path));
  return true;
}

/** The names in a directory that end in `suffix`; empty if there is no directory. */
export async function listPrivateFiles(directory: string, suffix: string): Promise<string[]> {
  try {
    const names = readdirSync(directory);
    return names.filter((name) => name.endsWith(suffix)).map((name) => join(directory, name));
  } catch (error) {
    if (isFileError(error, 'ENOENT', 'ENOTDIR')) return [];
    throw error;
  }
}

/**
 * Creates a directory and its missing parents step by step, because the recursive mkdir of Node.js never returns inside
 * /proc.
 */
export function makeDirectory(path: string, mode = 0o700): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return;
    const parent = dirname(path);
    if (!isFileError(error, 'ENOENT') || existsSync(parent)) throw error;
    makeDirectory(parent, mode);
    makeDirectory(path, mode);
  }
}

/**
 * Makes a directory and its missing parents with rights for this user alone.
 * @throws an error of {@link isUnsafeFile} when it belongs to another user, is a link, or others may write in it.
 */
export async function makePrivateDirectory(path: string): Promise<void> {
  makeDirectory(path);
  await requireOwnDirectory(path);
}

/** @throws an error of {@link isUnsafeFile} when a directory belongs to another user, is a link, or others may write in it. */
export async function requireOwnDirectory(path: string): Promise<void> {
  const state = lstatSync(path);
  if (!state.isDirectory()) throw unsafeFile(`${path} is not a directory`);
  if (!isPosix) return;
  if (state.uid !== process.getuid?.()) throw unsafeFile(`${path} belongs to another user`);
  if ((state.mode & 0o022) !== 0) throw unsafeFile(`other users can write to ${path}`);
}

function refuseForeign(path: string, state: Stats): void {
  if (!isPosix) return;
  if (state.uid !== process.getuid?.()) throw unsafeFile(`${path} belongs to another user`);
  if ((state.mode & 0o077) !== 0) throw unsafeFile(`other users can read or write ${path}: run chmod 600 on it`);
}

function refuseOtherWriters(path: string, { uid, gid, mode }: Stats): void {
  if (!isPosix) return;
  if (uid !== 0 && uid !== process.getuid?.()) throw unsafeFile(`${path} belongs to another user`);
  // On systems where every user has a group with the same number, that group has no other member.
  const others = gid === uid ? 0o002 : 0o022;
  if ((mode & others) !== 0) throw unsafeFile(`other users can write to ${path}: run chmod go-w on it`);
}

/**
 * Makes the names in a directory durable: a rename is durable only once its directory is flushed. Windows cannot do
 * this, and need not.
 */
export async function syncDirectory(path: string): Promise<void> {
  if (!isPosix) return;
  const directory = await promises.open(path, constants.O_RDONLY);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
