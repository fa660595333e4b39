import type { FastifyRequest } from 'fastify';
import { randomToken } from '../../kit/random.js';
import { OWN_RATE_LIMIT, type OwnRateLimitName } from '../../wire/limit.js';
import type { ServiceContext } from '../core/context.js';
import { type OutsideNetwork, PUBLIC_INTERNET } from '../core/public-internet.js';
import { createSemaphore, type Semaphore } from '../core/semaphore.js';
import type { SigningKeys } from './access-tokens.js';
import { type Attempts, createAttempts, toNetwork, toWiderNetwork, UNCOUNTED, WIDER_FACTOR } from './attempts.js';
import { type ClientDocuments, createClientDocuments } from './client-documents.js';
import { hashSecret } from './secret.js';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const SHARED_ADDRESS_FACTOR = 100;

const PASSWORDS_AT_ONCE = 2;
const PASSWORDS_LATER_MAX = 8;

export interface AuthorizationServerOptions {
  readonly keys: SigningKeys;
  /** The secret of the local service record: its holder may approve for local accounts, from this machine. */
  readonly localSecret: string;
  readonly signInLinks: SignInLinks;
  /** For requests to URLs that strangers choose; the public internet except in tests. */
  readonly outsideNetwork?: OutsideNetwork | undefined;
}

/** The dependencies of every endpoint of the authorization server. */
export interface AuthorizationServer {
  readonly context: ServiceContext;
  readonly keys: SigningKeys;
  readonly localSecret: string;
  readonly signInLinks: SignInLinks;
  /**
   * By refresh token: each rotation waits until the previous answer was delivered or undone, so that a retry after a
   * cut finds the old token and not an unfinished rotation.
   */
  readonly rotations: Semaphore;
  readonly clientDocuments: ClientDocuments;
  /** By network: one network cannot fill the line of all passwords. */
  readonly passwordChecks: Semaphore;
  /** Wrong passwords for one account from one address, and from one address for any account. */
  readonly signInsOfAccount: Attempts;
  readonly signInsOfAddress: Attempts;
  /**
   * From the larger network of an IPv6 address, which may contain thousands of the networks that are counted
   * individually.
   */
  readonly signInsOfWiderNetwork: Attempts;
  /** For one account, from all addresses together that have not signed in to it. */
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
    passwordChecks: createSemaphore({
      max: PASSWORDS_AT_ONCE,
      waitingMax: PASSWORDS_LATER_MAX,
      refusal: 'Too many passwords from this address are being checked.',
    }),
    clientDocuments: createClientDocuments(context, options.outsideNetwork ?? PUBLIC_INTERNET),
    signInsOfAccount: createAttempts(clock, { count: 10, windowMs: 15 * MINUTE_MS }),
    signInsOfAddress: settings.isAddressShared
      ? UNCOUNTED
      : createAttempts(clock, { count: 100, windowMs: 15 * MINUTE_MS }),
    signInsOfWiderNetwork: createAttempts(clock, { count: WIDER_FACTOR * 100, windowMs: 15 * MINUTE_MS }),
    signInsOfStrangers: createAttempts(clock, { count: 30, windowMs: 60 * MINUTE_MS }),
    rightSignIns: createAttempts(clock, { count: 1, windowMs: 30 * DAY_MS }),
  };
}

/** Takes one call from the budget of an address, across all services of the data, or throws RATE_LIMITED. */
export function takeForAddress(
  { limits, settings }: Pick<ServiceContext, 'limits' | 'settings'>,
  name: OwnRateLimitName,
  request: FastifyRequest,
): Promise<void> {
  const subjectId = hashSecret(toNetwork(request.ip));
  // If all clients have the same address, limits by address count for everyone together.
  const shared = settings.isAddressShared && { count: SHARED_ADDRESS_FACTOR * OWN_RATE_LIMIT[name].count };
  const wider = toWiderNetwork(request.ip);
  const count = WIDER_FACTOR * OWN_RATE_LIMIT[name].count;
  return limits.takeAll([
    { name, subjectId, ...shared },
    ...(wider === undefined ? [] : [{ name, subjectId: hashSecret(wider), count }]),
  ]);
}

const LIFETIME_MS = 60_000;
const SECRET_BYTES = 32;
/** More than anyone opens in a minute. */
const LINKS_MAX = 100;

/**
 * Links that sign a browser in once, each valid for a minute. They live in this process alone, like the operator's
 * secret.
 */
export interface SignInLinks {
  make(accountId: string, path: string): { readonly secret: string; readonly expiresAt: number };
  /** The account that the link signs in, and the page that it opens; the link is now used up. */
  take(secret: string): { readonly accountId: string; readonly path: string } | undefined;
}

export function createSignInLinks({ clock, random }: Pick<ServiceContext, 'clock' | 'random'>): SignInLinks {
  const links = new Map<string, { readonly accountId: string; readonly path: string; readonly expiresAt: number }>();
  const forgetOld = (): void => {
    for (const [hash, { expiresAt }] of links)
      if (expiresAt <= clock.now() || links.size > LINKS_MAX) links.delete(hash);
  };
  return {
    make(accountId, path) {
      const secret = randomToken(random, SECRET_BYTES);
      const expiresAt = clock.now() + LIFETIME_MS;
      links.set(hashSecret(secret), { accountId, path, expiresAt });
      forgetOld();
      return { secret, expiresAt };
    },
    take(secret) {
      forgetOld();
      const hash = hashSecret(secret);
      const link = links.get(hash);
      links.delete(hash);
      return link;
    },
  };
}
