import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, link, lstat, mkdtemp, open, rename, rm, unlink } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { ATTACHMENTS_FOLDER, DATABASE_FILE } from '../store/data-directory.js';
import { DatabaseUnusableError } from '../store/database.js';
import { type Snapshot, takeSnapshot } from '../store/sqlite-snapshot.js';
import { BackupError } from './backup-error.js';
import { TAR_END, tarHeader, tarPadding } from './tar.js';

const OWNER_ONLY = 0o600;

export interface BackupOptions {
  /** The data directory; a service may be using it. */
  readonly directory: string;
  /** The archive to write. */
  readonly file: string;
  /** An archive that is there is replaced, once the new one is whole. */
  readonly isForced: boolean;
  /** Whether the keys go into it with which the service signs. */
  readonly withKeys: boolean;
  /** Epoch milliseconds. */
  readonly now: number;
}

export interface Backup {
  readonly attachments: number;
  readonly bytes: number;
  readonly schemaVersion: number;
}

/**
 * Writes a tar archive of the data as they are at one moment: the database, then the attachments that it knows, which never
 * change once they are there. It is whole and on the disk before it gets its name (D-64).
 */
export async function createBackup(options: BackupOptions): Promise<Backup> {
  const file = resolve(options.file);
  if (!options.isForced && (await exists(file))) throw inTheWay(file);
  const folder = dirname(file);
  const work = await mkdtemp(join(folder, `.${basename(file)}.`));
  try {
    const database = join(work, DATABASE_FILE);
    await (await open(database, 'wx', OWNER_ONLY)).close();
    const snapshot = await snapshotOf(options, database);
    const archive = join(work, `${randomBytes(6).toString('hex')}.tar`);
    const written = await writeArchive(archive, database, snapshot, options);
    await giveName(archive, file, options.isForced);
    await syncDirectory(folder);
    return { ...written, schemaVersion: snapshot.schemaVersion };
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function snapshotOf({ directory, withKeys }: BackupOptions, file: string): Promise<Snapshot> {
  try {
    return await takeSnapshot(directory, file, withKeys);
  } catch (error) {
    if (error instanceof DatabaseUnusableError) throw new BackupError('NO_DATA', error.message, error);
    throw error;
  }
}

async function writeArchive(
  archive: string,
  database: string,
  snapshot: Snapshot,
  { directory, now }: BackupOptions,
): Promise<Omit<Backup, 'schemaVersion'>> {
  const out = await open(archive, 'wx', OWNER_ONLY);
  try {
    const modifiedAtS = Math.floor(now / 1000);
    await append(out, DATABASE_FILE, await open(database, 'r'), modifiedAtS);
    await out.write(tarHeader({ name: `${ATTACHMENTS_FOLDER}/`, kind: 'directory', size: 0 }, { modifiedAtS }));
    let attachments = 0;
    for (const { id, isClaimed } of snapshot.attachments) {
      const source = await openAttachment(join(directory, ATTACHMENTS_FOLDER, id), isClaimed);
      if (source === undefined) continue;
      await append(out, `${ATTACHMENTS_FOLDER}/${id}`, source, modifiedAtS);
      attachments += 1;
    }
    await out.write(TAR_END);
    await out.sync();
    const { size } = await out.stat();
    return { attachments, bytes: size };
  } finally {
    await out.close();
  }
}

async function append(out: FileHandle, name: string, source: FileHandle, modifiedAtS: number): Promise<void> {
  try {
    const { size } = await source.stat();
    await out.write(tarHeader({ name, kind: 'file', size }, { modifiedAtS }));
    let copied = 0;
    for await (const chunk of source.createReadStream({ autoClose: false, end: Math.max(0, size - 1) })) {
      await out.write(chunk as Buffer);
      copied += (chunk as Buffer).length;
    }
    if (copied !== size) throw new Error(`${name} changed while it was read.`);
    await out.write(tarPadding(size));
  } finally {
    await source.close();
  }
}

/** An attachment that no message refers to may be swept while this runs. */
async function openAttachment(path: string, isClaimed: boolean): Promise<FileHandle | undefined> {
  try {
    return await open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
  } catch (error) {
    if (!isClaimed && isCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** A link is refused where a rename would overwrite; where there are no links, what was looked at before must do. */
async function giveName(archive: string, file: string, isForced: boolean): Promise<void> {
  if (isForced) return rename(archive, file);
  try {
    await link(archive, file);
    await unlink(archive);
  } catch (error) {
    if (isCode(error, 'EEXIST')) throw inTheWay(file);
    if (!isCode(error, 'EPERM', 'ENOTSUP', 'ENOSYS', 'EOPNOTSUPP')) throw error;
    await rename(archive, file);
  }
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

/** Windows cannot open directories, and needs no such step. */
export async function syncDirectory(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  const directory = await open(path, constants.O_RDONLY);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

function inTheWay(file: string): BackupError {
  return new BackupError('EXISTS', `${file} exists and was left as it is.`);
}

function isCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}
