import { createHash } from 'node:crypto';

import { type CryptoKey, errors, type JWTHeaderParameters, type JWTPayload, jwtVerify } from 'jose';
import * as z from 'zod/mini';

import type { Handle } from '../../wire/handle.js';
import { ACCESS_TOKEN_LIFETIME_S } from '../../wire/limit.js';
import { AccessTokenClaims } from '../../wire/oauth.js';
import { isScope, splitScope } from '../../wire/scope.js';
import type { AccountActor, AgentActor, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { findAccount } from '../store/account-rows.js';
import { findAgent } from '../store/agent-rows.js';
import type { SigningKeys } from './signing-keys.js';

/** The caller of a request, and the grant it uses. */
export type VerifiedToken = (AgentActor | AccountActor) & {
  readonly tokenId: string;
  /** The refresh-token family or the confidential client; revoking it closes sockets. */
  readonly grantId: string;
  readonly clientId: string;
  readonly expiresAtMs: number;
};

export interface TokenVerifier {
  /** Throws UNAUTHORIZED, or TOKEN_EXPIRED when only the token's age is wrong. */
  verify(token: string, audience: string): Promise<VerifiedToken>;
}

type VerifierContext = Pick<ServiceContext, 'clock' | 'database' | 'settings' | 'bus'>;

const CLAIMS = z.extend(AccessTokenClaims, { jti: z.string(), gid: z.string() });
type Claims = z.infer<typeof CLAIMS>;

const TOKEN_MAX_LENGTH = 8192;
const KEY_ID_MAX_LENGTH = 128;
const CACHE_MAX_SIZE = 10_000;
const FUTURE_LEEWAY_MS = 60_000;
/** A removed agent's tokens stop working after this time at most, also where no bell rang: not every request reads the store. */
const ACTOR_RECHECK_MS = 5_000;

interface CachedToken {
  readonly claims: Claims;
  verified: VerifiedToken | undefined;
  checkedAtMs: number;
}

/** Verifies access tokens of this service. A token that was found good for a resource is remembered by its hash. */
export function createTokenVerifier(context: VerifierContext, keys: SigningKeys): TokenVerifier {
  const { clock, settings } = context;
  const issuer = settings.addresses.authUrl;
  const cache = new Map<string, CachedToken>();

  const remember = (cacheKey: string, claims: Claims): CachedToken => {
    const [oldest] = cache.keys();
    if (cache.size >= CACHE_MAX_SIZE && oldest !== undefined) cache.delete(oldest);
    const cached: CachedToken = { claims, verified: undefined, checkedAtMs: Number.NEGATIVE_INFINITY };
    cache.set(cacheKey, cached);
    return cached;
  };

  context.bus.listen((signal) => {
    if (signal.kind !== 'revoked') return;
    for (const cached of cache.values()) if (cached.claims.gid === signal.grantId) cached.verified = undefined;
  });

  return {
    async verify(token, audience) {
      if (token.length > TOKEN_MAX_LENGTH) throw new ServiceError('UNAUTHORIZED');
      const cacheKey = `${createHash('sha256').update(token).digest('base64url')} ${audience}`;
      const now = clock.now();
      const cached =
        cache.get(cacheKey) ?? remember(cacheKey, await verifySignedClaims(token, keys, { issuer, audience, now }));
      if (now >= cached.claims.exp * 1000) throw new ServiceError('TOKEN_EXPIRED');
      if (clock.monotonic() - cached.checkedAtMs > ACTOR_RECHECK_MS || cached.verified === undefined) {
        cached.verified = await findActor(context, cached.claims);
        cached.checkedAtMs = clock.monotonic();
      }
      return cached.verified;
    },
  };
}

interface Expected {
  readonly issuer: string;
  readonly audience: string;
  readonly now: number;
}

/** Checks the signature and then the claims, the expiry last: TOKEN_EXPIRED says that everything else is right (RFC 9068 §4). */
async function verifySignedClaims(
  token: string,
  keys: SigningKeys,
  { issuer, audience, now }: Expected,
): Promise<Claims> {
  const rules = { algorithms: ['RS256'], typ: 'at+jwt', issuer, audience, currentDate: new Date(now) };
  try {
    const { payload } = await jwtVerify(token, (header: JWTHeaderParameters) => requireKey(keys, header), rules);
    return requireClaims(payload, now);
  } catch (error) {
    if (error instanceof errors.JWTExpired) {
      requireClaims(error.payload, now);
      throw new ServiceError('TOKEN_EXPIRED');
    }
    if (error instanceof errors.JOSEError || error instanceof TypeError || error instanceof SyntaxError)
      throw new ServiceError('UNAUTHORIZED');
    throw error;
  }
}

/** No extension of the header is understood here, so none that must be understood is accepted (RFC 7515 §4.1.11). */
async function requireKey(keys: SigningKeys, { kid, crit }: JWTHeaderParameters): Promise<CryptoKey> {
  const isUsable = typeof kid === 'string' && kid.length <= KEY_ID_MAX_LENGTH && crit === undefined;
  const key = isUsable ? await keys.verificationKey(kid) : undefined;
  if (key === undefined) throw new ServiceError('UNAUTHORIZED');
  return key;
}

function requireClaims(payload: JWTPayload, now: number): Claims {
  const { data } = CLAIMS.safeParse(payload);
  const isOurs = data !== undefined && data.exp - data.iat <= ACCESS_TOKEN_LIFETIME_S;
  if (!isOurs || data.iat * 1000 > now + FUTURE_LEEWAY_MS) throw new ServiceError('UNAUTHORIZED');
  return data;
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
  if (agent === undefined || agent.is_suspended === 1 || agent.account_id !== claims.sub)
    throw new ServiceError('UNAUTHORIZED');
  const handle: Handle = agent.handle;
  return { kind: 'agent', agentId, handle, ...grant };
}
