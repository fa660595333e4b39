import pg from 'pg';
import { codeOf, messageOf } from '../../kit/format.js';
import type { PoolLoad, PostgresLimits, Query } from '../core/database.js';
import { isOutage, isUnusable, OperatorError } from '../core/errors.js';
import type { DatabaseAddress } from './database-address.js';
import { decodeText } from './postgres-query.js';

/** Conflicts with another write: a retry sees the result of that write. */
const COLLISIONS: ReadonlySet<string> = new Set([
  '40001', // serialization_failure
  '40P01', // deadlock_detected
]);

/** The row did not exist when it was looked up; otherwise it is a bug, which a retry does not fix. */
const UNIQUE_VIOLATION = '23505';
const UNIQUE_TRIES_MAX = 3;
/** A prepared statement from before a migration. */
const FEATURE_NOT_SUPPORTED = '0A000';

/** The connection is gone, or will be closed soon. */
const LOST: ReadonlySet<string> = new Set([
  ...['57P01', '57P02', '57P03', '57P05', '25P03', '08000', '08003', '08006', '08P01'],
  ...['ECONNRESET', 'EPIPE', 'ECONNREFUSED', 'ETIMEDOUT'],
]);
const LOST_MESSAGE =
  /^(Connection terminated|Client (was closed|has encountered a connection error)|timeout expired|Query read timeout)/;

/** A write that failed this way was not committed, and a retry may succeed. */
export function isCollision(error: unknown, tries: number): boolean {
  const isLate = codeOf(error) === UNIQUE_VIOLATION && tries < UNIQUE_TRIES_MAX;
  return COLLISIONS.has(codeOf(error)) || isLate || isStalePlan(error);
}

export function isStalePlan(error: unknown): boolean {
  return codeOf(error) === FEATURE_NOT_SUPPORTED;
}

/** Whether the connection failed rather than the statement. */
export function isLostConnection(error: unknown): boolean {
  if ((isOutage(error) && error.code === 'NO_CONNECTION') || isMixedUp(error)) return true;
  return LOST.has(codeOf(error)) || (error instanceof Error && LOST_MESSAGE.test(error.message));
}

/** invalid_sql_statement_name, duplicate_prepared_statement, undefined_table */
const MIXED_UP: ReadonlySet<string> = new Set(['26000', '42P05', '42P01']);

/**
 * The connection has the prepared statements or the schema of another one, because a pooler in between keeps no sessions;
 * or the tables are gone, as during a restore.
 */
export function isMixedUp(error: unknown): boolean {
  return MIXED_UP.has(codeOf(error)) || (error instanceof OperatorError && MIXED_UP.has(codeOf(error.cause)));
}

/** The server refuses writes: after a failover the connection may lead to a standby. */
export function isReadOnly(error: unknown): boolean {
  return codeOf(error) === '25006';
}

/** The server has no space for the write: insufficient_resources, system_error. */
export function isOutOfSpace(error: unknown): boolean {
  return /^5[38]/.test(codeOf(error));
}

/** Something else held it up for too long: lock_not_available, query_canceled. */
const HELD_UP: ReadonlySet<string> = new Set(['55P03', '57014']);

/** The statement was not carried out, and the same call may succeed later. */
export function isBusy(error: unknown): boolean {
  return HELD_UP.has(codeOf(error)) || COLLISIONS.has(codeOf(error)) || isOutOfSpace(error);
}

/** The driver knew that the connection was gone before it sent the statement. */
export function wasNeverSent(error: unknown): boolean {
  return error instanceof Error && error.message.endsWith('is not queryable');
}

const REASON: Readonly<Record<string, string>> = {
  '28P01': 'it refused the user or the password',
  '28000': 'it does not let this user in from here',
  '3D000': 'it has no database with this name',
  '42501': 'this user may not create tables there',
  '42P07': 'its schema has tables of another program. Name an empty or new schema with search_path',
  '3F000': 'the search_path names no schema that exists',
  '42P01': 'some of its tables are missing, as after a restore that was interrupted',
  '53300': 'it has no connection to spare',
  '57P03': 'it is starting or stopping',
  ENOTFOUND: 'there is no host with this name',
  EAI_AGAIN: 'the name of its host cannot be resolved',
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'it closed the connection',
  ETIMEDOUT: 'it does not respond',
  EHOSTUNREACH: 'its host cannot be reached',
  ENETUNREACH: 'its network cannot be reached',
  ENOENT: 'there is no such socket',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is not trusted',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is not trusted',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate is not trusted',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for a different host',
};

