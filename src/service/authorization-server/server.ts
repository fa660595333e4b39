import type { SigningKeys } from '../access-token/signing-keys.js';
import type { ServiceContext } from '../context.js';
import type { SignInLinks } from './account/sign-in-links.js';
import { type Attempts, createAttempts, UNCOUNTED } from './attempts.js';
import { type ClientDocuments, createClientDocuments } from './client-document.js';
import { type DocumentNetwork, PUBLIC_INTERNET } from './fetch-document.js';
import { createKeyedMutex, type KeyedMutex } from './keyed-mutex.js';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const SHARED_ADDRESS_FACTOR = 100;

export interface AuthorizationServerOptions {
  readonly keys: SigningKeys;
  /** The secret of the local service record: whoever has it may approve for local accounts, from this machine. */
  readonly localSecret: string;
  readonly signInLinks: SignInLinks;
  /** From where client documents are fetched; the public internet unless a test says otherwise. */
  readonly documentNetwork?: DocumentNetwork | undefined;
}

/** What every endpoint of the authorization server is given. */
export interface AuthorizationServer {
  readonly context: ServiceContext;
  readonly keys: SigningKeys;
  readonly localSecret: string;
  readonly signInLinks: SignInLinks;
  /**
   * By refresh token: each rotation waits until the answer of the one before was delivered or undone, so that a retry after
   * a cut meets the old token and not an unfinished rotation.
   */
  readonly rotations: KeyedMutex;
  readonly clientDocuments: ClientDocuments;
  /** Wrong passwords for one account from one address, and from one address for any account. */
  readonly signInsOfAccount: Attempts;
  readonly signInsOfAddress: Attempts;
  readonly signUps: Attempts;
  readonly registrations: Attempts;
  /** Each asks a stranger's server for a client document. */
  readonly documentFetches: Attempts;
  /** Each leaves a stored request for ten minutes. */
  readonly authorizations: Attempts;
}

export function createAuthorizationServer(
  context: ServiceContext,
  options: AuthorizationServerOptions,
): AuthorizationServer {
  const { clock, settings } = context;
  // What is counted by address alone counts for everybody together where all of them have one.
  const perAddress = (count: number, windowMs: number): Attempts =>
    createAttempts(clock, { count: settings.isAddressShared ? SHARED_ADDRESS_FACTOR * count : count, windowMs });
  return {
    context,
    keys: options.keys,
    localSecret: options.localSecret,
    signInLinks: options.signInLinks,
    rotations: createKeyedMutex(),
    clientDocuments: createClientDocuments(context, options.documentNetwork ?? PUBLIC_INTERNET),
    signInsOfAccount: createAttempts(clock, { count: 10, windowMs: 15 * MINUTE_MS }),
    signInsOfAddress: settings.isAddressShared ? UNCOUNTED : perAddress(100, 15 * MINUTE_MS),
    signUps: perAddress(20, HOUR_MS),
    registrations: perAddress(20, HOUR_MS),
    documentFetches: perAddress(60, HOUR_MS),
    authorizations: perAddress(200, 10 * MINUTE_MS),
  };
}
