import * as z from 'zod/mini';
import type { Environment } from '../../kit/environment.js';
import { parseIfJson } from '../../kit/parse-json.js';
import type { Random } from '../../kit/random.js';
import type { ServiceAddresses } from '../http/address.js';
import type { Transport } from '../http/transport.js';
import type { Discovery } from '../oauth/discover.js';
import type { OAuthContext } from '../oauth/token-endpoint.js';
import type { Resource } from './credential.js';
import type { LockContext } from './process-lock.js';
import type { SecretStore } from './secret-store.js';
import type { CachedToken } from './token-cache.js';

/** Where a login's refresh token is kept. */
export const StoreKind = z.enum(['keychain', 'file']);
export type StoreKind = z.infer<typeof StoreKind>;

/** Identifies a login: one agent, or the account itself (`handle` null), at one service. */
export interface LoginKey {
  readonly baseUrl: string;
  readonly handle: string | null;
}

/** A login as described by its record file, which contains no secrets. */
export const Login = z.looseObject({
  baseUrl: z.string(),
  handle: z.nullable(z.string()),
  /** The authorization server that issued its tokens, and the only one that receives them. */
  issuer: z.string(),
  clientId: z.string(),
  wsUrl: z.nullable(z.string()),
  scopes: z.array(z.string()),
  store: StoreKind,
  agentId: z.nullable(z.string()),
  accountId: z.nullable(z.string()),
  savedAtMs: z.number(),
  /** When the first of the logins that this one replaced was saved. */
  firstSavedAtMs: z.optional(z.number()),
  /**
   * Created at a service that this user runs here: its tokens go to that address only while that service is running.
   */
  isLocal: z.optional(z.boolean()),
  /** The data folder of that service, or `memory`. */
  localData: z.optional(z.string()),
  /** The command that starts that service again at the same address. */
  localStart: z.optional(z.array(z.string())),
  /** Set once the service has refused the refresh token for good: sign in again. */
  ended: z.nullable(z.object({ atMs: z.number(), error: z.string(), digest: z.string() })),
});
export type Login = z.infer<typeof Login>;

/** The contents of a new login. */
export interface NewLogin extends LoginKey {
  readonly issuer: string;
  readonly clientId: string;
  readonly wsUrl: string | null;
  readonly scopes: readonly string[];
  readonly agentId: string | null;
  readonly accountId: string | null;
  readonly isLocal?: boolean | undefined;
  readonly localData?: string | undefined;
  readonly localStart?: string[] | undefined;
  readonly refreshToken: string;
  /** Access tokens that came with it; see `toCached`. */
  readonly accessTokens: Partial<Readonly<Record<Resource, CachedToken>>>;
}

/** The result of removing a login. */
export interface Removal {
  /** Whether the service confirmed that the refresh token no longer works. */
  readonly isRevoked: boolean;
  /** Why the service could not be notified, if it was not. */
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
  /**
   * Every known login, whatever its store; only those at one service if `baseUrl` is given; sorted by service and
   * handle.
   */
  list(baseUrl?: string): Promise<readonly Login[]>;
  find(key: LoginKey): Promise<Login | undefined>;
  /** Stores a login; the one that it replaces is revoked at the service, in the background. @throws RequestError `ASP_STORE_…` */
  save(login: NewLogin): Promise<Login>;
  /**
   * Revokes at the service (best effort, 5 s, unless `isLocalOnly`) and deletes here in any case. The refresh token
   * goes only to the authorization server that issued it.
   * @throws RequestError `ASP_STORE_…` if it could not be deleted here.
   */
  remove(key: LoginKey, options?: { isLocalOnly?: boolean; signal?: AbortSignal }): Promise<Removal>;
}

/** The secret of a login, as its store keeps it. */
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

/** Where a client keeps its data. */
interface ClientDirectories {
  /** Logins, registrations, metadata. */
  readonly state: string;
  /** The cache of access tokens; preferably a directory that a reboot empties. */
  readonly runtime: string | undefined;
  /** Lock files; default: a directory of the operating system's user. */
  readonly locks?: string | undefined;
}

/** Dependencies of stored logins. */
export interface LoginContext {
  readonly transport: Transport;
  readonly random: Random;
  /** Where new logins go. */
  readonly kind: StoreKind;
  readonly directories: ClientDirectories;
  /** Encrypts the file store. */
  readonly passphrase?: string | undefined;
  /** Maximum number of retries of sign-in requests. */
  readonly retries?: number | undefined;
  readonly platform: NodeJS.Platform;
  /** Where the session bus is: `DBUS_SESSION_BUS_ADDRESS`, `XDG_RUNTIME_DIR`. */
  readonly environment: Environment;
  /**
   * Whether the service that this user runs here, at this address, is running now. A port on this machine belongs to
   * the program that opens it first, so the tokens of a login created at such a service are not sent while this is
   * false.
   */
  isLocalServiceAt?(baseUrl: string): Promise<boolean>;
  /** Receives each refresh when it begins. A process that exits before the refresh ends may lose the login. */
  holdExit?(work: Promise<unknown>): void;
  /** Further addresses of a service, if a profile names them. */
  findAddresses?(baseUrl: string): ServiceAddresses | undefined;
}

/** Retries when looking for the authorization server. */
const DISCOVERY_RETRIES = 2;

/** The store of a kind; the keychain code is loaded only if it is used. */
export async function openStore(context: LoginContext, kind: StoreKind): Promise<SecretStore> {
  if (kind === 'keychain') {
    const { createKeychain } = await import('./keychain.js');
    const { platform, environment, transport } = context;
    return createKeychain({ clock: transport.clock, platform, environment });
  }
  const { createFileStore } = await import('./file-store.js');
  return createFileStore(`${context.directories.state}/secrets`, context.passphrase);
}

/** The item of a login, or undefined. */
export async function readItem(store: SecretStore, key: LoginKey): Promise<LoginItem | undefined> {
  return LoginItem.safeParse(parseIfJson(await store.get(key))).data;
}

/** The name of the lock that processes take for a login. */
export function toLockName(key: LoginKey): string {
  return `login\n${key.baseUrl}\n${key.handle ?? ''}`;
}

/** The metadata of a login's service; requested again if `isForced`, with at most `retries` retries. */
export async function discoverFor(
  context: LoginContext,
  baseUrl: string,
  options: { isForced?: boolean; retries?: number; signal?: AbortSignal | undefined },
): Promise<Discovery> {
  // A login whose tokens are still valid needs none of this.
  const { discover } = await import('../oauth/discover.js');
  const { transport, random, directories } = context;
  const { isForced, signal } = options;
  const service = context.findAddresses?.(baseUrl) ?? { baseUrl };
  const cacheDirectory = `${directories.state}/discovery`;
  const retries = Math.min(options.retries ?? DISCOVERY_RETRIES, context.retries ?? DISCOVERY_RETRIES);
  return discover({ transport, random, retries, cacheDirectory, isForced }, service, signal);
}

/** Dependencies of token requests for stored logins. */
export function oauthContext(context: LoginContext, discovery: Discovery, retries: number): OAuthContext {
  const { transport, random, retries: most = retries } = context;
  return { transport, random, discovery, retries: Math.min(retries, most) };
}

/** Dependencies of the locks of stored logins. */
export function toLockContext(context: LoginContext): LockContext {
  const { transport, random, directories } = context;
  return { clock: transport.clock, random, lockDirectory: directories.locks };
}

/** Where access tokens are kept: the runtime directory, or else the state directory. */
export function cacheDirectory(context: LoginContext): string {
  return `${context.directories.runtime ?? context.directories.state}/tokens`;
}