/** Why a database could not be opened, worded for the person who starts the service; other errors are rethrown. */
export function explainUnusable(address: DatabaseAddress, error: unknown): unknown {
  if (isUnusable(error)) return error;
  const reason = explainBinding(error) ?? REASON[codeOf(error)] ?? explainReason(error);
  if (reason === undefined) return error;
  return new OperatorError('DATABASE_NOT_USABLE', `The database ${address.shown} cannot be used: ${reason}.`, error);
}

/** It has the code of a user who is not let in. */
function explainBinding(error: unknown): string | undefined {
  if (!(error instanceof Error) || !/channel binding/.test(error.message)) return undefined;
  return 'its certificate is not the one that this connection shows, so someone may be in between (channel_binding)';
}

function explainReason(error: unknown): string | undefined {
  if (error instanceof AggregateError) return REASON[codeOf(error.errors[0])];
  if (!(error instanceof Error)) return undefined;
  if (/timeout/i.test(error.message)) return REASON['ETIMEDOUT'];
  if (/SSL/.test(error.message)) return 'it does not speak TLS';
  if (/password must be a string|SASL/.test(error.message))
    return 'it requires a password: set PGPASSWORD, a pgpass file, or ASP_DATABASE with the password in its URL';
  return isLostConnection(error) ? REASON['ECONNRESET'] : undefined;
}

/** PostgreSQL 14: the oldest that was supported when this was written. */
const VERSION_MIN = 140_000;

/** Settings that durability and integrity depend on, as the server reports them. */
export interface PostgresSettings {
  readonly version: number;
  readonly synchronous_commit: string;
  readonly fsync: string;
  readonly full_page_writes: string;
  readonly encoding: string;
  readonly is_standby: number;
  /** A setting makes it refuse writes. */
  readonly is_read_only: number;
  readonly schema: string | null;
  readonly autovacuum: string;
}

const SETTINGS_QUERY = `SELECT current_setting('server_version_num')::int AS version,
       current_setting('synchronous_commit') AS synchronous_commit, current_setting('fsync') AS fsync,
       current_setting('full_page_writes') AS full_page_writes, current_setting('server_encoding') AS encoding,
       CASE WHEN pg_is_in_recovery() THEN 1 ELSE 0 END AS is_standby,
       CASE WHEN current_setting('transaction_read_only') = 'on' THEN 1 ELSE 0 END AS is_read_only, current_schema()::text AS schema,
       current_setting('autovacuum') AS autovacuum`;

export async function readSettings(query: Query): Promise<PostgresSettings> {
  const row = await query.get<PostgresSettings>(SETTINGS_QUERY);
  if (row === undefined) throw new Error('The database returned no settings.');
  return row;
}

/**
 * Throws unless an acknowledged write survives a crash there and the connection uses the requested schema; returns the
 * schema.
 */
export function assertSettings(settings: PostgresSettings, wanted?: string): string {
  const demands: readonly [string, boolean][] = [
    [
      `it is PostgreSQL ${Math.floor(settings.version / 10_000)}; version 14 or later is required`,
      settings.version >= VERSION_MIN,
    ],
    ['it is a standby, which refuses writes', settings.is_standby === 0],
    ['it is read-only', settings.is_read_only === 0],
    ['synchronous_commit is off, which loses acknowledged writes in a crash', settings.synchronous_commit !== 'off'],
    ['fsync is off, which loses or corrupts data in a crash', settings.fsync === 'on'],
    ['full_page_writes is off, which can corrupt data in a crash', settings.full_page_writes === 'on'],
    [`its encoding is ${settings.encoding}, not UTF8`, settings.encoding === 'UTF8'],
  ];
  for (const [complaint, isMet] of demands)
    if (!isMet) throw new OperatorError('DATABASE_NOT_USABLE', `This database cannot be used: ${complaint}.`);
  if (settings.schema === null)
    throw new OperatorError(
      'DATABASE_NOT_USABLE',
      'This database cannot be used: the search_path names no schema that exists.',
    );
  if (wanted !== undefined && settings.schema !== wanted)
    throw new OperatorError(
      'DATABASE_NOT_USABLE',
      `This database cannot be used: the schema ${wanted} was requested, but the connection uses ${settings.schema}. ` +
        'Does a pooler ignore this setting?',
    );
  return settings.schema;
}

