import { codeOf } from '../../kit/format.js';
import { type ErrorCode, errorRow, isErrorCode, isRetryableStatus } from '../../wire/error.js';
import type { OAuthErrorCode } from '../../wire/oauth.js';

/** Whether a write whose request failed happened: it did not, it did, or it is unknown. */
export type Outcome = 'not_applied' | 'applied' | 'unknown';

/** Codes of failures that no answer of a service carries, and whether the same call may succeed later without a change. */
const IS_RETRYABLE = {
  ASP_UNREACHABLE: true,
  ASP_TLS: false,
  ASP_TIMEOUT: true,
  ASP_ABORTED: false,
  ASP_INSECURE_ADDRESS: false,
  ASP_BAD_ANSWER: false,
  ASP_NOT_OFFERED: false,
  ASP_NO_CREDENTIAL: false,
  ASP_LOGIN_ENDED: false,
  ASP_STORE_UNAVAILABLE: false,
  ASP_STORE_LOCKED: false,
  ASP_CREDENTIAL_COMMAND: false,
  ASP_DISCOVERY: false,
  ASP_LOGIN_DENIED: false,
  ASP_FILE_TOO_LARGE: false,
  ASP_FILE_TYPE: false,
  ASP_LOCAL_NOT_RUNNING: false,
  ASP_USAGE: false,
  ASP_CONFIG: false,
  ASP_WRONG_AGENT: false,
  ASP_ALREADY_RUNNING: false,
  ASP_NO_ANSWER: false,
  ASP_LIMIT: false,
  ASP_PARTIAL: false,
} as const;

/** The codes of failures that the client finds itself. Errors that a service sends keep their own codes. */
export type OwnErrorCode = keyof typeof IS_RETRYABLE;

/**
 * Every known code: of the contract, of OAuth, and of the client itself. A service may send others, so keep a `default` in a
 * `switch`.
 */
export type RequestErrorCode = ErrorCode | OAuthErrorCode | OwnErrorCode;

function isOwnErrorCode(code: string): code is OwnErrorCode {
  return Object.hasOwn(IS_RETRYABLE, code);
}

/** The request that failed, without tokens, secrets or query strings. */
export interface FailedRequest {
  readonly method: string;
  readonly path: string;
}

/** The contents of a {@link RequestError}. */
export interface RequestFailure {
  readonly code: RequestErrorCode | (string & Record<never, never>);
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
  /** The scopes that the request needs, if it was refused because one is missing. */
  readonly neededScopes?: readonly string[] | undefined;
  /** Names the request in the log of the service. */
  readonly requestId?: string | undefined;
  readonly sessionId?: string | undefined;
  readonly cause?: unknown;
}

/**
 * A request that did not succeed. Callers branch on `code`: one of the error table (spec: Errors), an OAuth error code
 * (RFC 6749 §5.2), or an `ASP_…` code of {@link OwnErrorCode}. Messages and members never hold tokens or secrets.
 */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  readonly code: RequestErrorCode;
  /** HTTP status of the last answer; undefined when there was none. */
  readonly status: number | undefined;
  /** Whether the same call may succeed later without a change. */
  readonly isRetryable: boolean;
  readonly outcome: Outcome;
  /** How many requests were sent. */
  readonly attempts: number;
  /** The key of all attempts: retry with it if the outcome is unknown. */
  readonly idempotencyKey: string | undefined;
  readonly request: FailedRequest | undefined;
  /** How long the service asked to wait, in milliseconds. */
  readonly retryAfterMs: number | undefined;
  readonly oauthError: string | undefined;
  /** The scopes that the request needs, if it was refused because one is missing. */
  readonly neededScopes: readonly string[] | undefined;
  /** Names the request in the log of the service: quote it to its operator. */
  readonly requestId: string | undefined;
  /** The session of a question that got no answer. */
  readonly sessionId: string | undefined;

  constructor(failure: RequestFailure) {
    super(failure.message, failure.cause === undefined ? undefined : { cause: failure.cause });
    this.code = failure.code as RequestErrorCode;
    this.status = failure.status;
    this.isRetryable = failure.isRetryable ?? adviceFor(failure.code, failure.status);
    this.outcome = failure.outcome ?? 'not_applied';
    this.attempts = failure.attempts ?? 0;
    this.idempotencyKey = failure.idempotencyKey;
    this.request = failure.request;
    this.retryAfterMs = failure.retryAfterMs;
    this.oauthError = failure.oauthError;
    this.neededScopes = failure.neededScopes;
    this.requestId = failure.requestId;
    this.sessionId = failure.sessionId;
  }
}

/** The maximum length of a service's error message that is shown. */
export const MESSAGE_MAX_LENGTH = 500;

function adviceFor(code: string, status: number | undefined): boolean {
  if (status !== undefined && isRetryableStatus(status)) return true;
  if (!isErrorCode(code)) return isOwnErrorCode(code) && IS_RETRYABLE[code];
  const { retry } = errorRow(code);
  return retry === 'after' || retry === 'backoff';
}

