import { constants } from 'node:fs';
import { lstat, mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Whether a failure of a file operation has this code. */
export function isFileError(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}

/** The text of a file, or undefined where there is none that can be read. */
export async function readIfPresent(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (isFileError(error, 'ENOENT', 'ENOTDIR')) return undefined;
    throw error;
  }
}

/** A folder that only this user can look into. */
export async function ensurePrivateDirectory(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
}

/**
 * Replaces a file as a whole, readable by its user alone: a crash leaves the old text or the new one. A symbolic link in
 * its place is replaced, never followed.
 */
export async function writePrivateFile(path: string, text: string, suffix: string): Promise<void> {
  await ensurePrivateDirectory(dirname(path));
  const temporary = `${path}.${suffix}.tmp`;
  const { O_CREAT, O_EXCL, O_WRONLY, O_NOFOLLOW } = constants;
  const file = await open(temporary, O_CREAT | O_EXCL | O_WRONLY | (O_NOFOLLOW ?? 0), 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
    await file.close();
    await rename(temporary, path);
  } catch (error) {
    await file.close().catch(() => {});
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Whether a file belongs to this user alone, as a secret's file must: a regular file, no group or world bits. */
export async function isPrivate(path: string, userId: number | undefined): Promise<boolean> {
  if (userId === undefined) return true;
  const facts = await lstat(path);
  return facts.isFile() && (facts.uid === userId || facts.uid === 0) && (facts.mode & 0o077) === 0;
}

/** Whether a folder belongs to this user and nobody else can write into it. */
export async function isOwnDirectory(path: string, userId: number | undefined): Promise<boolean> {
  if (userId === undefined) return true;
  const facts = await lstat(path);
  return facts.isDirectory() && facts.uid === userId && (facts.mode & 0o022) === 0;
}
