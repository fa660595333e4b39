import { DatabaseLostError, DatabaseUnusableError } from './database.js';
import type { DatabaseAddress } from './database-address.js';

/** What another write has caused: run again, the work meets what that one left. */
const COLLISIONS: ReadonlySet<string> = new Set([
  '40001', // serialization_failure
  '40P01', // deadlock_detected
]);

/** The row was not there when it was looked for; or else it is a fault, which trying again does not mend. */
const UNIQUE_VIOLATION = '23505';
const UNIQUE_TRIES_MAX = 3;
/** A prepared statement from before a migration. */
const FEATURE_NOT_SUPPORTED = '0A000';

/** The connection is gone, or will be given again soon. */
const LOST: ReadonlySet<string> = new Set([
  ...['57P01', '57P02', '57P03', '57P05', '25P03', '08000', '08003', '08006', '08P01'],
  ...['ECONNRESET', 'EPIPE', 'ECONNREFUSED', 'ETIMEDOUT'],
]);
const LOST_MESSAGE =
  /^(Connection terminated|Client (was closed|has encountered a connection error)|timeout expired|Query read timeout)/;

export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

/** A write that failed so was not committed, and its work may succeed when it is run again. */
export function isCollision(error: unknown, tries: number): boolean {
  const isLate = codeOf(error) === UNIQUE_VIOLATION && tries < UNIQUE_TRIES_MAX;
  return COLLISIONS.has(codeOf(error)) || isLate || isStalePlan(error);
}

export function isStalePlan(error: unknown): boolean {
  return codeOf(error) === FEATURE_NOT_SUPPORTED;
}

/** There is no connection to be had now. */
export class NoConnectionError extends DatabaseLostError {
  override readonly name = 'NoConnectionError';
}

/** Whether the connection failed rather than the statement. */
export function isLostConnection(error: unknown): boolean {
  if (error instanceof NoConnectionError) return true;
  return LOST.has(codeOf(error)) || (error instanceof Error && LOST_MESSAGE.test(error.message));
}

/** The server takes no writes (any more): after a failover the connection may lead to a standby. */
export function isReadOnly(error: unknown): boolean {
  return codeOf(error) === '25006';
}

/** The server has no room for what was written: insufficient_resources, system_error. */
export function isOutOfSpace(error: unknown): boolean {
  return /^5[38]/.test(codeOf(error));
}

/** The driver knew that the connection was gone before it sent the statement. */
export function wasNeverSent(error: unknown): boolean {
  return error instanceof Error && error.message.endsWith('is not queryable');
}

const REASON: Readonly<Record<string, string>> = {
  '28P01': 'it refused the user or the password',
  '28000': 'it does not let this user in from here',
  '3D000': 'it has no database of this name',
  '42501': 'this user may not make tables there',
  '3F000': 'the search_path names no schema that exists',
  '53300': 'it has no connection to spare',
  '57P03': 'it is starting or stopping',
  ENOTFOUND: 'there is no host of this name',
  EAI_AGAIN: 'the name of its host cannot be looked up',
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'it closed the connection',
  ETIMEDOUT: 'it does not answer',
  EHOSTUNREACH: 'its host cannot be reached',
  ENETUNREACH: 'its network cannot be reached',
  ENOENT: 'there is no such socket',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is not trusted',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is not trusted',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate is not trusted',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another host',
};

/** Why a database could not be opened, for whoever starts the service; what is no fault of the place is thrown as it is. */
export function explainUnusable(address: DatabaseAddress, error: unknown): unknown {
  if (error instanceof DatabaseUnusableError) return error;
  const reason = REASON[codeOf(error)] ?? reasonInWords(error);
  if (reason === undefined) return error;
  return new DatabaseUnusableError(`The database ${address.shown} cannot be used: ${reason}.`, { cause: error });
}

function reasonInWords(error: unknown): string | undefined {
  if (error instanceof AggregateError) return REASON[codeOf(error.errors[0])];
  if (!(error instanceof Error)) return undefined;
  if (/timeout/i.test(error.message)) return REASON['ETIMEDOUT'];
  if (/SSL/.test(error.message)) return 'it does not speak TLS';
  if (/password must be a string|SASL/.test(error.message))
    return 'it wants a password: set PGPASSWORD, a pgpass file, or ASP_DATABASE with the password in its URL';
  return isLostConnection(error) ? REASON['ECONNRESET'] : undefined;
}