const TLS_CODE = /^(CERT_|ERR_TLS|ERR_SSL|EPROTO$|UNABLE_TO_|DEPTH_ZERO|SELF_SIGNED|HOSTNAME_MISMATCH|UNSUPPORTED_)/;
const CONNECT_TIMEOUT = 'UND_ERR_CONNECT_TIMEOUT';
const SILENCE_TIMEOUT = /^UND_ERR_(HEADERS|BODY)_TIMEOUT$/;
/** The parts of a request that HTTP does not allow; undici refuses them before it sends anything. */
const NOT_HTTP = /^UND_ERR_(INVALID_ARG|NOT_SUPPORTED)$/;

/**
 * A failed connection with one of our own codes; the cause keeps the system's error. `wasSent`: whether the request had
 * been written.
 */
export function toFailure(
  error: unknown,
  origin: string,
  outcome: Outcome,
  { signal, wasSent = outcome !== 'not_applied' }: { signal?: AbortSignal | undefined; wasSent?: boolean } = {},
): RequestError {
  if (error instanceof RequestError && signal?.aborted !== true) return error;
  if (signal?.aborted === true) return abortion(signal, outcome);
  const code = getCode(error);
  if (code === CONNECT_TIMEOUT) return timeout(outcome, `${origin} did not accept the connection in time.`);
  if (SILENCE_TIMEOUT.test(code)) return timeout(outcome, `${origin} did not answer in time.`);
  if (TLS_CODE.test(code))
    return new RequestError({
      code: 'ASP_TLS',
      message: `asp did not accept the certificate or the encryption of ${origin} (${code}).`,
      isRetryable: false,
      outcome,
      cause: error,
    });
  if (NOT_HTTP.test(code))
    return new RequestError({
      code: 'VALIDATION_ERROR',
      message: `Cannot send the request: ${error instanceof Error ? error.message : code}.`,
      isRetryable: false,
      outcome,
      cause: error,
    });
  // undici's name for a connection closed by the other side adds nothing to the sentence.
  const why = code === '' || code === 'UND_ERR_SOCKET' ? '' : ` (${code})`;
  return new RequestError({
    code: 'ASP_UNREACHABLE',
    message: wasSent ? `The connection to ${origin} broke${why}.` : `Could not reach ${origin}${why}.`,
    outcome,
    cause: error,
  });
}

/** Whether nothing listens at the address, so that the request reached no one. */
export function isRefusedConnection(error: unknown): boolean {
  return error instanceof RequestError && error.code === 'ASP_UNREACHABLE' && getCode(error.cause) === 'ECONNREFUSED';
}

/** Why the system did not connect, if it has nothing to do with the service. */
export function connectionAdvice({ cause }: RequestError): string | undefined {
  const code = getCode(cause);
  if (code === 'EPERM' || code === 'EACCES')
    return 'a sandbox or a firewall on this machine forbids it. In a coding agent, allow asp to use the network.';
  if (code === 'ENETUNREACH' || code === 'ENETDOWN')
    return 'there is no network here. In a sandbox or a container, allow asp to use the network.';
  return undefined;
}

/** Why a certificate was not accepted, and what helps; undefined if the encryption itself failed. */
export function certificateAdvice({ cause }: RequestError): string | undefined {
  const code = getCode(cause);
  if (/^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/.test(code))
    return 'the certificate is not valid today, or the clock of this machine is wrong.';
  if (/ALTNAME|HOSTNAME/.test(code)) return 'the certificate is for a different name than the one in the address.';
  if (/SELF_SIGNED|UNABLE_TO_|UNTRUSTED/.test(code))
    return 'its certificate authority is unknown here. To add your own, set NODE_EXTRA_CA_CERTS=<file.pem>.';
  return undefined;
}

/** The meaning of an aborted signal: the deadline if its reason says so, otherwise the caller's decision. */
export function abortion(signal: AbortSignal, outcome: Outcome): RequestError {
  const reason: unknown = signal.reason;
  if (reason instanceof RequestError && reason.code === 'ASP_TIMEOUT') return timeout(outcome, reason.message);
  if (reason instanceof Error && reason.name === 'TimeoutError') return timeout(outcome);
  const isClosed = reason instanceof RequestError && reason.code === 'ASP_ABORTED';
  return aborted(isClosed ? reason.message : 'The request was canceled.', outcome, reason);
}

function aborted(message: string, outcome: Outcome, cause?: unknown): RequestError {
  return new RequestError({ code: 'ASP_ABORTED', message, isRetryable: false, outcome, cause });
}

/** Why every call of a closed client ends. */
export function clientClosed(): RequestError {
  return aborted('The client was closed.', 'not_applied');
}

/** The deadline passed, or the other side was silent for too long. */
export function timeout(outcome: Outcome, message = 'There was no answer in time.'): RequestError {
  return new RequestError({ code: 'ASP_TIMEOUT', message, outcome });
}

function getCode(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return getCode(error.errors[0]);
  return codeOf(error);
}
