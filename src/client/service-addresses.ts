/** Where a service is. Only `baseUrl` must be known; the rest is discovered (spec: Discovery; RFC 9728 §3). */
export interface ServiceAddresses {
  /** The REST resource, ending in `/v1`, without a trailing slash. */
  readonly baseUrl: string;
  /** The authorization server's issuer. */
  readonly authUrl?: string | undefined;
  /** The WebSocket resource and address. */
  readonly wsUrl?: string | undefined;
}
