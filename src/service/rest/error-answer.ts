import { type ErrorCode, errorRow } from '../../wire/error.js';
import type { Log } from '../context.js';
import { ServiceError } from '../service-error.js';
import { DatabaseLostError } from '../store/database.js';

/** A whole answer, so that HTTP, a refused handshake and a broken request line all say an error in the same bytes. */
export interface Answer {
  readonly status: number;
  /** In the order in which they are sent. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string;
  /** What follows the body, read as the answer goes out. */
  readonly more?: AsyncIterable<string> | undefined;
}

export const JSON_TYPE = 'application/json; charset=utf-8';

/** On every answer of the API: nothing of it may be kept by a cache or taken for a page. */
const API_HEADERS = [
  ['cache-control', 'no-store'],
  ['x-content-type-options', 'nosniff'],
] as const;

/** Codes of the HTTP framework that are the caller's fault, and the status each stands for. */
const FRAMEWORK_STATUS: Record<string, number> = {
  FST_ERR_BAD_URL: 400,
  FST_ERR_MAX_PARAM_LENGTH: 404,
  FST_ERR_CTP_BODY_TOO_LARGE: 413,
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 415,
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 400,
  FST_ERR_CTP_EMPTY_JSON_BODY: 400,
};

/** After a failover the database is usually back within seconds. */
const DATABASE_RETRY_AFTER_S = 2;

/**
 * The answer for anything that was thrown. An unknown error is logged, and its text never leaves the service; that the
 * database is away is logged once, not by each call. A 401 names `metadataUrl`, where the resource says which
 * authorization server issues its tokens (RFC 9728 §5.1).
 */
export function answerOfError(error: unknown, log: Log, metadataUrl?: string): Answer {
  const known = asServiceError(error);
  if (known !== undefined) return answerOf(known, metadataUrl);
  log.error('request_failed', error);
  return answerOf(new ServiceError('INTERNAL_ERROR'));
}

function asServiceError(error: unknown): ServiceError | undefined {
  if (error instanceof ServiceError) return error;
  if (error instanceof DatabaseLostError)
    return new ServiceError('INTERNAL_ERROR', 'The service cannot reach its data right now. Try again soon.', {
      status: 503,
      retryAfterS: DATABASE_RETRY_AFTER_S,
    });
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return undefined;
  const status = FRAMEWORK_STATUS[error.code];
  if (status === undefined) return undefined;
  if (status === 404) return new ServiceError('NOT_FOUND');
  return new ServiceError('VALIDATION_ERROR', undefined, { status });
}

/** The answer that a `ServiceError` stands for. */
export function answerOf(error: ServiceError, metadataUrl?: string): Answer {
  const { challenge } = errorRow(error.code);
  const { retryAfterS, allow } = error.options;
  const more: [string, string][] = [];
  const where = metadataUrl !== undefined && error.status === 401 ? `, resource_metadata="${metadataUrl}"` : '';
  if (challenge !== undefined) more.push(['www-authenticate', `Bearer error="${challenge}"${where}`]);
  if (retryAfterS !== undefined) more.push(['retry-after', String(retryAfterS)]);
  if (allow !== undefined) more.push(['allow', allow]);
  if (error.status === 413 || error.status === 503) more.push(['connection', 'close']);
  return answerWith(error.status, JSON_TYPE, envelopeOf(error.code, error.message), more);
}

/** An answer with the headers that all answers of the API carry, in one order. */
export function answerWith(status: number, type: string, body: string, more: Answer['headers'] = []): Answer {
  return { status, headers: [['content-type', type], ...API_HEADERS, ...more], body };
}

/** The error envelope (spec: Errors). */
function envelopeOf(code: ErrorCode, message: string): string {
  return JSON.stringify({ error: { code, message } });
}
