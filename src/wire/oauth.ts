/** Where a server publishes its metadata, below its issuer (spec: Discovery; RFC 8414 §3). */
export const SERVER_METADATA_PATH = '/.well-known/oauth-authorization-server';

/** Where a resource server names its authorization server, below its base address (RFC 9728 §3; wire: OAuth). */
export const RESOURCE_METADATA_PATH = '/.well-known/oauth-protected-resource';

/** The grants (spec: Flows). */
export const GRANT_TYPES = ['client_credentials', 'authorization_code', 'refresh_token'] as const;

/** One of the grants. */
export type GrantType = (typeof GRANT_TYPES)[number];

/** One row of the OAuth error table. */
interface OAuthErrorRow {
  /** HTTP status. */
  readonly status: number;
  /** Exit code of the command line; by the status where there is none. */
  readonly exit_code?: number;
}

/** Errors of the OAuth endpoints (spec: Authentication failures; RFC 6749 §4.1.2.1, §5.2; RFC 6750 §3.1; RFC 7591 §3.2.2; RFC 8707 §2). */
export const OAUTH_ERROR = {
  invalid_request: { status: 400 },
  invalid_client: { status: 401, exit_code: 4 },
  invalid_grant: { status: 400, exit_code: 4 },
  unauthorized_client: { status: 400, exit_code: 5 },
  unsupported_grant_type: { status: 400 },
  invalid_scope: { status: 403, exit_code: 5 },
  insufficient_scope: { status: 403, exit_code: 5 },
  invalid_target: { status: 400, exit_code: 5 },
  invalid_redirect_uri: { status: 400 },
  invalid_client_metadata: { status: 400 },
  access_denied: { status: 403, exit_code: 4 },
  unsupported_response_type: { status: 400 },
  temporarily_unavailable: { status: 429 },
  server_error: { status: 500 },
} as const satisfies Record<string, OAuthErrorRow>;

/** The `error` of an OAuth answer. */
export type OAuthErrorCode = keyof typeof OAUTH_ERROR;

/** The OAuth error codes that have an exit code of their own. */
export type OAuthExitCode = {
  [Code in OAuthErrorCode]: (typeof OAUTH_ERROR)[Code] extends { readonly exit_code: number } ? Code : never;
}[OAuthErrorCode];

/** The exit code of an OAuth error code; undefined where its status decides. */
export function oauthExitCode(code: string): number | undefined {
  const row: OAuthErrorRow | undefined = Object.hasOwn(OAUTH_ERROR, code)
    ? OAUTH_ERROR[code as OAuthErrorCode]
    : undefined;
  return row?.exit_code;
}
