import type { FastifyRequest } from 'fastify';
import { OAUTH_ERROR, type OAuthErrorCode } from '../../wire/oauth.js';

export interface OAuthErrorOptions {
  /** Only where the status differs from the table's: 405, 413, 415, 429. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An OAuth error answer (RFC 6749 §5.2). `description` is public and repeats nothing from the request; `detail` is only logged. */
export class OAuthError extends Error {
  override readonly name = 'OAuthError';
  readonly error: OAuthErrorCode;
  readonly description: string;
  readonly detail: string | undefined;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(error: OAuthErrorCode, description: string, detail?: string, options: OAuthErrorOptions = {}) {
    super(description);
    this.error = error;
    this.description = description;
    this.detail = detail;
    this.status = options.status ?? OAUTH_ERROR[error].status;
    this.headers = options.headers ?? {};
  }
}

/** The parameters of an OAuth request. A parameter without a value counts as absent (RFC 6749 §3.1, §3.2). */
export interface Parameters {
  /** The only value of `name`; throws `invalid_request` when it was sent more than once. */
  one(name: string): string | undefined;
  /** Every value of `name`, each once. */
  every(name: string): string[];
  /** All names with their values, as they were sent. */
  readonly entries: readonly (readonly [name: string, value: string])[];
  /** Whether any parameter but `resource` was sent more than once (RFC 6749 §3.1; RFC 8707 §2). */
  readonly isRepeating: boolean;
}

/** The only parameter that may be sent several times (RFC 8707 §2). */
const REPEATABLE = 'resource';

/** Reads `application/x-www-form-urlencoded` text: a query or a body. */
export function readParameters(text: string): Parameters {
  const values = new Map<string, string[]>();
  for (const [name, value] of new URLSearchParams(text)) {
    if (value === '') continue;
    const known = values.get(name);
    if (known === undefined) values.set(name, [value]);
    else known.push(value);
  }
  return {
    one(name) {
      const given = values.get(name);
      if (given !== undefined && given.length > 1) {
        throw new OAuthError('invalid_request', 'A parameter was sent more than once.', name);
      }
      return given?.[0];
    },
    every: (name) => [...new Set(values.get(name) ?? [])],
    entries: [...values].flatMap(([name, given]) => given.map((value) => [name, value] as const)),
    isRepeating: [...values].some(([name, given]) => name !== REPEATABLE && given.length > 1),
  };
}

export function readQuery({ raw: { url = '' } }: FastifyRequest): Parameters {
  const mark = url.indexOf('?');
  return readParameters(mark === -1 ? '' : url.slice(mark + 1));
}

/** The undecoded body; empty without one. */
export function getBody(request: FastifyRequest): string {
  return typeof request.body === 'string' ? request.body : '';
}