/** How long each step may take before it fails instead of holding up others. */
const CONNECT_TIMEOUT_MS = 5_000;
/** Another host may respond. */
const CONNECT_TIMEOUT_OF_SEVERAL_MS = 2_000;
/** Longer than the database allows for a statement: beyond this, the connection itself is silent. */
const ANSWER_MARGIN_MS = 2_000;
/** A process that is frozen in the middle of a transaction loses the transaction and its locks. */
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 15_000;
const IDLE_CONNECTION_MS = 30_000;
const KEEP_ALIVE_AFTER_MS = 10_000;

const OID = { int8: 20, text: 25 } as const;

/** Numbers are numbers: every BIGINT of the schema is a sequence, a count or a time, and far below 2^53. */
const types: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') => {
    if (oid === OID.int8) return Number;
    if (oid === OID.text) return decodeText;
    return pg.types.getTypeParser(oid, format);
  }) as typeof pg.types.getTypeParser,
};

/**
 * Set by a statement and not as a startup parameter, because poolers refuse parameters that they do not know.
 * Statements here take the first rows of an index in its order; a planner that expects few rows would rather gather and
 * sort all of them, which is wrong for a long session (D-186).
 */
function toSettings(schema: string, { statementTimeoutMs, lockTimeoutMs }: PostgresLimits): string {
  return [
    `SET statement_timeout = ${statementTimeoutMs}`,
    `SET lock_timeout = ${lockTimeoutMs}`,
    `SET idle_in_transaction_session_timeout = ${IDLE_IN_TRANSACTION_TIMEOUT_MS}`,
    'SET enable_bitmapscan = off',
    `SET search_path = ${schema}`,
  ].join('; ');
}

/** Connections to one database: to the first of its hosts that lets us in and accepts writes. */
export interface Driver {
  readonly limits: PostgresLimits;
  /**
   * Gives `work` its own connection, and closes it afterwards. Without `answerWithinMs` its statements have no
   * time limit.
   */
  useClient<T>(work: (client: pg.Client) => Promise<T>, answerWithinMs?: number): Promise<T>;
  /** `check` refuses a new connection by throwing. */
  createPool(connectionsMax: number, check: (client: pg.ClientBase) => Promise<void>): ConnectionPool;
}

export interface ConnectionPool {
  /** Throws `NO_CONNECTION` if there is no connection available now. */
  connect(): Promise<pg.PoolClient>;
  /** From now on, no connection is used that was opened before. */
  renew(): void;
  load(): PoolLoad;
  close(): Promise<void>;
}

/** The way to sign in that covers the certificate of the connection (RFC 5929, tls-server-end-point). */
const BINDING_MECHANISM = 'SCRAM-SHA-256-PLUS';

/**
 * The driver binds if the server offers it. This refuses a server that does not, before it gets a password, and one that
 * lets us in without a proof. The listeners come before those of the driver, which adds its own as it connects.
 */
