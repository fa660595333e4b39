import { randomBytes } from 'node:crypto';
// Reads are small and at once: neither a thread nor `node:fs/promises` is needed for them, which every command would pay for.
// `promises` is loaded when a write first touches it.
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

const READ_MAX_BYTES = 4 * 1024 * 1024;
const isPosix = process.platform !== 'win32';

/** A file or directory that someone else could have written or could read. */
export class UnsafeFileError extends Error {
  override readonly name = 'UnsafeFileError';
}

/** Whether a file operation failed with one of these codes. */
export function isFileError(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}

/** The text of a file, whoever else may read it, or undefined where there is none. */
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
 * @throws UnsafeFileError for a link, anything but a regular file, another owner, or rights for group or world.
 */
export async function readPrivateFile(path: string): Promise<string | undefined> {
  return readChecked(path, READ_MAX_BYTES, refuseForeign);
}

/**
 * The text of a file that only this user or root can have written, whoever may read it; undefined when there is none.
 * @throws UnsafeFileError for a link, anything but a regular file, a larger one, another owner, or other writers.
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
    if (isFileError(error, 'ELOOP', 'EMLINK')) throw new UnsafeFileError(`${path} is a symbolic link`);
    throw error;
  }
  try {
    const state = fstatSync(file);
    if (!state.isFile()) throw new UnsafeFileError(`${path} is not a regular file`);
    check(path, state);
    if (state.size > maxBytes) throw new UnsafeFileError(`${path} is too large`);
    return readFileSync(file, 'utf8');
  } finally {
    closeSync(file);
  }
}

/** Like {@link replaceFile}, in a directory that is this user's alone. @throws UnsafeFileError when it is not. */
export async function writePrivateFile(path: string, text: string): Promise<void> {
  await makePrivateDirectory(dirname(path));
  await replaceFile(path, text);
}

/**
 * Replaces a file at once or not at all: a new file (0600) beside it, flushed, renamed, and the directory flushed. A link in
 * its place is replaced, never followed. The directory is made (0700) when it is missing.
 */
export async function replaceFile(path: string, text: string): Promise<void> {
  const directory = dirname(path);
  makeDirectory(directory);
  const temporary = `${path}.${randomBytes(8).toString('hex')}.tmp`;
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const file = await promises.open(temporary, flags, 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
    await file.close();
    await promises.rename(temporary, path);
  } catch (error) {
    await file.close().catch(() => undefined);
    await promises.rm(temporary, { force: true });
    throw error;
  }
  await flushDirectory(directory);
}

/** Removes a file; whether there was one. */
export async function removePrivateFile(path: string): Promise<boolean> {
  try {
    await promises.rm(path);
  } catch (error) {
    if (isFileError(error, 'ENOENT', 'ENOTDIR')) return false;
    throw error;
  }
  await flushDirectory(dirname(path));
  return true;
}

/** The names in a directory that end in `suffix`; none when there is no directory. */
export async function listPrivateFiles(directory: string, suffix: string): Promise<string[]> {
  try {
    const names = readdirSync(directory);
    return names.filter((name) => name.endsWith(suffix)).map((name) => join(directory, name));
  } catch (error) {
    if (isFileError(error, 'ENOENT', 'ENOTDIR')) return [];
    throw error;
  }
}

/** Makes a directory and its missing parents, step by step: the recursive mkdir of Node.js never returns inside /proc. */
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
 * @throws UnsafeFileError when it belongs to another user, is a link, or others may write in it.
 */
export async function makePrivateDirectory(path: string): Promise<void> {
  makeDirectory(path);
  await requireOwnDirectory(path);
}

/** @throws UnsafeFileError when a directory belongs to another user, is a link, or others may write in it. */
export async function requireOwnDirectory(path: string): Promise<void> {
  const state = lstatSync(path);
  if (!state.isDirectory()) throw new UnsafeFileError(`${path} is not a directory`);
  if (!isPosix) return;
  if (state.uid !== process.getuid?.()) throw new UnsafeFileError(`${path} belongs to another user`);
  if ((state.mode & 0o022) !== 0) throw new UnsafeFileError(`others may write in ${path}`);
}

function refuseForeign(path: string, state: Stats): void {
  if (!isPosix) return;
  if (state.uid !== process.getuid?.()) throw new UnsafeFileError(`${path} belongs to another user`);
  if ((state.mode & 0o077) !== 0) throw new UnsafeFileError(`others may read or write ${path}: chmod 600 it`);
}

function refuseOtherWriters(path: string, { uid, gid, mode }: Stats): void {
  if (!isPosix) return;
  if (uid !== 0 && uid !== process.getuid?.()) throw new UnsafeFileError(`${path} belongs to another user`);
  // Where every user has a group of the same number, that group has no other member.
  const others = gid === uid ? 0o002 : 0o022;
  if ((mode & others) !== 0) throw new UnsafeFileError(`others may write ${path}: chmod go-w it`);
}

async function flushDirectory(path: string): Promise<void> {
  if (!isPosix) return;
  const directory = await promises.open(path, constants.O_RDONLY);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
