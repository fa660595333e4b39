import { constants } from 'node:fs';
import { type FileHandle, link, lstat, open, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

import { isFileError, makeDirectory } from '../../../kit/private-file.js';
import { type Random, randomToken } from '../../../kit/random.js';
import { ATTACHMENT_FILENAME_MAX_LENGTH } from '../../../wire/limit.js';
import { CliError, UsageError } from '../../errors.js';

/**
 * Writes bytes to `path`: into a new file beside it that no link leads out of, then under its name at once or not at all.
 * What is there already stays, unless `isForced`; a link in its place is replaced, never followed.
 */
export async function saveFile(
  path: string,
  bytes: AsyncIterable<Uint8Array>,
  { isForced, random }: { isForced: boolean; random: Random },
): Promise<void> {
  await refuseTaken(path, isForced);
  await ensureFolder(dirname(path));
  const temporary = join(dirname(path), `.asp-${randomToken(random, 9)}.part`);
  const { O_CREAT, O_EXCL, O_WRONLY, O_NOFOLLOW } = constants;
  const file = await open(temporary, O_CREAT | O_EXCL | O_WRONLY | (O_NOFOLLOW ?? 0), 0o644).catch((error: unknown) => {
    throw writeFailure(path, error);
  });
  try {
    await fill(file, bytes);
    if (isForced) await rename(temporary, path);
    else await putInPlace(temporary, path);
  } catch (error) {
    throw writeFailure(path, error);
  } finally {
    await rm(temporary, { force: true });
  }
}

async function fill(file: FileHandle, bytes: AsyncIterable<Uint8Array>): Promise<void> {
  try {
    for await (const chunk of bytes) await file.write(chunk);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** A link fails where a name is taken, unlike a rename; file systems without links reserve the name first. */
async function putInPlace(temporary: string, path: string): Promise<void> {
  try {
    await link(temporary, path);
  } catch (error) {
    if (!isFileError(error, 'EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EXDEV')) throw error;
    await (await open(path, 'wx')).close();
    await rename(temporary, path);
  }
}

async function refuseTaken(path: string, isForced: boolean): Promise<void> {
  const there = await lstat(path).catch(() => undefined);
  if (there === undefined || (isForced && !there.isDirectory())) return;
  throw there.isDirectory()
    ? new UsageError(`${path} is a folder.`, { why: 'a file of that name is to be written.' })
    : taken(path);
}

const taken = (path: string): CliError =>
  new CliError('ASP_FILE_EXISTS', { message: `${path} exists already.`, why: '--force replaces it.' });

function writeFailure(path: string, error: unknown): unknown {
  if (isFileError(error, 'EEXIST')) return taken(path);
  if (isFileError(error, 'ENOENT', 'ENOTDIR')) return new UsageError(`There is no folder ${dirname(path)}.`);
  if (isFileError(error, 'EACCES', 'EPERM', 'EROFS', 'ENOSPC', 'EDQUOT', 'ENAMETOOLONG'))
    return new CliError('ASP_USAGE', {
      message: `${basename(path)} cannot be written in ${dirname(path)}.`,
      why: error instanceof Error && 'code' in error ? String(error.code) : undefined,
      cause: error,
    });
  return error;
}

/** Makes a folder for files, if it is not there. */
export async function ensureFolder(path: string): Promise<void> {
  try {
    makeDirectory(path, 0o777);
  } catch (error) {
    throw isFileError(error, 'EEXIST', 'ENOTDIR') ? new UsageError(`${path} is no folder.`) : writeFailure(path, error);
  }
}

/** Device names of Windows, with whatever ending. */
const DEVICE = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;

/**
 * A name that stays in its folder on every system, from what a service calls a file: the last path part, without what a
 * shell, a terminal or a file system could take for something else.
 */
export function safeFilename(given: string): string {
  const last = given.normalize('NFC').split(/[/\\]/).at(-1) ?? '';
  const plain = last
    .replace(/[\p{C}\p{Z}]+/gu, ' ')
    .replace(/[^\p{L}\p{M}\p{N} ._-]+/gu, '_')
    .replace(/^[ .-]+|[ .]+$/g, '');
  const name = DEVICE.test(plain) ? `_${plain}` : plain;
  return name === '' ? 'file' : shorten(name);
}

/** Names are counted in bytes by most file systems; the ending is kept. */
function shorten(name: string): string {
  if (Buffer.byteLength(name) <= ATTACHMENT_FILENAME_MAX_LENGTH) return name;
  const dot = name.lastIndexOf('.');
  const ending = dot > 0 && name.length - dot <= 12 ? name.slice(dot) : '';
  let kept = '';
  for (const character of ending === '' ? name : name.slice(0, dot)) {
    if (Buffer.byteLength(kept + character + ending) > ATTACHMENT_FILENAME_MAX_LENGTH) break;
    kept += character;
  }
  return `${kept.trimEnd()}${ending}`;
}