function requireBinding({ connection }: pg.Client): void {
  let isOffered = false;
  let isProven = false;
  const refuse = (): void => {
    connection.stream.destroy();
    const why = 'channel_binding=require, and the server does not offer it';
    connection.emit(
      'error',
      new OperatorError(
        'DATABASE_NOT_USABLE',
        `This database cannot be used: ${why}. It needs TLS from here to the server (sslmode), and a password with scram-sha-256. ` +
          'Otherwise leave channel_binding out, and use sslmode=verify-full.',
      ),
    );
  };
  connection.on('authenticationSASL', ({ mechanisms }: { readonly mechanisms: readonly string[] }) => {
    isOffered = mechanisms.includes(BINDING_MECHANISM);
    if (!isOffered) refuse();
  });
  connection.on('authenticationSASLFinal', () => {
    isProven = isOffered;
  });
  for (const name of ['authenticationCleartextPassword', 'authenticationMD5Password']) connection.on(name, refuse);
  connection.on('authenticationOk', () => {
    if (!isProven) refuse();
  });
}

export function createDriver(address: DatabaseAddress, limits: PostgresLimits): Driver {
  const { connectionStrings, channelBinding } = address;
  const isOneOfSeveral = connectionStrings.length > 1;
  let tried = 0;
  const config = (): pg.ClientConfig => ({
    connectionString: connectionStrings[tried % connectionStrings.length],
    types,
    enableChannelBinding: channelBinding !== 'disable',
    application_name: 'asp',
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
    connectionTimeoutMillis: isOneOfSeveral ? CONNECT_TIMEOUT_OF_SEVERAL_MS : CONNECT_TIMEOUT_MS,
  });
  /** Connections that fail together move on to the next host only once. */
  const orNextHost = async <T>(attempt: () => Promise<T>): Promise<T> => {
    const before = tried;
    try {
      return await attempt();
    } catch (error) {
      if (tried === before) tried += 1;
      throw error;
    }
  };
  /** Each asks for its host. */
  class HostClient extends pg.Client {
    constructor(more: pg.ClientConfig) {
      super({ ...config(), ...more });
      if (channelBinding === 'require') requireBinding(this);
    }
  }
  /** The pool creates its own clients. */
  class PooledClient extends HostClient {
    constructor() {
      // Statements that do not wait for each other are pipelined.
      super({ query_timeout: limits.statementTimeoutMs + ANSWER_MARGIN_MS, pipeline: true });
    }
  }

  return {
    limits,
    useClient: (work, answerWithinMs) =>
      orNextHost(async () => {
        const client = new HostClient({ query_timeout: answerWithinMs });
        // A connection lost during use reports that to the waiting caller.
        client.on('error', () => {});
        try {
          await client.connect();
          return await work(client);
        } finally {
          await client.end().catch(() => {});
        }
      }),
    createPool(connectionsMax, check) {
      const pool = new pg.Pool({
        Client: PooledClient,
        max: connectionsMax,
        idleTimeoutMillis: IDLE_CONNECTION_MS,
        connectionTimeoutMillis: config().connectionTimeoutMillis,
        onConnect: check,
      });
      // A connection lost while idle is replaced by the next caller who needs one.
      pool.on('error', () => {});
      let current = new WeakSet<pg.PoolClient>();
      pool.on('connect', (client) => {
        current.add(client);
        client.on('error', () => {});
      });
      const connect = async (): Promise<pg.PoolClient> => {
        for (;;) {
          const client = await pool.connect();
          if (current.has(client)) return client;
          client.release(true);
        }
      };
      return {
        connect: () =>
          orNextHost(connect).catch((cause: unknown) => {
            const reason = messageOf(cause);
            throw new OperatorError('NO_CONNECTION', `There is no connection to the database: ${reason}`, cause);
          }),
        renew() {
          current = new WeakSet();
        },
        load: () => ({ used: pool.totalCount - pool.idleCount, idle: pool.idleCount, max: connectionsMax }),
        async close() {
          if (!pool.ended) await pool.end();
        },
      };
    },
  };
}

/**
 * Checks each new connection like the first one: after a failover or a change of settings it may lead to a standby, to
 * a server that loses acknowledged writes, or to another schema.
 */
export async function prepareConnection(client: pg.ClientBase, schema: string, limits: PostgresLimits): Promise<void> {
  await client.query(toSettings(schema, limits));
  const { rows } = await client.query(SETTINGS_QUERY);
  assertSettings(rows[0], schema);
}
