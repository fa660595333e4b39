import type { Dialect, Query } from '../core/database.js';
import { OperatorError } from '../core/errors.js';

/** One statement for both databases, or one for each; undefined if one of them needs none. */
export type Statement = string | { readonly sqlite: string | undefined; readonly postgres: string | undefined };

/**
 * A step toward the next version of the schema. On PostgreSQL each one commits on its own while services use the data,
 * and all of them run again after an interruption, so a step that is done must do no harm. On SQLite they share one
 * transaction.
 */
export type Step = {
  /** Describes it to the operator: `add event.day`. */
  readonly what: string;
  readonly table: string;
} & (
  | {
      /** Holds the table for a moment, whatever its size. */
      readonly kind: 'change';
      readonly sql: Statement;
    }
  | {
      /** Builds an index while services write. */
      readonly kind: 'index';
      readonly name: string;
      /** What follows the name of the table: `(day, id) WHERE day IS NOT NULL`. */
      readonly columns: string;
    }
  | {
      /** Changes rows in the order of this key, a page at a time. Rows that services write in the meantime may be left. */
      readonly kind: 'fill';
      readonly key: string;
      /** `day = created_at / 86400000` */
      readonly set: string;
      /** Which rows lack it: `day IS NULL`. */
      readonly where: string;
    }
);

export interface Migration {
  /** The version that it leads to, from the one before. */
  readonly to: number;
  /** The oldest version whose services can still use the data. A lower one than `to` makes a rolling upgrade possible. */
  readonly readableFrom: number;
  readonly steps: readonly Step[];
}

/** The oldest version that can be migrated. Data of earlier builds has no users. */
const FIRST_VERSION = 34;

const CLAIM_TABLE = `CREATE TABLE IF NOT EXISTS claim (
    session_id TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    agent_id TEXT NOT NULL REFERENCES agent (id),
    worker TEXT NOT NULL,
    event_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (session_id, agent_id)
  )`;
const HANDLED_TABLE = `CREATE TABLE IF NOT EXISTS handled (
    session_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    agent_id TEXT NOT NULL REFERENCES agent (id),
    PRIMARY KEY (session_id, event_id, agent_id)
  )`;

const WEBHOOK_TABLE = `CREATE TABLE IF NOT EXISTS webhook (
    agent_id TEXT PRIMARY KEY REFERENCES agent (id),
    account_id TEXT NOT NULL REFERENCES account (id),
    url TEXT NOT NULL,
    secret TEXT NOT NULL,
    revision INTEGER NOT NULL DEFAULT 1,
    set_at BIGINT NOT NULL,
    is_test_due INTEGER NOT NULL DEFAULT 1,
    next_at BIGINT,
    claimed_until BIGINT,
    failures INTEGER NOT NULL DEFAULT 0,
    failing_since BIGINT,
    failure TEXT,
    answered_at BIGINT,
    off_at BIGINT
  )`;
const WEBHOOK_QUEUE_TABLE = `CREATE TABLE IF NOT EXISTS webhook_queue (
    agent_id TEXT NOT NULL,
    position BIGINT NOT NULL,
    PRIMARY KEY (agent_id, position)
  )`;

const SHARE_LINK_TABLE = `CREATE TABLE IF NOT EXISTS share_link (
    id TEXT PRIMARY KEY,
    secret_hash TEXT NOT NULL UNIQUE,
    account_id TEXT NOT NULL REFERENCES account (id),
    session_id TEXT NOT NULL,
    through_sequence BIGINT NOT NULL,
    last_sequence BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
  )`;
/** The columns of each index of `share_link`, by what it finds. */
const SHARE_LINK_INDEX = {
  account: '(account_id, id)',
  session: '(session_id, account_id, id)',
  expiry: '(expires_at)',
} as const;

/**
 * All migrations, in order. What the last version needs also belongs in schema.ts, which creates it for new data. Add
 * first and remove later: a release adds what it needs and still writes what the one before reads; the release after it
 * removes what no one reads anymore.
 */
export const MIGRATIONS: readonly Migration[] = [
  {
    to: 35,
    readableFrom: 34,
    steps: [
      { kind: 'change', what: 'add claim', table: 'claim', sql: CLAIM_TABLE },
      { kind: 'change', what: 'add handled', table: 'handled', sql: HANDLED_TABLE },
    ],
  },
  {
    to: 36,
    readableFrom: 34,
    steps: [
      { kind: 'change', what: 'add webhook', table: 'webhook', sql: WEBHOOK_TABLE },
      {
        kind: 'index',
        what: 'index webhook by time',
        table: 'webhook',
        name: 'webhook_by_time',
        columns: '(next_at) WHERE next_at IS NOT NULL',
      },
      {
        kind: 'index',
        what: 'index webhook that is off',
        table: 'webhook',
        name: 'webhook_off',
        columns: '(account_id, off_at) WHERE off_at IS NOT NULL',
      },
      { kind: 'change', what: 'add webhook_queue', table: 'webhook_queue', sql: WEBHOOK_QUEUE_TABLE },
    ],
  },
  {
    to: 37,
    readableFrom: 34,
    steps: [
      { kind: 'change', what: 'add share_link', table: 'share_link', sql: SHARE_LINK_TABLE },
      ...Object.entries(SHARE_LINK_INDEX).map(
        ([name, columns]) =>
          ({
            kind: 'index',
            what: `index share_link by ${name}`,
            table: 'share_link',
            name: `share_link_by_${name}`,
            columns,
          }) as const,
      ),
    ],
  },
  {
    to: 38,
    readableFrom: 34,
    steps: [addColumn('share_link', 'view_handle', 'TEXT')],
  },
  {
    to: 39,
    readableFrom: 34,
    steps: [addColumn('refresh_family', 'last_network', 'TEXT'), addColumn('refresh_family', 'last_program', 'TEXT')],
  },
];

