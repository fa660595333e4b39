import { createHash, randomBytes } from 'node:crypto';
import { constants, type Dirent, existsSync } from 'node:fs';
import { type FileHandle, lstat, mkdir, mkdtemp, open, readdir, rename, rm, rmdir } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { isFileError, makeDirectory, publishFile, syncDirectory } from '../../kit/private-file.js';
import { isId } from '../../wire/id.js';
import { isBackupError, isStartError, isUnusable, OperatorError } from '../core/errors.js';
import {
  ATTACHMENTS_FOLDER,
  BACKUPS_FILE,
  DATABASE_FILE,
  IDENTITY_FILE,
  LOCK_FILE,
  TRASH_FOLDER,
  UNFINISHED_FOLDER,
} from '../store/data-directory.js';
import { type DataLock, loadSqlite, lockDataDirectory } from '../store/sqlite-driver.js';
import { checkDatabase, isOwnDatabase, type Snapshot, takeSnapshot } from '../store/sqlite-snapshot.js';
import { recordBackup } from './backup-records.js';

const OWNER_ONLY = 0o600;
const OWNER_ONLY_FOLDER = 0o700;

export interface BackupOptions {
  /** The data directory; a service may be using it. */
  readonly directory: string;
  /** The archive to write. */
  readonly file: string;
  /** Replaces an existing archive once the new one is complete. */
  readonly isForced: boolean;
  /** Whether to include the signing keys. */
  readonly withKeys: boolean;
  /** Epoch milliseconds. */
  readonly now: number;
}

export interface Backup {
  readonly attachments: number;
  readonly bytes: number;
  readonly schemaVersion: number;
  /** Why the service will not know of it, and in which file that would be; undefined: it does. */
  readonly unrecorded: { readonly path: string; readonly error: unknown } | undefined;
}

type Archive = Omit<Backup, 'unrecorded'>;

/** Saves the data, and records next to it that it did, or failed. */
export async function createBackup(options: BackupOptions): Promise<Backup> {
  const record = async (outcome: string, made?: Archive): Promise<Backup['unrecorded']> => {
    const facts = { bytes: made?.bytes ?? null, attachments: made?.attachments ?? null };
    return recordBackup(options.directory, { began_at: options.now, outcome, ...facts }).then(
      () => undefined,
      (error: unknown) => ({ path: join(options.directory, BACKUPS_FILE), error }),
    );
  };
  try {
    const made = await makeArchive(options);
    return { ...made, unrecorded: await record('done', made) };
  } catch (error) {
    if (await exists(join(options.directory, DATABASE_FILE)))
      await record(isBackupError(error) ? error.code : 'failed');
    throw error;
  }
}

/**
 * Writes a tar archive with a snapshot of the data: the database, then its attachments, which never change. The archive
 * is complete and on disk before it gets its name (D-64). Everything is written with `writeFile`: `write` may write only
 * part of it and not fail, for example the last that fits on a disk.
 */
