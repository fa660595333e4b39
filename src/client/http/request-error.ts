import { errorRow, isErrorCode, isRetryableStatus } from '../../wire/error.js';

/** What is known of a write whose request failed: it did not happen, it happened, or nobody can say. */
export type Outcome = 'not_applied' | 'applied' | 'unknown';

/** Codes of failures that no answer of a service carries; answers keep the service's or the OAuth error's own code. */
export type OwnErrorCode =
  | 'ASP_UNREACHABLE'
  | 'ASP_TLS'
  | 'ASP_TIMEOUT'
  | 'ASP_ABORTED'
  | 'ASP_INSECURE_ADDRESS'
  | 'ASP_BAD_ANSWER'
  | 'ASP_NO_CREDENTIAL'
  | 'ASP_LOGIN_ENDED'
  | 'ASP_STORE_UNAVAILABLE'
  | 'ASP_STORE_LOCKED'
  | 'ASP_CREDENTIAL_COMMAND'
  | 'ASP_DISCOVERY'
  | 'ASP_LOGIN_DENIED';

/** The request that failed. It never holds a token, a secret or a query string. */
export interface FailedRequest {
  readonly method: string;
  readonly path: string;
}

/** What a {@link RequestError} is made of. */
export interface RequestFailure {
  readonly code: OwnErrorCode | (string & Record<never, never>);
  readonly message: string;
  readonly status?: number | undefined;
  readonly isRetryable?: boolean | undefined;
  readonly outcome?: Outcome | undefined;
  readonly attempts?: number | undefined;
  readonly idempotencyKey?: string | undefined;
  readonly request?: FailedRequest | undefined;
  readonly retryAfterMs?: number | undefined;
  /** `error` of an OAuth answer or of a bearer challenge (RFC 6749 §5.2; RFC 6750 §3). */
  readonly oauthError?: string | undefined;
  readonly cause?: unknown;
}

/**
 * A request that did not succeed. Callers branch on `code`: one of the error table (spec: Errors), an OAuth error code
 * (RFC 6749 §5.2), or an `ASP_…` code of {@link OwnErrorCode}. Messages and members never hold tokens or secrets.
 */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  readonly code: string;
  /** HTTP status of the last answer; undefined when there was none. */
  readonly status: number | undefined;
  /** Whether the same call may succeed later without a change. */
  readonly isRetryable: boolean;
  readonly outcome: Outcome;
  /** How many requests were sent. */
  readonly attempts: number;
  /** The key that all tries used: repeat with it when the outcome is unknown. */
  readonly idempotencyKey: string | undefined;
  readonly request: FailedRequest | undefined;
  /** How long the service asked to wait, in milliseconds. */
  readonly retryAfterMs: number | undefined;
  readonly oauthError: string | undefined;

  constructor(failure: RequestFailure) {
    super(failure.message, failure.cause === undefined ? undefined : { cause: failure.cause });
    this.code = failure.code;
    this.status = failure.status;
    this.isRetryable = failure.isRetryable ?? adviceFor(failure.code, failure.status);
    this.outcome = failure.outcome ?? 'not_applied';
    this.attempts = failure.attempts ?? 0;
    this.idempotencyKey = failure.idempotencyKey;
    this.request = failure.request;
    this.retryAfterMs = failure.retryAfterMs;
    this.oauthError = failure.oauthError;
  }
}

function adviceFor(code: string, status: number | undefined): boolean {
  if (status !== undefined && isRetryableStatus(status)) return true;
  if (!isErrorCode(code)) return code === 'ASP_UNREACHABLE' || code === 'ASP_TIMEOUT';
  const { retry } = errorRow(code);
  return retry === 'after' || retry === 'backoff';
}
