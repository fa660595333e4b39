import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { OperatorError } from '../core/errors.js';
import { DATABASE_FILE } from './data-directory.js';
import { SEALED_PREFIX, type SigningKeyRow } from './keys.js';
import { listPending, VERSION_QUERY, type VersionRow } from './migrations.js';
import { isDamage, loadSqlite, type SqliteConnection, withFile } from './sqlite-driver.js';

const BUSY_TIMEOUT_MS = 10_000;

/** An attachment in a database; unclaimed ones may disappear at any moment. */
interface SnapshotAttachment {
  readonly id: string;
  readonly size: number;
  readonly sha256: string;
  readonly isClaimed: boolean;
}

export interface Snapshot {
  readonly schemaVersion: number;
  readonly attachments: readonly SnapshotAttachment[];
}

interface CheckedDatabase extends Snapshot {
  /** The service needs its key file to start with it. */
  readonly areKeysSealed: boolean;
}

/**
 * Copies a snapshot of the database of a data directory into `file`, which exists and is empty. Other users of the data
 * do not wait. Without `withKeys` the copy contains no secret that the service still uses: the signing keys are left
 * out, and the service key is a new one (D-65).
 */
export async function takeSnapshot(directory: string, file: string, withKeys: boolean): Promise<Snapshot> {
  const source = join(directory, DATABASE_FILE);
  if (!existsSync(source))
    throw new OperatorError(
      'DATABASE_NOT_USABLE',
      `There is no database in ${directory}. Save a PostgreSQL database with pg_dump.`,
    );
  const open = await loadSqlite();
  try {
    using(open(source), (connection) => {
      connection.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
      connection.prepare('VACUUM INTO ?1').run(file);
    });
  } catch (error) {
    throw isDamage(error) ? damaged(error.message, source) : withFile(error, file);
  }
  return using(open(file), (connection) => {
    connection.exec('PRAGMA journal_mode = MEMORY');
    if (!withKeys) removeKeys(connection);
    // A restored copy begins a different history here.
    connection.exec("UPDATE epoch SET origin = 'backup' WHERE ordinal = (SELECT MAX(ordinal) FROM epoch)");
    return describe(connection);
  });
}

/** Checks a database that nothing uses. Throws if it is damaged, or of a version that this program cannot use. */
export async function checkDatabase(file: string): Promise<CheckedDatabase> {
  const open = await loadSqlite();
  return using(open(file), (connection) => {
    const snapshot = whole(connection);
    listPending(findVersion(connection) ?? { version: 0 });
    const keys = connection.prepare('SELECT private_jwk FROM signing_key').all() as Pick<
      SigningKeyRow,
      'private_jwk'
    >[];
    const areKeysSealed = keys.some(({ private_jwk: key }) => key.startsWith(SEALED_PREFIX));
    return { ...snapshot, areKeysSealed };
  });
}

/** Whether a file is a database created by this program, of any version. */
export async function isOwnDatabase(file: string): Promise<boolean> {
  const open = await loadSqlite();
  try {
    return using(open(file), (connection) => describe(connection).schemaVersion > 0);
  } catch {
    return false;
  }
}

function using<T>(connection: SqliteConnection, work: (connection: SqliteConnection) => T): T {
  try {
    return work(connection);
  } finally {
    connection.close();
  }
}

/** Deleted data is overwritten; otherwise it would remain in the free pages of the file. */
function removeKeys(connection: SqliteConnection): void {
  connection.exec('PRAGMA secure_delete = ON');
  connection.exec('DELETE FROM signing_key');
  if (hasTable(connection, 'service_key'))
    connection.prepare('UPDATE service_key SET secret = ?1').run(randomBytes(32).toString('base64url'));
}

/** The error for a file that is damaged or not a SQLite database, and what helps. */
export function damaged(why: string, path = 'The database'): OperatorError {
  return new OperatorError(
    'DATABASE_NOT_USABLE',
    `${path} is damaged (${why.replaceAll(/\s+/g, ' ')}). Keep it unchanged, and restore the last backup into an empty folder: asp serve restore.`,
  );
}

function whole(connection: SqliteConnection): Snapshot {
  try {
    const [finding] = connection.prepare('PRAGMA integrity_check(1)').all() as { integrity_check: string }[];
    const isSound =
      finding?.integrity_check === 'ok' && connection.prepare('PRAGMA foreign_key_check').all().length === 0;
    if (isSound) return describe(connection);
  } catch (cause) {
    throw new OperatorError('DATABASE_NOT_USABLE', 'The database is damaged.', cause);
  }
  throw new OperatorError('DATABASE_NOT_USABLE', 'The database is damaged.');
}

/** Undefined: it is empty. */
export const findVersion = (connection: SqliteConnection): VersionRow | undefined =>
  connection.prepare(VERSION_QUERY).get() as VersionRow | undefined;

function describe(connection: SqliteConnection): Snapshot {
  const attachments = connection
    .prepare('SELECT id, size, sha256, session_id FROM attachment ORDER BY id')
    .all() as (Omit<SnapshotAttachment, 'isClaimed'> & { session_id: string | null })[];
  return {
    schemaVersion: findVersion(connection)?.version ?? 0,
    attachments: attachments.map(({ id, size, sha256, session_id }) => ({
      id,
      size,
      sha256,
      isClaimed: session_id !== null,
    })),
  };
}

export function hasTable(connection: SqliteConnection, name: string): boolean {
  return connection.prepare(`SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1`).get(name) !== undefined;
}
