import { createHash } from 'node:crypto';

import { compactVerify, decodeProtectedHeader, errors } from 'jose';
import * as z from 'zod/mini';

import type { Handle } from '../../wire/handle.js';
import { AccessTokenClaims } from '../../wire/oauth.js';
import { isScope, splitScope } from '../../wire/scope.js';
import type { AccountActor, AgentActor, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { findAccount } from '../store/account-rows.js';
import { findAgent } from '../store/agent-rows.js';
import type { SigningKeys } from './signing-keys.js';

/** Who made a request, and by which grant. */
export type VerifiedToken = (AgentActor | AccountActor) & {
  readonly tokenId: string;
  /** The refresh-token family or the confidential client: what a `revoked` signal names. */
  readonly grantId: string;
  readonly clientId: string;
  readonly expiresAtMs: number;
};

export interface TokenVerifier {
  /** Throws UNAUTHORIZED, or TOKEN_EXPIRED when the token is good but for its age. */
  verify(token: string, audience: string): Promise<VerifiedToken>;
}

type VerifierContext = Pick<ServiceContext, 'clock' | 'database' | 'settings'>;

const CLAIMS = z.extend(AccessTokenClaims, { jti: z.string(), gid: z.string() });
type Claims = z.infer<typeof CLAIMS>;

const TOKEN_MAX_LENGTH = 8192;
const KEY_ID_MAX_LENGTH = 128;
const CACHE_MAX_SIZE = 10_000;
const FUTURE_LEEWAY_MS = 60_000;
/** A removed agent's tokens stop working this soon, without a look at the store for every request. */
const ACTOR_RECHECK_MS = 5_000;

interface CachedToken {
  readonly claims: Claims;
  verified: VerifiedToken | undefined;
  checkedAtMs: number;
}

/** Verifies access tokens of this service; a signature that was found good is remembered by the token's hash. */
export function createTokenVerifier(context: VerifierContext, keys: SigningKeys): TokenVerifier {
  const { clock, settings } = context;
  const cache = new Map<string, CachedToken>();

  const remember = (hash: string, claims: Claims): CachedToken => {
    const [oldest] = cache.keys();
    if (cache.size >= CACHE_MAX_SIZE && oldest !== undefined) cache.delete(oldest);
    const cached: CachedToken = { claims, verified: undefined, checkedAtMs: Number.NEGATIVE_INFINITY };
    cache.set(hash, cached);
    return cached;
  };

  return {
    async verify(token, audience) {
      if (token.length > TOKEN_MAX_LENGTH) throw new ServiceError('UNAUTHORIZED');
      const hash = createHash('sha256').update(token).digest('base64url');
      const cached = cache.get(hash) ?? remember(hash, await readSignedClaims(token, keys));
      requireClaims(cached.claims, settings.addresses.authUrl, audience, clock.now());
      if (clock.monotonic() - cached.checkedAtMs > ACTOR_RECHECK_MS || cached.verified === undefined) {
        cached.verified = await findActor(context, cached.claims);
        cached.checkedAtMs = clock.monotonic();
      }
      return cached.verified;
    },
  };
}

async function readSignedClaims(token: string, keys: SigningKeys): Promise<Claims> {
  try {
    const { alg, kid, crit } = decodeProtectedHeader(token);
    const isOurs = alg === 'RS256' && crit === undefined && typeof kid === 'string' && kid.length <= KEY_ID_MAX_LENGTH;
    if (!isOurs) throw new ServiceError('UNAUTHORIZED');
    const key = await keys.verificationKey(kid);
    if (key === undefined) throw new ServiceError('UNAUTHORIZED');
    const { payload } = await compactVerify(token, key, { algorithms: ['RS256'] });
    const claims = CLAIMS.safeParse(JSON.parse(new TextDecoder().decode(payload)));
    if (!claims.success) throw new ServiceError('UNAUTHORIZED');
    return claims.data;
  } catch (error) {
    if (error instanceof errors.JOSEError || error instanceof TypeError || error instanceof SyntaxError) {
      throw new ServiceError('UNAUTHORIZED');
    }
    throw error;
  }
}

/** The expiry comes last: only a token that is good but for its age is told so. */
function requireClaims(claims: Claims, issuer: string, audience: string, now: number): void {
  const audiences = typeof claims.aud === 'string' ? [claims.aud] : claims.aud;
  const isGood = claims.iss === issuer && audiences.includes(audience) && claims.iat * 1000 <= now + FUTURE_LEEWAY_MS;
  if (!isGood) throw new ServiceError('UNAUTHORIZED');
  if (now >= claims.exp * 1000) throw new ServiceError('TOKEN_EXPIRED');
}

async function findActor(context: VerifierContext, claims: Claims): Promise<VerifiedToken> {
  const grant = {
    accountId: claims.sub,
    scopes: splitScope(claims.scope).filter(isScope),
    tokenId: claims.jti,
    grantId: claims.gid,
    clientId: claims.azp,
    expiresAtMs: claims.exp * 1000,
  };
  const agentId = claims.agent_id;
  if (agentId === undefined) {
    const account = await context.database.read((query) => findAccount(query, claims.sub));
    if (account === undefined) throw new ServiceError('UNAUTHORIZED');
    return { kind: 'account', ...grant };
  }
  const agent = await context.database.read((query) => findAgent(query, agentId));
  if (agent === undefined || agent.account_id !== claims.sub) throw new ServiceError('UNAUTHORIZED');
  const handle: Handle = agent.handle;
  return { kind: 'agent', agentId, handle, ...grant };
}
