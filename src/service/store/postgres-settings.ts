import { DatabaseUnusableError, type Query } from './database.js';

/** PostgreSQL 14: the oldest that was supported when this was written. */
const VERSION_MIN = 140_000;

/** What durability and integrity rest on, as the server itself reports it. */
export interface PostgresSettings {
  readonly version: number;
  readonly synchronous_commit: string;
  readonly fsync: string;
  readonly full_page_writes: string;
  readonly encoding: string;
  readonly is_standby: number;
  /** Writes are refused by a setting. */
  readonly is_read_only: number;
  readonly schema: string | null;
  readonly autovacuum: string;
}

export const SETTINGS_QUERY = `SELECT current_setting('server_version_num')::int AS version,
       current_setting('synchronous_commit') AS synchronous_commit, current_setting('fsync') AS fsync,
       current_setting('full_page_writes') AS full_page_writes, current_setting('server_encoding') AS encoding,
       CASE WHEN pg_is_in_recovery() THEN 1 ELSE 0 END AS is_standby,
       CASE WHEN current_setting('transaction_read_only') = 'on' THEN 1 ELSE 0 END AS is_read_only, current_schema()::text AS schema,
       current_setting('autovacuum') AS autovacuum`;

export async function readSettings(query: Query): Promise<PostgresSettings> {
  const row = await query.get<PostgresSettings>(SETTINGS_QUERY);
  if (row === undefined) throw new Error('The database gave no settings.');
  return row;
}

/**
 * Throws unless an acknowledged write survives a crash there, and everything stands in the schema that was asked for;
 * gives the schema.
 */
export function assertSettings(settings: PostgresSettings, wanted?: string): string {
  const demands: readonly [string, boolean][] = [
    [
      `it is PostgreSQL ${Math.floor(settings.version / 10_000)}, and 14 or later is needed`,
      settings.version >= VERSION_MIN,
    ],
    ['it is a standby, which takes no writes', settings.is_standby === 0],
    ['it is set to be read-only', settings.is_read_only === 0],
    ['synchronous_commit is off, which loses acknowledged writes in a crash', settings.synchronous_commit !== 'off'],
    ['fsync is off, which loses or corrupts data in a crash', settings.fsync === 'on'],
    ['full_page_writes is off, which can corrupt data in a crash', settings.full_page_writes === 'on'],
    [`its encoding is ${settings.encoding}, not UTF8`, settings.encoding === 'UTF8'],
  ];
  for (const [complaint, isMet] of demands)
    if (!isMet) throw new DatabaseUnusableError(`This database cannot be used: ${complaint}.`);
  if (settings.schema === null)
    throw new DatabaseUnusableError('This database cannot be used: the search_path names no schema that exists.');
  if (wanted !== undefined && settings.schema !== wanted)
    throw new DatabaseUnusableError(
      `This database cannot be used: the schema ${wanted} was asked for, and the connection uses ${settings.schema}. ` +
        'Does a pooler ignore what is set?',
    );
  return settings.schema;
}
