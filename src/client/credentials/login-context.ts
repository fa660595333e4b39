import type { Random } from '../../kit/random.js';
import type { Transport } from '../http/transport.js';
import { type Discovery, discover } from '../oauth/discover.js';
import type { OAuthContext } from '../oauth/token-endpoint.js';
import type { ServiceAddresses } from '../service-addresses.js';
import { LoginItem, type LoginKey, type StoreKind } from './login.js';
import type { LockContext } from './process-lock.js';
import type { SecretStore } from './secret-store.js';

/** Where a client keeps what it must remember. */
export interface ClientDirectories {
  /** Logins, registrations, metadata. */
  readonly state: string;
  /** The cache of access tokens; better one that a reboot empties. */
  readonly runtime: string | undefined;
  /** Lock files; by the operating system's user unless said. */
  readonly locks?: string | undefined;
}

/** What stored logins need. */
export interface LoginContext {
  readonly transport: Transport;
  readonly random: Random;
  /** Where new logins go. */
  readonly kind: StoreKind;
  readonly directories: ClientDirectories;
  /** Encrypts the file store. */
  readonly passphrase?: string | undefined;
  /** Requests of sign-ins are tried again at most so often. */
  readonly retries?: number | undefined;
  readonly platform: NodeJS.Platform;
  /** Where the session bus is: `DBUS_SESSION_BUS_ADDRESS`, `XDG_RUNTIME_DIR`. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /**
   * Whether the service that this user runs here, at this address, runs now. A port of this machine belongs to whoever opens it
   * first: the tokens of a login that was made at such a service are not sent while this is false.
   */
  isLocalServiceAt?(baseUrl: string): Promise<boolean>;
  /** Receives each refresh when it begins. A process that exits before it has ended may lose the login. */
  holdExit?(work: Promise<unknown>): void;
  /** Addresses of a service beyond its base URL, where a profile names them. */
  addressesOf?(baseUrl: string): ServiceAddresses | undefined;
}

/** Tries after the first, to find the authorization server. */
const DISCOVERY_RETRIES = 2;

/** The store of a kind; a keychain is only loaded when one is used. */
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
  const text = await store.get(key);
  if (text === undefined) return undefined;
  try {
    return LoginItem.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** The name under which processes take turns with a login. */
export function lockNameOf(key: LoginKey): string {
  return `login\n${key.baseUrl}\n${key.handle ?? ''}`;
}

/** What a service of a login publishes; asked again when `isForced`, tried again at most `retries` times. */
export function discoverFor(
  context: LoginContext,
  baseUrl: string,
  options: { isForced?: boolean; retries?: number; signal?: AbortSignal | undefined } = {},
): Promise<Discovery> {
  const { transport, random, directories } = context;
  const { isForced, signal } = options;
  const service = context.addressesOf?.(baseUrl) ?? { baseUrl };
  const cacheDirectory = `${directories.state}/discovery`;
  const retries = Math.min(options.retries ?? DISCOVERY_RETRIES, context.retries ?? DISCOVERY_RETRIES);
  return discover({ transport, random, retries, cacheDirectory, isForced }, service, signal);
}

/** What token requests of stored logins need. */
export function oauthContext(context: LoginContext, discovery: Discovery, retries: number): OAuthContext {
  const { transport, random, retries: most = retries } = context;
  return { transport, random, discovery, retries: Math.min(retries, most) };
}

/** What the locks of stored logins need. */
export function lockContextOf(context: LoginContext): LockContext {
  const { transport, random, directories } = context;
  return { clock: transport.clock, random, lockDirectory: directories.locks };
}

/** Where access tokens are kept: the runtime directory, else beside the state. */
export function cacheDirectory(context: LoginContext): string {
  return `${context.directories.runtime ?? context.directories.state}/tokens`;
}
