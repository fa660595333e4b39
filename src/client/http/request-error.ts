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
  | 'ASP_LOGIN_DENIED'
  | 'ASP_FILE_TOO_LARGE'
  | 'ASP_LOCAL_NOT_RUNNING';

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
  /** The scopes that the request needs, where it was refused for the lack of one. */
  readonly neededScopes?: readonly string[] | undefined;
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
  /** The scopes that the request needs, where it was refused for the lack of one. */
  readonly neededScopes: readonly string[] | undefined;

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
    this.neededScopes = failure.neededScopes;
  }
}

/** No more than this of what a service says about a failure is told. */
export const MESSAGE_MAX_LENGTH = 500;

function adviceFor(code: string, status: number | undefined): boolean {
  if (status !== undefined && isRetryableStatus(status)) return true;
  if (!isErrorCode(code)) return code === 'ASP_UNREACHABLE' || code === 'ASP_TIMEOUT';
  const { retry } = errorRow(code);
  return retry === 'after' || retry === 'backoff';
}

const TLS_CODE = /^(CERT_|ERR_TLS|ERR_SSL|EPROTO$|UNABLE_TO_|DEPTH_ZERO|SELF_SIGNED|HOSTNAME_MISMATCH|UNSUPPORTED_)/;
const CONNECT_TIMEOUT = 'UND_ERR_CONNECT_TIMEOUT';
const SILENCE_TIMEOUT = /^UND_ERR_(HEADERS|BODY)_TIMEOUT$/;
/** The parts of a request that HTTP does not allow, as undici refuses them before it sends anything. */
const NOT_HTTP = /^UND_ERR_(INVALID_ARG|NOT_SUPPORTED)$/;

/** A failed connection in our own codes; the cause keeps the system's error. `wasSent`: whether the request had been written. */
export function failureOf(
  error: unknown,
  origin: string,
  outcome: Outcome,
  { signal, wasSent = outcome !== 'not_applied' }: { signal?: AbortSignal | undefined; wasSent?: boolean } = {},
): RequestError {
  if (error instanceof RequestError && signal?.aborted !== true) return error;
  if (signal?.aborted === true) return abortion(signal, outcome);
  const code = codeOf(error);
  if (code === CONNECT_TIMEOUT) return timeout(outcome, `${origin} did not take the connection in time.`);
  if (SILENCE_TIMEOUT.test(code)) return timeout(outcome, `${origin} did not answer in time.`);
  if (TLS_CODE.test(code))
    return new RequestError({
      code: 'ASP_TLS',
      message: `The certificate or the encryption of ${origin} was not accepted (${code}).`,
      isRetryable: false,
      outcome,
      cause: error,
    });
  if (NOT_HTTP.test(code))
    return new RequestError({
      code: 'VALIDATION_ERROR',
      message: `The request cannot be sent: ${error instanceof Error ? error.message : code}.`,
      isRetryable: false,
      outcome,
      cause: error,
    });
  // undici's name for a connection that the other side closed says less than the sentence.
  const why = code === '' || code === 'UND_ERR_SOCKET' ? '' : ` (${code})`;
  return new RequestError({
    code: 'ASP_UNREACHABLE',
    message: wasSent ? `The connection to ${origin} broke${why}.` : `${origin} could not be reached${why}.`,
    outcome,
    cause: error,
  });
}

/** Whether no program listens at the address: the request reached nobody. */
export function isRefusedConnection(error: unknown): boolean {
  return error instanceof RequestError && error.code === 'ASP_UNREACHABLE' && codeOf(error.cause) === 'ECONNREFUSED';
}

/** Why a certificate was not accepted, and what helps; undefined where the encryption itself failed. */
export function certificateAdvice({ cause }: RequestError): string | undefined {
  const code = codeOf(cause);
  if (/^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/.test(code))
    return 'the certificate is not valid today, or the clock of this machine is wrong.';
  if (/ALTNAME|HOSTNAME/.test(code)) return 'the certificate is for another name than the address has.';
  if (/SELF_SIGNED|UNABLE_TO_|UNTRUSTED/.test(code))
    return 'nobody known here vouches for it: NODE_EXTRA_CA_CERTS=<file.pem> names an authority of your own.';
  return undefined;
}

/** What an aborted signal means: the deadline when its reason says so, else the caller's wish. */
export function abortion(signal: AbortSignal, outcome: Outcome): RequestError {
  const reason: unknown = signal.reason;
  if (reason instanceof RequestError && reason.code === 'ASP_TIMEOUT') return timeout(outcome, reason.message);
  if (reason instanceof Error && reason.name === 'TimeoutError') return timeout(outcome);
  return new RequestError({
    code: 'ASP_ABORTED',
    message: 'The request was given up.',
    isRetryable: false,
    outcome,
    cause: reason,
  });
}

/** The deadline passed, or the other side was silent for too long. */
export function timeout(outcome: Outcome, message = 'There was no answer in time.'): RequestError {
  return new RequestError({ code: 'ASP_TIMEOUT', message, outcome });
}

function codeOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return codeOf(error.errors[0]);
  if (!(error instanceof Error)) return '';
  return 'code' in error && typeof error.code === 'string' ? error.code : '';
}
