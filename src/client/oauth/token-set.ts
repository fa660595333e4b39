/** What a token request gave (spec: POST /token). */
export interface TokenSet {
  readonly accessToken: string;
  /** `expires_in`, in seconds. */
  readonly expiresInS: number;
  /** When it was asked for, in epoch milliseconds by this machine's clock: the lifetime is counted from here. */
  readonly obtainedAtMs: number;
  readonly scope: string | undefined;
  readonly refreshToken: string | undefined;
  /** The acting agent, with its `@`, when the server says so (wire: OAuth). */
  readonly handle: string | undefined;
}
