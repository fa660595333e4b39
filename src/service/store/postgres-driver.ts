import pg from 'pg';

import type { DatabaseAddress } from './database-address.js';
import { NoConnectionError } from './postgres-errors.js';
import { assertSettings, SETTINGS_QUERY } from './postgres-settings.js';
import { decodeText } from './stored-text.js';

/** How long each step may take before it fails instead of holding up others. */
const CONNECT_TIMEOUT_MS = 5_000;
/** Another host may answer. */
const CONNECT_TIMEOUT_OF_SEVERAL_MS = 2_000;
const STATEMENT_TIMEOUT_MS = 15_000;
/** Longer than the database lets a statement take: it is the line then that says nothing any more. */
const ANSWER_TIMEOUT_MS = 17_000;
const LOCK_TIMEOUT_MS = 10_000;
/** A process that stands still in the middle of a transaction loses it, and its locks. */
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
 * Set by a statement and not in the start of a connection, where a pooler in between refuses what it does not know.
 * Statements here take the first rows of an index in its order; a planner that expects few rows would rather gather all and
 * sort them, and is wrong where a session is long (D-186).
 */
function settingsOf(schema: string | undefined): string {
  return [
    `SET statement_timeout = ${STATEMENT_TIMEOUT_MS}`,
    `SET lock_timeout = ${LOCK_TIMEOUT_MS}`,
    `SET idle_in_transaction_session_timeout = ${IDLE_IN_TRANSACTION_TIMEOUT_MS}`,
    'SET enable_bitmapscan = off',
    ...(schema === undefined ? [] : [`SET search_path = ${schema}`]),
  ].join('; ');
}

/** Connections to one database: to the first of its hosts that lets us in and takes writes. */
export interface Driver {
  /** Gives `work` a connection of its own, and closes it after it. Without `answerWithinMs` its statements have no limit of time. */
  useClient<T>(work: (client: pg.Client) => Promise<T>, answerWithinMs?: number): Promise<T>;
  /** `check` refuses a new connection by throwing. */
  createPool(connectionsMax: number, check: (client: pg.ClientBase) => Promise<void>): ConnectionPool;
}

export interface ConnectionPool {
  /** Throws a `NoConnectionError` when there is no connection to be had now. */
  connect(): Promise<pg.PoolClient>;
  close(): Promise<void>;
}

export function createDriver(address: DatabaseAddress): Driver {
  const { connectionStrings } = address;
  const isOneOfSeveral = connectionStrings.length > 1;
  let tried = 0;
  const config = (): pg.ClientConfig => ({
    connectionString: connectionStrings[tried % connectionStrings.length],
    types,
    application_name: 'asp',
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
    connectionTimeoutMillis: isOneOfSeveral ? CONNECT_TIMEOUT_OF_SEVERAL_MS : CONNECT_TIMEOUT_MS,
  });
  /** Those that fail together move on to the next host once. */
  const orNextHost = async <T>(attempt: () => Promise<T>): Promise<T> => {
    const before = tried;
    try {
      return await attempt();
    } catch (error) {
      if (tried === before) tried += 1;
      throw error;
    }
  };
  /** The pool makes its clients by itself: each asks anew which host it is for. */
  class PooledClient extends pg.Client {
    constructor() {
      super({ ...config(), query_timeout: ANSWER_TIMEOUT_MS });
    }
  }

  return {
    useClient: (work, answerWithinMs) =>
      orNextHost(async () => {
        const client = new pg.Client({ ...config(), query_timeout: answerWithinMs });
        // One that is lost in use says so to whoever awaits its answer.
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
      // A connection that is lost while nobody uses it is replaced by the next who needs one.
      pool.on('error', () => {});
      pool.on('connect', (client) => client.on('error', () => {}));
      return {
        connect: () =>
          orNextHost(() => pool.connect()).catch((cause: unknown) => {
            const reason = cause instanceof Error ? cause.message : String(cause);
            throw new NoConnectionError(`There is no connection to the database: ${reason}`, { cause });
          }),
        async close() {
          if (!pool.ended) await pool.end();
        },
      };
    },
  };
}

/**
 * Asks each new connection what the service asked the first one: after a failover or a change of settings it may lead to a
 * standby, to a server that loses acknowledged writes, or to another schema.
 */
export async function prepareConnection(client: pg.ClientBase, schema: string): Promise<void> {
  await client.query(settingsOf(schema));
  const { rows } = await client.query(SETTINGS_QUERY);
  assertSettings(rows[0], schema);
}
