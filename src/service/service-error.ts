import { type ErrorCode, errorRow } from '../wire/error.js';
import type { OwnRateLimitName, RateLimitName } from '../wire/limit.js';

export interface ServiceErrorOptions {
  /** Whole seconds after which the same call succeeds. */
  readonly retryAfterS?: number;
  /** Only where the table has no code: 405, 413, 415, 503. */
  readonly status?: number;
  /** The methods that a 405 names. */
  readonly allow?: string;
  /** Which rate limit refused. */
  readonly limit?: RateLimitName | OwnRateLimitName;
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
