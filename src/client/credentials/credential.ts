/** What an access token is for: the REST resource {base_url} or the WebSocket resource {ws_url} (spec: Resource binding). */
export type Resource = 'api' | 'ws';

/** Where a credential comes from, in the words that errors and `whoami` use. */
export type CredentialSource = 'environment' | 'client_credentials' | 'command' | 'login';

/** An access token and what its issuer said of it. */
export interface AccessToken {
  readonly token: string;
  /** When it expires by this machine's clock, in epoch milliseconds, reckoned from `expires_in`; undefined: not known. */
  readonly expiresAtMs: number | undefined;
  /** Space-separated scopes, when the answer named them. */
  readonly scope: string | undefined;
  /** The agent that it acts as, with its `@`, when the answer named it (wire: OAuth). */
  readonly handle?: string | undefined;
}

/** How a token is wanted. */
export interface AccessTokenRequest {
  /** A token that the service refused: never answer this one again. */
  readonly rejected?: string | undefined;
  /** How long it must remain valid, in seconds; 60 unless said (spec: Refresh). */
  readonly minTtlS?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Gives access tokens, and renews them when they are about to expire or were refused. */
export interface Credential {
  readonly source: CredentialSource;
  /**
   * A token for `resource`.
   * @throws RequestError `ASP_NO_CREDENTIAL`, `ASP_LOGIN_ENDED`, `ASP_STORE_…`, an OAuth code, or what the network did.
   */
  accessToken(resource: Resource, request?: AccessTokenRequest): Promise<AccessToken>;
}
