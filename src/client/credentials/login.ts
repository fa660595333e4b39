import * as z from 'zod/mini';

import type { Resource } from './credential.js';
import type { CachedToken } from './token-cache.js';

/** Where a login's refresh token is kept. */
export const StoreKind = z.enum(['keychain', 'file']);
export type StoreKind = z.infer<typeof StoreKind>;

/** Which login: one agent, or the account itself (`handle` null), at one service. */
export interface LoginKey {
  readonly baseUrl: string;
  readonly handle: string | null;
}

/** A login as its record file tells it. Nothing in it is secret. */
export const Login = z.looseObject({
  baseUrl: z.string(),
  handle: z.nullable(z.string()),
  /** The authorization server that issued its tokens, and the only one they are sent to. */
  issuer: z.string(),
  clientId: z.string(),
  wsUrl: z.nullable(z.string()),
  scopes: z.array(z.string()),
  store: StoreKind,
  agentId: z.nullable(z.string()),
  accountId: z.nullable(z.string()),
  savedAtMs: z.number(),
  /** When the first of the logins was saved that this one replaced. */
  firstSavedAtMs: z.optional(z.number()),
  /** Made at a service that this user runs here: its tokens go to that address only while that service runs. */
  isLocal: z.optional(z.boolean()),
  /** Set once the service refused the refresh token for good: sign in again. */
  ended: z.nullable(z.object({ atMs: z.number(), error: z.string(), digest: z.string() })),
});
export type Login = z.infer<typeof Login>;

/** What a new login brings with it. */
export interface NewLogin extends LoginKey {
  readonly issuer: string;
  readonly clientId: string;
  readonly wsUrl: string | null;
  readonly scopes: readonly string[];
  readonly agentId: string | null;
  readonly accountId: string | null;
  readonly isLocal?: boolean | undefined;
  readonly refreshToken: string;
  /** Access tokens that came with it; see `toCached`. */
  readonly accessTokens: Partial<Readonly<Record<Resource, CachedToken>>>;
}

/** What removing a login did. */
export interface Removal {
  /** Whether the service confirmed that the refresh token works no more. */
  readonly isRevoked: boolean;
  /** Whether there was anything here to delete. */
  readonly isDeleted: boolean;
  /** Why the service could not be told, when it was not. */
  readonly revocationError: unknown;
}

/** The logins of this OS user. */
export interface Logins {
  /** Where new logins go. */
  readonly kind: StoreKind;
  /**
   * Writes, reads and deletes one item within 3 seconds.
   * @throws RequestError `ASP_STORE_UNAVAILABLE` or `ASP_STORE_LOCKED`.
   */
  probe(): Promise<void>;
  /** Every known login, whatever its store; at one service when `baseUrl` is given; by service and handle. */
  list(baseUrl?: string): Promise<readonly Login[]>;
  find(key: LoginKey): Promise<Login | undefined>;
  /** Stores a login in place of the one before it. @throws RequestError `ASP_STORE_…` */
  save(login: NewLogin): Promise<Login>;
  /**
   * Revokes at the service (best effort, 5 s, not when `isLocalOnly`) and deletes here in any case. The refresh token goes to the
   * authorization server that issued it and to no other.
   * @throws RequestError `ASP_STORE_…` when it could not be deleted here.
   */
  remove(key: LoginKey, options?: { isLocalOnly?: boolean; signal?: AbortSignal }): Promise<Removal>;
}

/** The one small secret of a login, as its store keeps it. */
export const LoginItem = z.object({
  v: z.literal(1),
  /** Refresh token. */
  rt: z.string(),
  /** Client id. */
  cid: z.string(),
  /** Key of the cache of access tokens, 32 bytes in base64. */
  key: z.string(),
});
export type LoginItem = z.infer<typeof LoginItem>;
