import { type ErrorCode, errorRow } from '../../wire/error.js';
import type { OwnRateLimitName, RateLimitName } from '../../wire/limit.js';
import type { Transaction } from './database.js';

export interface ServiceErrorOptions {
  /** Whole seconds after which the same call succeeds. */
  readonly retryAfterS?: number;
  /** Only for statuses without a code in the table: 405, 413, 415, 503. */
  readonly status?: number;
  /** The methods listed by a 405. */
  readonly allow?: string;
  /** The rate limit that refused. */
  readonly limit?: RateLimitName | OwnRateLimitName;
  /** Writes what remains of a refusal, with its record, once the refused work is rolled back. */
  readonly afterRefusal?: (transaction: Transaction) => Promise<void>;
}

/** An answer with the error envelope. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError';
  readonly code: ErrorCode;
  readonly status: number;
  readonly options: ServiceErrorOptions;

  constructor(code: ErrorCode, message: string = errorRow(code).message, options: ServiceErrorOptions = {}) {
    super(message);
    this.code = code;
    this.status = options.status ?? errorRow(code).status;
    this.options = options;
  }
}

/** Whether an error is a refusal with this code. */
export function hasCode(error: unknown, code: ErrorCode): error is ServiceError {
  return error instanceof ServiceError && error.code === code;
}

export function shuttingDown(): ServiceError {
  return new ServiceError('INTERNAL_ERROR', 'The service is shutting down.', { status: 503, retryAfterS: 1 });
}

/** The errors that an operator has to deal with, in the order in which they can occur. */
const OPERATOR_ERROR = {
  /** Another program listens on the address. */
  PORT_IN_USE: 'start',
  /** The address does not belong to this machine, or this user may not use it. */
  ADDRESS_NOT_AVAILABLE: 'start',
  /** Another process uses the data. */
  DATA_IN_USE: 'start',
  /** The database is unreachable, refuses the login, or is configured unsafely. The message holds no secret. */
  DATABASE_NOT_USABLE: 'start',
  /** The attachments folder or bucket belongs to other data, or cannot be reached. */
  ATTACHMENTS_NOT_USABLE: 'start',
  /** The signing keys are sealed, and not with the key that this service has. */
  KEYS_NOT_USABLE: 'start',
  /** The address of the bus is malformed, or its credentials cannot be read. */
  BUS_NOT_USABLE: 'start',
  /** Clients could not use the certificate, or its files cannot be read. */
  CERTIFICATE_NOT_USABLE: 'start',
  /** Tokens would cross the network in the clear. */
  NOT_ENCRYPTED: 'start',
  INVALID_PUBLIC_URL: 'start',
  /** Its handle belongs to an account that a person signed up for, or to a removed agent. */
  SEED_NOT_AVAILABLE: 'start',
  /** There is nothing to back up. */
  NO_DATA: 'backup',
  /** A file with that name exists. */
  EXISTS: 'backup',
  /** The restore would overwrite other data. */
  NOT_EMPTY: 'backup',
  /** The backup is damaged, incomplete, or not a backup. */
  BROKEN: 'backup',
  /** The database cannot be reached or does not respond, even after retries. */
  DATABASE_LOST: 'outage',
  /** The database responds, but could not do this now: something holds a lock, or it has no space. Nothing was written. */
  DATABASE_BUSY: 'outage',
  /** The bucket of the attachments does not respond or refuses, even after retries. */
  ATTACHMENTS_LOST: 'outage',
  /** The pool has no free connection. */
  NO_CONNECTION: 'outage',
  /**
   * COMMIT was sent, but no answer came: the work was done completely or not at all. Only its idempotency key makes a
   * second run safe.
   */
  COMMIT_UNKNOWN: 'outage',
} as const;
export type OperatorErrorCode = keyof typeof OPERATOR_ERROR;
type Occasion = (typeof OPERATOR_ERROR)[OperatorErrorCode];
type ErrorOf<At extends Occasion> = OperatorError & {
  readonly code: {
    [Code in OperatorErrorCode]: (typeof OPERATOR_ERROR)[Code] extends At ? Code : never;
  }[OperatorErrorCode];
};

const OPERATOR_ERROR_NAME = 'OperatorError';

/**
 * A service could not start, a backup could not be made or restored, or the database was lost. A failed start or backup
 * changes nothing.
 */
export class OperatorError extends Error {
  override readonly name = OPERATOR_ERROR_NAME;
  readonly code: OperatorErrorCode;

  constructor(code: OperatorErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}

/** Compares names: the command line loads the service as a separate bundle, which has its own copy of the class. */
function isOperatorError(error: unknown, at: Occasion): error is OperatorError {
  if (!(error instanceof Error) || error.name !== OPERATOR_ERROR_NAME) return false;
  return OPERATOR_ERROR[(error as OperatorError).code] === at;
}

/** Why a service did not start. */
export const isStartError = (error: unknown): error is ErrorOf<'start'> => isOperatorError(error, 'start');

/** Why a backup was not made or not restored. */
export const isBackupError = (error: unknown): error is ErrorOf<'backup'> => isOperatorError(error, 'backup');

/** A database or a bucket cannot be reached or does not answer. */
export const isOutage = (error: unknown): error is ErrorOf<'outage'> => isOperatorError(error, 'outage');

/** A database that cannot be used as it is. */
export const isUnusable = (error: unknown): error is ErrorOf<'start'> =>
  isStartError(error) && error.code === 'DATABASE_NOT_USABLE';