async function makeArchive(options: BackupOptions): Promise<Archive> {
  const file = resolve(options.file);
  if (!options.isForced && (await exists(file))) throw inTheWay(file);
  const folder = dirname(file);
  const workPrefix = `.${basename(file)}.`;
  // Only tidying: a backup must not fail because of what someone else left.
  await removeLeftovers(folder, workPrefix, options.now - LEFTOVER_AFTER_MS).catch(() => {});
  const asOfFile = (error: unknown): never => {
    throw asErrorOf(file, join(folder, workPrefix), error);
  };
  const work = await mkdtemp(join(folder, workPrefix)).catch(asOfFile);
  try {
    const database = join(work, DATABASE_FILE);
    await (await open(database, 'wx', OWNER_ONLY)).close();
    const snapshot = await readSnapshot(options, database);
    const archive = join(work, `${randomBytes(6).toString('hex')}.tar`);
    const written = await writeArchive(archive, database, snapshot, options);
    await publishFile(archive, file, options.isForced).catch((error: unknown) => {
      throw isFileError(error, 'EEXIST') ? inTheWay(file) : error;
    });
    await syncDirectory(folder);
    return { ...written, schemaVersion: snapshot.schemaVersion };
  } catch (error) {
    return asOfFile(error);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** The error of a temporary file, as one of what the user named. The error of a write to a full disk names no file. */
function asErrorOf(named: string, temporary: string, error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const path = 'path' in error ? String(error.path) : undefined;
  const isOurs = path?.startsWith(temporary) ?? isFileError(error, 'ENOSPC', 'EDQUOT', 'EFBIG');
  return isOurs ? Object.assign(error, { path: named }) : error;
}

/** A backup writes all the time. */
const LEFTOVER_AFTER_MS = 60 * 60_000;
const RANDOM_LENGTH = 6;

/**
 * Removes what killed backups to the same file left next to it: a nightly one would otherwise fill the disk. Nothing in
 * such a folder has changed since `beforeMs`.
 */
async function removeLeftovers(folder: string, prefix: string, beforeMs: number): Promise<void> {
  for (const { name } of (await readdir(folder, { withFileTypes: true })).filter((entry) => entry.isDirectory())) {
    if (!name.startsWith(prefix) || name.length !== prefix.length + RANDOM_LENGTH) continue;
    const left = join(folder, name);
    const paths = [left, ...(await readdir(left)).map((inside) => join(left, inside))];
    const changes = await Promise.all(paths.map(async (path) => (await lstat(path)).mtimeMs));
    if (Math.max(...changes) < beforeMs) await rm(left, { recursive: true, force: true });
  }
}

async function readSnapshot({ directory, withKeys }: BackupOptions, file: string): Promise<Snapshot> {
  try {
    return await takeSnapshot(directory, file, withKeys);
  } catch (error) {
    if (isUnusable(error)) throw new OperatorError('NO_DATA', error.message, error);
    throw error;
  }
}

async function writeArchive(
  archive: string,
  database: string,
  snapshot: Snapshot,
  { directory, now }: BackupOptions,
): Promise<Omit<Archive, 'schemaVersion'>> {
  const out = await open(archive, 'wx', OWNER_ONLY);
  try {
    const modifiedAtS = Math.floor(now / 1000);
    await append(out, DATABASE_FILE, await open(database, 'r'), modifiedAtS);
    await out.writeFile(tarHeader({ name: `${ATTACHMENTS_FOLDER}/`, kind: 'directory', size: 0 }, { modifiedAtS }));
    let attachments = 0;
    for (const { id, isClaimed } of snapshot.attachments) {
      const source = await openAttachment(join(directory, ATTACHMENTS_FOLDER), id, isClaimed);
      if (source === undefined) continue;
      await append(out, `${ATTACHMENTS_FOLDER}/${id}`, source, modifiedAtS);
      attachments += 1;
    }
    await out.writeFile(TAR_END);
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
    await out.writeFile(tarHeader({ name, kind: 'file', size }, { modifiedAtS }));
    let copied = 0;
    for await (const chunk of source.createReadStream({ autoClose: false, end: Math.max(0, size - 1) })) {
      await out.writeFile(chunk as Buffer);
      copied += (chunk as Buffer).length;
    }
    if (copied !== size) throw new Error(`${name} changed while it was read.`);
    await out.writeFile(tarPadding(size));
  } finally {
    await source.close();
  }
}

/**
 * An attachment that no message refers to may be swept while this runs, and the one of a session that is being deleted
 * is in the trash.
 */
async function openAttachment(folder: string, id: string, isClaimed: boolean): Promise<FileHandle | undefined> {
  const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0);
  try {
    return await open(join(folder, id), flags);
  } catch (error) {
    if (!isFileError(error, 'ENOENT')) throw error;
    if (isClaimed) return await open(join(folder, TRASH_FOLDER, id), flags);
    return undefined;
  }
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

function inTheWay(file: string): OperatorError {
  return new OperatorError('EXISTS', `${file} exists and was not changed.`);
}

export interface Restored {
  readonly attachments: number;
  readonly schemaVersion: number;
  /** The service needs its key file to start. */
  readonly areKeysSealed: boolean;
}

/**
 * Restores a backup into `directory`, which must be empty and is created if necessary. The data is unpacked next to it
 * and checked there: the database for integrity and version, each attachment against its row.
 */
export async function restoreBackup(file: string, directory: string): Promise<Restored> {
  const archive = await open(file, 'r');
  try {
    const isNew = !(await exists(directory));
    makeDirectory(directory);
    await removeUnfinished(directory);
    await requireEmpty(directory);
    const work = join(directory, UNFINISHED_FOLDER);
    await mkdir(work, OWNER_ONLY_FOLDER).catch((error: unknown) => {
      throw asErrorOf(directory, work, error);
    });
    let lock: DataLock | undefined;
    try {
      lock = await lockWork(directory);
      const hashes = await unpack(archive, work);
      const snapshot = await check(work);
      requireAttachments(snapshot, hashes);
      await putInPlace(work, directory);
      const { schemaVersion, areKeysSealed } = snapshot;
      return { attachments: hashes.size, schemaVersion, areKeysSealed };
    } catch (error) {
      throw asErrorOf(directory, work, error);
    } finally {
      lock?.release();
      await rm(work, { recursive: true, force: true });
      if (isNew) await removeIfEmpty(directory);
    }
  } finally {
    await archive.close();
  }
}

/** The lock is released when its process ends, however it ends. */
async function lockWork(directory: string): Promise<DataLock> {
  try {
    return lockDataDirectory(await loadSqlite(), join(directory, UNFINISHED_FOLDER, LOCK_FILE), directory);
  } catch (error) {
    if (!isStartError(error)) throw error;
    throw new OperatorError('NOT_EMPTY', `A backup is being restored into ${directory}, which was not changed.`, error);
  }
}

/** Removes what a restore left that was killed before its database was in place. It had begun in an empty folder. */
async function removeUnfinished(directory: string): Promise<void> {
  const work = join(directory, UNFINISHED_FOLDER);
  const attachments = join(directory, ATTACHMENTS_FOLDER);
  const isMoved = (await exists(attachments)) && !(await exists(join(work, ATTACHMENTS_FOLDER)));
  const theirs = isMoved ? [work, attachments] : [work];
  const found = (await readdir(directory)).map((name) => join(directory, name));
  if (!(found.includes(work) && found.every((path) => theirs.includes(path)))) return;
  (await lockWork(directory)).release();
  for (const path of theirs) await rm(path, { recursive: true, force: true });
}

async function requireEmpty(directory: string): Promise<void> {
  const [first] = await readdir(directory);
  if (first !== undefined)
    throw new OperatorError('NOT_EMPTY', `${directory} is not empty (${first} is in it), and was not changed.`);
}

/** The SHA-256 of each unpacked attachment. */
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
  if (!hasDatabase) throw new OperatorError('BROKEN', 'Not an asp backup: it contains no database.');
  return hashes;
}

/** A name that is not part of a backup may be a path to anywhere. */
function foreign({ name }: FoundEntry): OperatorError {
  return new OperatorError('BROKEN', `Not an asp backup: it contains ${JSON.stringify(name)}.`);
}

async function extract(archive: FileHandle, { offset, size }: FoundEntry, path: string): Promise<string> {
  const hash = createHash('sha256');
  const out = await open(path, 'wx', OWNER_ONLY);
  try {
    if (size > 0)
      for await (const chunk of archive.createReadStream({ autoClose: false, start: offset, end: offset + size - 1 })) {
        hash.update(chunk as Buffer);
        await out.writeFile(chunk as Buffer);
      }
    await out.sync();
  } finally {
    await out.close();
  }
  return hash.digest('hex');
}

async function check(work: string): ReturnType<typeof checkDatabase> {
  try {
    return await checkDatabase(join(work, DATABASE_FILE));
  } catch (error) {
    if (isUnusable(error)) throw new OperatorError('BROKEN', error.message, error);
    throw error;
  }
}

function requireAttachments({ attachments }: Snapshot, hashes: ReadonlyMap<string, string>): void {
  for (const { id, sha256, isClaimed } of attachments) {
    const found = hashes.get(id);
    if (found === undefined ? isClaimed : found !== sha256)
      throw new OperatorError('BROKEN', `The backup is damaged: the attachment ${id} is missing or was changed.`);
  }
}

/** The database comes last: without it nothing is restored. */
async function putInPlace(work: string, directory: string): Promise<void> {
  await syncDirectory(join(work, ATTACHMENTS_FOLDER));
  await rename(join(work, ATTACHMENTS_FOLDER), join(directory, ATTACHMENTS_FOLDER));
  await rename(join(work, DATABASE_FILE), join(directory, DATABASE_FILE));
  await syncDirectory(directory);
}

/**
 * The database comes after its journals: without them it is still a database, while journals alone would be applied to
 * the next one.
 */
const DATABASE_FILES = [`${DATABASE_FILE}-wal`, `${DATABASE_FILE}-shm`, DATABASE_FILE];
const PARTIAL_UPLOAD = '.part';

/** The data to delete in a data folder. */
interface Found {
  readonly attachments: number;
  readonly bytes: number;
}

/** A data folder that no one else can use until it is released. */
export interface HeldData {
  readonly found: Found;
  /** Deletes only the data: other files stay, and so do the folder and its lock. */
  delete(): Promise<void>;
  letGo(): void;
}

/**
 * Takes the data of a stopped service, to delete it. Refuses a folder that a service uses (`DATA_IN_USE`), one whose
 * database is not this program's, and one with links in place of the data. Undefined if it contains no data.
 */
export async function holdData(directory: string): Promise<HeldData | undefined> {
  const entries = await listFolder(directory);
  if (entries.every(({ name }) => name === LOCK_FILE)) return undefined;
  requireOurs(directory, entries);
  const open = await loadSqlite();
  const { release: letGo } = lockDataDirectory(open, join(directory, LOCK_FILE), directory);
  try {
    if (!(await isOwnDatabase(join(directory, DATABASE_FILE))))
      throw notOurs(directory, `${DATABASE_FILE} in it is damaged, or belongs to another program.`);
    const folder = join(directory, ATTACHMENTS_FOLDER);
    const hasAttachments = entries.some(({ name }) => name === ATTACHMENTS_FOLDER);
    const attachments = hasAttachments ? await listAttachments(folder) : [];
    const trash = join(folder, TRASH_FOLDER);
    const discarded = existsSync(trash) ? await listAttachments(trash) : [];
    const files = [BACKUPS_FILE, ...DATABASE_FILES];
    const paths = [...files.map((name) => join(directory, name)), ...attachments];
    return {
      found: {
        attachments: attachments.filter((path) => !path.endsWith(PARTIAL_UPLOAD)).length,
        bytes: await measureSize(paths),
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
      throw notOurs(directory, 'it is a link. Name the target folder instead.');
    return await readdir(directory, { withFileTypes: true });
  } catch (error) {
    if (isFileError(error, 'ENOENT')) return [];
    throw error;
  }
}

function requireOurs(directory: string, entries: readonly Dirent[]): void {
  const find = (name: string): Dirent | undefined => entries.find((entry) => entry.name === name);
  if (find(DATABASE_FILE) === undefined) throw notOurs(directory, `there is no ${DATABASE_FILE} in it.`);
  for (const name of [...DATABASE_FILES, LOCK_FILE])
    if (find(name)?.isFile() === false) throw notOurs(directory, `${name} in it is a link, or not a file.`);
  if (find(ATTACHMENTS_FOLDER)?.isDirectory() === false)
    throw notOurs(directory, `${ATTACHMENTS_FOLDER} in it is a link, or not a folder.`);
}

function notOurs(directory: string, why: string): OperatorError {
  return new OperatorError('NO_DATA', `${directory} does not look like the data of a service: ${why}`);
}

async function listAttachments(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && isId('attachment', entry.name.replace(/\.part$/, '')))
    .map(({ name }) => join(folder, name));
}

async function measureSize(paths: readonly string[]): Promise<number> {
  let bytes = 0;
  for (const path of paths) bytes += (await lstat(path).catch(() => undefined))?.size ?? 0;
  return bytes;
}

/** Other files stay, and so does the folder. */
async function removeIfEmpty(folder: string): Promise<void> {
  const [first] = await readdir(folder);
  if (first === undefined) await rmdir(folder);
}

// The part of the ustar format (POSIX.1-1988) that `tar -x` needs to read our archives.

const BLOCK = 512;
const MAGIC = 'ustar\u000000';
/** The largest size that fits the octal digits of a header; beyond it GNU's binary form is used. */
const OCTAL_SIZE_MAX = 0o77777777777;

interface TarEntry {
  readonly name: string;
  readonly kind: 'file' | 'directory';
  readonly size: number;
}

interface FoundEntry extends TarEntry {
  /** Where its bytes begin in the archive. */
  readonly offset: number;
}

/** Two empty blocks end an archive. */
const TAR_END = Buffer.alloc(2 * BLOCK);

function tarHeader(entry: TarEntry, facts: { readonly modifiedAtS: number }): Buffer {
  const header = Buffer.alloc(BLOCK);
  const octal = (value: number, offset: number, length: number): void => {
    header.write(value.toString(8).padStart(length - 1, '0'), offset, 'latin1');
  };
  header.write(entry.name, 0, 100, 'latin1');
  octal(entry.kind === 'file' ? 0o600 : 0o700, 100, 8);
  octal(process.getuid?.() ?? 0, 108, 8);
  octal(process.getgid?.() ?? 0, 116, 8);
  writeSize(header, entry.size);
  octal(facts.modifiedAtS, 136, 12);
  header.write(' '.repeat(8), 148, 'latin1');
  header.write(entry.kind === 'file' ? '0' : '5', 156, 'latin1');
  header.write(MAGIC, 257, 'latin1');
  octal(computeChecksum(header), 148, 7);
  return header;
}

/** The padding after `size` bytes of content. */
function tarPadding(size: number): Buffer {
  return Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);
}

/** The entries of an archive, in order. Anything but a complete archive of files and directories is refused. */
async function* listTar(file: FileHandle): AsyncGenerator<FoundEntry> {
  const { size: total } = await file.stat();
  for (let position = 0; ; ) {
    const header = await readBlock(file, position);
    position += BLOCK;
    if (header.every((byte) => byte === 0)) return;
    const entry = readHeader(header);
    if (position + entry.size > total) throw broken();
    yield { ...entry, offset: position };
    position += Math.ceil(entry.size / BLOCK) * BLOCK;
  }
}

async function readBlock(file: FileHandle, position: number): Promise<Buffer> {
  const block = Buffer.alloc(BLOCK);
  const { bytesRead } = await file.read(block, 0, BLOCK, position);
  if (bytesRead < BLOCK) throw broken();
  return block;
}

function readHeader(header: Buffer): TarEntry {
  const text = (offset: number, length: number): string =>
    header.toString('latin1', offset, offset + length).replace(/[\0 ].*$/s, '');
  const claimed = Number.parseInt(text(148, 8), 8);
  header.fill(' ', 148, 156);
  const type = text(156, 1);
  const isKnown = header.toString('latin1', 257, 262) === 'ustar' && (type === '0' || type === '' || type === '5');
  if (computeChecksum(header) !== claimed || !isKnown) throw broken();
  return { name: text(0, 100), kind: type === '5' ? 'directory' : 'file', size: readSize(header, text(124, 12)) };
}

function writeSize(header: Buffer, size: number): void {
  if (size <= OCTAL_SIZE_MAX) {
    header.write(size.toString(8).padStart(11, '0'), 124, 'latin1');
    return;
  }
  header[124] = 0x80;
  header.writeBigUInt64BE(BigInt(size), 128);
}

function readSize(header: Buffer, octal: string): number {
  const size = header[124] === 0x80 ? Number(header.readBigUInt64BE(128)) : Number.parseInt(octal, 8);
  if (!Number.isSafeInteger(size) || size < 0) throw broken();
  return size;
}

function computeChecksum(header: Buffer): number {
  return header.reduce((sum, byte) => sum + byte, 0);
}

function broken(): OperatorError {
  return new OperatorError('BROKEN', 'Not an asp backup, or truncated.');
}
