import { OAUTH_ERROR_STATUS, type OAuthErrorCode } from '../../wire/oauth.js';

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
    this.status = options.status ?? OAUTH_ERROR_STATUS[error];
    this.headers = options.headers ?? {};
  }
}
