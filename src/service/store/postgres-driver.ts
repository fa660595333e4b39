import pg from 'pg';

import type { DatabaseAddress } from './database-address.js';
import { decodeText } from './stored-text.js';

/** How long each step may take before it fails instead of holding up others. */
const CONNECT_TIMEOUT_MS = 5_000;
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

function configOf({ connectionString }: DatabaseAddress): pg.ClientConfig {
  return {
    connectionString,
    types,
    application_name: 'asp',
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    query_timeout: ANSWER_TIMEOUT_MS,
    lock_timeout: LOCK_TIMEOUT_MS,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT_MS,
  };
}

/**
 * Statements here take the first rows of an index in its order. A planner that expects few rows would rather gather all and
 * sort them, and is wrong where a session is long (D-186).
 */
const WALK_INDEXES = 'SET enable_bitmapscan = off';

/** A connection that is lost while nobody uses it is replaced by the next who needs one. */
export function createPool(address: DatabaseAddress, connectionsMax: number): pg.Pool {
  const pool = new pg.Pool({
    ...configOf(address),
    max: connectionsMax,
    idleTimeoutMillis: IDLE_CONNECTION_MS,
    onConnect: async (client) => void (await client.query(WALK_INDEXES)),
  });
  pool.on('error', () => {});
  // One that is lost in use says so to whoever awaits its answer.
  pool.on('connect', (client) => client.on('error', () => {}));
  return pool;
}

/** A connection of its own, without limits of time. */
export function createClient(address: DatabaseAddress): pg.Client {
  const { statement_timeout: _, query_timeout: __, lock_timeout: ___, ...config } = configOf(address);
  return new pg.Client(config);
}