/** `type` as in schema.ts: `TEXT`, or `INTEGER NOT NULL DEFAULT 0`. */
function addColumn(table: string, column: string, type: string): Step {
  const alter = `ALTER TABLE ${table} ADD COLUMN`;
  const sql = { sqlite: `${alter} ${column} ${type}`, postgres: `${alter} IF NOT EXISTS ${column} ${type}` };
  return { kind: 'change', what: `add ${table}.${column}`, table, sql };
}

/** Where these migrations lead. */
export const versionAfter = (migrations: readonly Migration[]): number => migrations.at(-1)?.to ?? FIRST_VERSION;

/** The version of the schema that this program uses. */
export const SCHEMA_VERSION = versionAfter(MIGRATIONS);

export const VERSION_TABLE =
  'CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL, readable_from INTEGER NOT NULL)';

/** The statement that records the version of new data, or of data after a migration. */
export function recordVersion(migrations: readonly Migration[]): string {
  // A later migration does not bring back what an earlier one removed.
  const readableFrom = Math.max(FIRST_VERSION, ...migrations.map((migration) => migration.readableFrom));
  return `INSERT INTO schema_version (version, readable_from) VALUES (${versionAfter(migrations)}, ${readableFrom})`;
}

/** With `*`, because data before version 34 has no `readable_from`. */
export const VERSION_QUERY = 'SELECT * FROM schema_version ORDER BY version DESC LIMIT 1';

/** The row of `VERSION_QUERY`. */
export interface VersionRow {
  readonly version: number;
  /** Missing before version 34. */
  readonly readable_from?: number;
}

/**
 * The migrations that data of a version lacks; none if this program can use it as it is. Throws for data that it can
 * neither use nor migrate.
 */
export function listPending({ version, readable_from: readableFrom = version }: VersionRow, migrations = MIGRATIONS) {
  const target = versionAfter(migrations);
  const versions = `schema version ${version}; this one uses ${target}`;
  if (readableFrom > target)
    throw unusable(`The data was written by a newer asp (${versions}). Upgrade asp, or choose other data.`);
  if (version < FIRST_VERSION)
    throw unusable(
      `The data was written by an early asp, before the first release (${versions}). Move it aside and start empty.`,
    );
  return migrations.filter(({ to }) => to > version);
}

const unusable = (message: string): OperatorError => new OperatorError('DATABASE_NOT_USABLE', message);

/** Attachments without their database: starting with an empty one would hide that it is the wrong one. */
export function missingData(why: string): OperatorError {
  return unusable(
    `The database is empty (${why}), but the attachments folder belongs to a service with data. Nothing was ` +
      'changed. Check the database and its search_path, or restore it; to start empty, move the attachments folder away.',
  );
}

/** A step that a database needs, and how much it works on. */
export interface PlannedStep extends Pick<Step, 'what' | 'table' | 'kind'> {
  readonly to: number;
  /** Whether an earlier step creates the table, or this one does. */
  readonly is_new: boolean;
  /** In the table, as far as the database knows. */
  readonly rows: number | null;
}

const COUNT = {
  sqlite: (table: string) => `SELECT COUNT(*) AS rows FROM ${table}`,
  postgres: (table: string) =>
    `SELECT NULLIF(reltuples, -1)::bigint AS rows FROM pg_class WHERE oid = to_regclass('${table}')`,
};

export async function planSteps(query: Query, pending: readonly Migration[]): Promise<PlannedStep[]> {
  const planned: PlannedStep[] = [];
  for (const { to, steps } of pending)
    for (const { what, table, kind } of steps) {
      const exists = query.dialect === 'postgres' || (await query.get(HAS_TABLE, table)) !== undefined;
      const row = exists ? await query.get<{ rows: number | null }>(COUNT[query.dialect](table)) : undefined;
      const isNew = row === undefined;
      planned.push({ to, what, table, kind, is_new: isNew, rows: isNew ? 0 : row.rows });
    }
  return planned;
}

const HAS_TABLE = `SELECT 1 AS found FROM sqlite_master WHERE type = 'table' AND name = $1`;

/**
 * The statements of a step that fills: one finds the key at the end of the next $1 rows, the other fills up to that
 * key, $1. Both begin after $2, unless this is the first page.
 */
export function fillStatements({ table, key, set, where }: Step & { readonly kind: 'fill' }, isFirst: boolean) {
  const after = (parameter: string): string => (isFirst ? '' : `AND ${key} > ${parameter}`);
  return {
    findEnd: `SELECT MAX(${key}) AS last FROM (SELECT ${key} FROM ${table} WHERE TRUE ${after('$2')} ORDER BY ${key} LIMIT $1) AS page`,
    fill: `UPDATE ${table} SET ${set} WHERE ${key} <= $1 ${after('$2')} AND ${where}`,
  };
}

/** The statements of a step on SQLite or PostgreSQL. */
export const sqlOf = (sql: Statement, dialect: Dialect): string | undefined =>
  typeof sql === 'string' ? sql : sql[dialect];
