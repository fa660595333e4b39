import type { SigningKeys } from '../access-token/signing-keys.js';
import type { ServiceContext } from '../context.js';
import type { SignInLinks } from './account/sign-in-links.js';
import { type Attempts, createAttempts } from './attempts.js';
import { createTurnstile, type Turnstile } from './turnstile.js';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

export interface AuthorizationServerOptions {
  readonly keys: SigningKeys;
  /** The secret of the local service record: whoever has it may approve for local accounts, from this machine. */
  readonly localSecret: string;
  readonly signInLinks: SignInLinks;
}

/** What every endpoint of the authorization server is given. */
export interface AuthorizationServer {
  readonly context: ServiceContext;
  readonly keys: SigningKeys;
  readonly localSecret: string;
  readonly signInLinks: SignInLinks;
  readonly rotations: Turnstile;
  /** Wrong passwords for one account from one address, and from one address for any account. */
  readonly signInsOfAccount: Attempts;
  readonly signInsOfAddress: Attempts;
  readonly signUps: Attempts;
  readonly registrations: Attempts;
  /** Each leaves a stored request for ten minutes. */
  readonly authorizations: Attempts;
}

export function createAuthorizationServer(
  context: ServiceContext,
  options: AuthorizationServerOptions,
): AuthorizationServer {
  const { clock } = context;
  return {
    context,
    keys: options.keys,
    localSecret: options.localSecret,
    signInLinks: options.signInLinks,
    rotations: createTurnstile(),
    signInsOfAccount: createAttempts(clock, { count: 10, windowMs: 15 * MINUTE_MS }),
    signInsOfAddress: createAttempts(clock, { count: 100, windowMs: 15 * MINUTE_MS }),
    signUps: createAttempts(clock, { count: 20, windowMs: HOUR_MS }),
    registrations: createAttempts(clock, { count: 20, windowMs: HOUR_MS }),
    authorizations: createAttempts(clock, { count: 200, windowMs: 10 * MINUTE_MS }),
  };
}
