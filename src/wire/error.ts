/** How a client reacts to an error (spec: Errors, Client handling). */
type RetryAdvice = 'never' | 'refresh' | 'after' | 'backoff';

/** One row of the error table. */
export interface ErrorRow {
  /** HTTP status. */
  readonly status: number;
  /** `error` of the `WWW-Authenticate: Bearer` challenge, if there is one (RFC 6750 §3). */
  readonly challenge?: 'invalid_token' | 'insufficient_scope';
  readonly retry: RetryAdvice;
  /** Exit code of the command line. */
  readonly exit_code: number;
  /** The service's default message. It must not reveal which reason applies. */
  readonly message: string;
}

/** Every error code of the REST API and the WebSocket handshake (spec: Errors), and one addition. */
export const ERROR = {
  UNAUTHORIZED: {
    status: 401,
    challenge: 'invalid_token',
    retry: 'refresh',
    exit_code: 4,
    message: 'The access token is missing or not valid here.',
  },
  TOKEN_EXPIRED: {
    status: 401,
    challenge: 'invalid_token',
    retry: 'refresh',
    exit_code: 4,
    message: 'The access token has expired.',
  },
  INSUFFICIENT_SCOPE: {
    status: 403,
    challenge: 'insufficient_scope',
    retry: 'never',
    exit_code: 5,
    message: 'The access token lacks a scope that this endpoint needs.',
  },
  FORBIDDEN: { status: 403, retry: 'never', exit_code: 5, message: 'The access token cannot act on this resource.' },
  FEATURE_NOT_AVAILABLE: {
    status: 403,
    retry: 'never',
    exit_code: 5,
    message: 'This feature is not available to this account.',
  },
  NOT_FOUND: { status: 404, retry: 'never', exit_code: 3, message: 'Not found.' },
  AGENT_NOT_FOUND: { status: 404, retry: 'never', exit_code: 3, message: 'No agent matches.' },
  VALIDATION_ERROR: { status: 400, retry: 'never', exit_code: 2, message: 'The request is not valid.' },
  INVALID_HANDLE: {
    status: 400,
    retry: 'never',
    exit_code: 2,
    message: 'A handle has the form @owner.agent_name: lowercase letters, digits, _ and -.',
  },
  MISSING_IDEMPOTENCY_KEY: {
    status: 400,
    retry: 'never',
    exit_code: 2,
    message: 'Write endpoints need an Idempotency-Key header.',
  },
  IDEMPOTENCY_MISMATCH: {
    status: 400,
    retry: 'never',
    exit_code: 6,
    message: 'This Idempotency-Key was used with a different request.',
  },
  /** An addition: only a service that guards against loops has it (wire: Limits of our own, loop guard). */
  LOOP_GUARD: {
    status: 403,
    retry: 'never',
    exit_code: 11,
    message: 'Too many messages in this session without one from a person. A person can continue it.',
  },
  DUPLICATE_HANDLE: { status: 409, retry: 'never', exit_code: 6, message: 'This handle is already in use.' },
  RATE_LIMITED: { status: 429, retry: 'after', exit_code: 7, message: 'Too many requests. Try again later.' },
  INTERNAL_ERROR: {
    status: 500,
    retry: 'backoff',
    exit_code: 9,
    message: 'The service failed.',
  },
} as const satisfies Record<string, ErrorRow>;

/** The code of an error, on which callers branch (spec: Errors). */
export type ErrorCode = keyof typeof ERROR;

/** Whether `code` is in the table. */
export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR, code);
}

/** The row of a code. */
export function errorRow(code: ErrorCode): ErrorRow {
  return ERROR[code];
}

/** Statuses outside the table that a client retries: request timeout, too early, rate limit (spec: Client handling). */
export function isRetryableStatus(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500;
}
