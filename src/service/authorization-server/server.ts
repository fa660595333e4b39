import type { FastifyRequest } from 'fastify';

import { OWN_RATE_LIMIT, type OwnRateLimitName } from '../../wire/limit.js';
import type { SigningKeys } from '../access-token/signing-keys.js';
import type { ServiceContext } from '../context.js';
import { createSemaphore, type Semaphore } from '../limits/semaphore.js';
import type { SignInLinks } from './account/sign-in-links.js';
import { type Attempts, createAttempts, UNCOUNTED } from './attempts.js';
import { type ClientDocuments, createClientDocuments } from './client-document.js';
import { type DocumentNetwork, PUBLIC_INTERNET } from './fetch-document.js';
import { networkOf, widerNetworkOf } from './network-of.js';
import { hashSecret } from './secret.js';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const SHARED_ADDRESS_FACTOR = 100;
/** So much more than one network of 64 bits may a network of 48 bits do. */
const WIDER_FACTOR = 5;

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
  readonly rotations: Semaphore;
  readonly clientDocuments: ClientDocuments;
  /** Wrong passwords for one account from one address, and from one address for any account. */
  readonly signInsOfAccount: Attempts;
  readonly signInsOfAddress: Attempts;
  /** From the wider network of an IPv6 address, which may hold thousands of those that are counted by themselves. */
  readonly signInsOfWiderNetwork: Attempts;
  /** For one account from all addresses together from which nobody has signed in to it. */
  readonly signInsOfStrangers: Attempts;
  /** Right passwords for one account from one address. */
  readonly rightSignIns: Attempts;
}

export function createAuthorizationServer(
  context: ServiceContext,
  options: AuthorizationServerOptions,
): AuthorizationServer {
  const { clock, settings } = context;
  return {
    context,
    keys: options.keys,
    localSecret: options.localSecret,
    signInLinks: options.signInLinks,
    rotations: createSemaphore({
      max: 1,
      waitingMax: Number.POSITIVE_INFINITY,
      refusal: 'Too many refreshes are waiting.',
    }),
    clientDocuments: createClientDocuments(context, options.documentNetwork ?? PUBLIC_INTERNET),
    signInsOfAccount: createAttempts(clock, { count: 10, windowMs: 15 * MINUTE_MS }),
    signInsOfAddress: settings.isAddressShared
      ? UNCOUNTED
      : createAttempts(clock, { count: 100, windowMs: 15 * MINUTE_MS }),
    signInsOfWiderNetwork: createAttempts(clock, { count: WIDER_FACTOR * 100, windowMs: 15 * MINUTE_MS }),
    signInsOfStrangers: createAttempts(clock, { count: 30, windowMs: 60 * MINUTE_MS }),
    rightSignIns: createAttempts(clock, { count: 1, windowMs: 30 * DAY_MS }),
  };
}

/** Takes one call from what the address of a request may do, at all services of the data together, or throws RATE_LIMITED. */
export function takeForAddress(
  { limits, settings }: Pick<ServiceContext, 'limits' | 'settings'>,
  name: OwnRateLimitName,
  request: FastifyRequest,
): Promise<void> {
  const subjectId = hashSecret(networkOf(request.ip));
  // What is counted by address alone counts for everybody together where all of them have one.
  const shared = settings.isAddressShared && { count: SHARED_ADDRESS_FACTOR * OWN_RATE_LIMIT[name].count };
  const wider = widerNetworkOf(request.ip);
  const count = WIDER_FACTOR * OWN_RATE_LIMIT[name].count;
  return limits.takeAll([
    { name, subjectId, ...shared },
    ...(wider === undefined ? [] : [{ name, subjectId: hashSecret(wider), count }]),
  ]);
}
