import { hash } from 'node:crypto';
import {
  type CryptoKey,
  calculateJwkThumbprint,
  errors,
  exportJWK,
  generateKeyPair,
  importJWK,
  type JWK,
  type JWTHeaderParameters,
  type JWTPayload,
  jwtVerify,
  SignJWT,
} from 'jose';
import * as z from 'zod/mini';
import { putLast } from '../../kit/bounded-map.js';
import { randomToken } from '../../kit/random.js';
import type { Handle } from '../../wire/handle.js';
import { ACCESS_TOKEN_LIFETIME_S } from '../../wire/limit.js';
import { AccessTokenClaims } from '../../wire/schemas/oauth.js';
import type { OperatorKey } from '../../wire/schemas/operator.js';
import { isScope, type Scope, splitScope } from '../../wire/scope.js';
import type { AccountActor, AgentActor, ServiceContext } from '../core/context.js';
import { ServiceError } from '../core/errors.js';
import { findAccount } from '../store/accounts.js';
import { findAgent } from '../store/agents.js';
import {
  deleteSigningKeysRetiredBefore,
  insertFirstSigningKey,
  insertNextSigningKey,
  listSigningKeys,
  replacePrivateKey,
  type SigningKeyRow,
} from '../store/keys.js';
import { createKeySeal, type KeySeal } from './sealed-keys.js';

const TOKEN_ID_BYTES = 16;

export interface AccessTokenGrant {
  readonly accountId: string;
  /** Null for an account token. */
  readonly agentId: string | null;
  readonly clientId: string;
  readonly scopes: readonly Scope[];
  /** One or more of this service's resources. */
  readonly resources: readonly string[];
  /** The refresh-token family or the confidential client. Revoking it closes the sockets opened with the token. */
  readonly grantId: string;
}

/** Signs an access token: the specification's claims, `client_id` and `jti` (RFC 9068 §2.2), and `gid` for revocation. */
export async function signAccessToken(
  context: Pick<ServiceContext, 'clock' | 'random' | 'settings'>,
  keys: SigningKeys,
  grant: AccessTokenGrant,
): Promise<string> {
  const { kid, key } = await keys.signingKey();
  const issuedAtS = Math.floor(context.clock.now() / 1000);
  const [onlyResource] = grant.resources;
  const claims = {
    iss: context.settings.addresses.authUrl,
    sub: grant.accountId,
    ...(grant.agentId !== null && { agent_id: grant.agentId }),
    azp: grant.clientId,
    client_id: grant.clientId,
    scope: grant.scopes.join(' '),
    aud: grant.resources.length === 1 && onlyResource !== undefined ? onlyResource : [...grant.resources],
    iat: issuedAtS,
    exp: issuedAtS + ACCESS_TOKEN_LIFETIME_S,
    token_type: 'access',
    jti: randomToken(context.random, TOKEN_ID_BYTES),
    gid: grant.grantId,
  };
  return new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid, typ: 'at+jwt' }).sign(key);
}

/** The caller of a request, and the grant it uses. */
export type VerifiedToken = (AgentActor | AccountActor) & {
  /** The refresh-token family or the confidential client; revoking it closes sockets. */
  readonly grantId: string;
  readonly clientId: string;
  readonly expiresAtMs: number;
};

export interface TokenVerifier {
  /** Throws UNAUTHORIZED, or TOKEN_EXPIRED when only the token's age is wrong. */
  verify(token: string, audience: string): Promise<VerifiedToken>;
  /** The tokens that this agent has used here count as expired from now on. Returns their number. */
  expireTokensOf(agentId: string): number;
}

type VerifierContext = Pick<ServiceContext, 'clock' | 'database' | 'settings' | 'bus'>;

const CLAIMS = z.extend(AccessTokenClaims, { jti: z.string(), gid: z.string() });
type Claims = z.infer<typeof CLAIMS>;

const TOKEN_MAX_LENGTH = 8192;
const KEY_ID_MAX_LENGTH = 128;
const CACHE_MAX_SIZE = 10_000;
const FUTURE_LEEWAY_MS = 60_000;
/**
 * A removed agent's tokens stop working after this time at most, even without a notification: not every request reads
 * the store.
 */
const ACTOR_RECHECK_MS = 5_000;

interface CachedToken {
  claims: Claims;
  verified: VerifiedToken | undefined;
  checkedAtMs: number;
}

/** Verifies access tokens of this service. A token that was valid for a resource is remembered by its hash. */
export function createTokenVerifier(context: VerifierContext, keys: SigningKeys): TokenVerifier {
  const { clock, settings } = context;
  const issuer = settings.addresses.authUrl;
  const cache = new Map<string, CachedToken>();
  const checking = new Map<string, Promise<CachedToken>>();

  const remember = (cacheKey: string, claims: Claims): CachedToken => {
    const cached: CachedToken = { claims, verified: undefined, checkedAtMs: Number.NEGATIVE_INFINITY };
    putLast(cache, cacheKey, cached, CACHE_MAX_SIZE);
    return cached;
  };
  /** Calls that bring the same token in the meantime share the check of its signature. */
  const check = (cacheKey: string, token: string, expected: Expected): Promise<CachedToken> => {
    const known = checking.get(cacheKey);
    if (known !== undefined) return known;
    const checked = verifySignedClaims(token, keys, expected)
      .then((claims) => remember(cacheKey, claims))
      .finally(() => checking.delete(cacheKey));
    checking.set(cacheKey, checked);
    return checked;
  };

  context.bus.listen((signal) => {
    if (signal.kind !== 'revoked') return;
    for (const cached of cache.values()) if (cached.claims.gid === signal.grantId) cached.verified = undefined;
  });

  return {
    async verify(token, audience) {
      if (token.length > TOKEN_MAX_LENGTH) throw new ServiceError('UNAUTHORIZED');
      const cacheKey = `${hash('sha256', token, 'base64url')} ${audience}`;
      const now = clock.now();
      const cached = cache.get(cacheKey) ?? (await check(cacheKey, token, { issuer, audience, now }));
      if (now >= cached.claims.exp * 1000) throw new ServiceError('TOKEN_EXPIRED');
      if (clock.monotonic() - cached.checkedAtMs > ACTOR_RECHECK_MS || cached.verified === undefined) {
        cached.verified = await findActor(context, cached.claims);
        cached.checkedAtMs = clock.monotonic();
      }
      return cached.verified;
    },
    expireTokensOf(agentId) {
      const expired = new Set<string>();
      for (const cached of cache.values()) {
        const { claims } = cached;
        if (claims.agent_id !== agentId || clock.now() >= claims.exp * 1000) continue;
        expired.add(claims.jti);
        cached.claims = { ...claims, exp: 0 };
      }
      return expired.size;
    },
  };
}

interface Expected {
  readonly issuer: string;
  readonly audience: string;
  readonly now: number;
}

/**
 * Checks the signature and then the claims, the expiry last: TOKEN_EXPIRED means that everything else is right (RFC
 * 9068 §4).
 */
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

/** No header extensions are supported, so a token with a critical one is rejected (RFC 7515 §4.1.11). */
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

/** How long others may cache the key set. */
export const KEY_SET_MAX_AGE_S = 300;
/** A new key is published this long before it signs: every machine has read it and every cache has aged out. */
const PUBLISHED_BEFORE_SIGNING_MS = 2 * KEY_SET_MAX_AGE_S * 1000;
/** A key that no longer signs stays published until its last token has expired and every cache has aged out. */
const PUBLISHED_AFTER_SIGNING_MS = (ACCESS_TOKEN_LIFETIME_S + KEY_SET_MAX_AGE_S) * 1000;
/** A key signs for at most this long before the next one is made. */
const ROTATION_AGE_MS = 90 * 24 * 60 * 60 * 1000;
/** How long keys are cached: another process may have rotated them. */
const RELOAD_AFTER_MS = 60_000;
const RELOAD_FOR_UNKNOWN_AFTER_MS = 30_000;

const ALGORITHM = 'RS256';
const MODULUS_BITS = 2048;

type KeysContext = Pick<ServiceContext, 'clock' | 'database' | 'log'>;

/** The RSA keys of access tokens, as the store holds them. */
export interface SigningKeys {
  /** The current signing key. */
  signingKey(): Promise<{ kid: string; key: CryptoKey }>;
  /** Undefined for an unknown key. Unknown ids read the store at most once in half a minute. */
  verificationKey(kid: string): Promise<CryptoKey | undefined>;
  /** The key set to publish (RFC 7517 §5). */
  publicKeySet(): Promise<{ keys: JWK[] }>;
  /**
   * Publishes a next key, which signs once every cache has it, and removes keys whose tokens have expired. False if a next
   * key is already published and about to sign.
   */
  rotateKeys(): Promise<boolean>;
  /** Every published key, in the order in which they sign. */
  listKeys(): Promise<OperatorKey[]>;
  /** Rotates when the newest key is old, and removes keys whose tokens have expired. */
  keepFresh(): Promise<void>;
}

interface LoadedKey {
  readonly row: SigningKeyRow;
  readonly publicKey: CryptoKey;
  /** Opened when the key first signs: another service may have sealed it with a key that this one does not have. */
  readonly openPrivate: () => Promise<CryptoKey>;
}

/** Reads the keys, and creates the first one on the first start. Keys that `keySeal` would store differently are stored again. */
export async function openSigningKeys(context: KeysContext, keySeal = createKeySeal([])): Promise<SigningKeys> {
  const { clock, database } = context;
  const ring = createRing(context, keySeal);
  await ring.reload();
  for (const { row } of ring.keys()) {
    const text = keySeal.open(row.kid, row.private_jwk);
    if (!keySeal.isOutdated(row.kid, row.private_jwk)) continue;
    const sealed = keySeal.close(row.kid, text);
    await database.write((transaction) => replacePrivateKey(transaction, row, sealed));
  }
  if (ring.keys().length === 0) {
    const key = await createKey(keySeal);
    await database.write((transaction) => insertFirstSigningKey(transaction, startingAt(key, clock.now(), 0)));
    await ring.reload();
  }
  const removeOld = async (): Promise<void> => {
    const goneBefore = clock.now() - PUBLISHED_AFTER_SIGNING_MS;
    if (!ring.keys().some(({ row }) => row.retired_at !== null && row.retired_at < goneBefore)) return;
    await database.write((transaction) => deleteSigningKeysRetiredBefore(transaction, goneBefore));
    await ring.reload();
  };
  const rotateKeys = async (): Promise<boolean> => {
    const key = await createKey(keySeal);
    const isNew = await database.write((transaction) =>
      insertNextSigningKey(transaction, startingAt(key, clock.now(), PUBLISHED_BEFORE_SIGNING_MS)),
    );
    await ring.reload();
    await removeOld();
    if (isNew) context.log.security?.('keys_rotated', { key: key.kid, outcome: 'done' });
    return isNew;
  };
  return {
    async signingKey() {
      const signing = keyThatSigns(await ring.notOlderThan(RELOAD_AFTER_MS), clock.now());
      return { kid: signing.row.kid, key: await signing.openPrivate() };
    },
    async verificationKey(kid) {
      const find = (keys: readonly LoadedKey[]): LoadedKey | undefined => keys.find((loaded) => loaded.row.kid === kid);
      const known = find(await ring.notOlderThan(RELOAD_AFTER_MS));
      return (known ?? find(await ring.notOlderThan(RELOAD_FOR_UNKNOWN_AFTER_MS)))?.publicKey;
    },
    async publicKeySet() {
      const keys = await ring.notOlderThan(RELOAD_AFTER_MS);
      return { keys: keys.map(({ row }) => JSON.parse(row.public_jwk) as JWK) };
    },
    rotateKeys,
    async listKeys() {
      await ring.reload();
      return describeKeys(ring.keys(), clock.now());
    },
    async keepFresh() {
      const newest = ring.keys().at(-1);
      if (newest !== undefined && clock.now() - newest.row.signs_from > ROTATION_AGE_MS) await rotateKeys();
      else await removeOld();
    },
  };
}

/** The keys as they were last read. Callers that need newer ones share one read. */
function createRing({ clock, database }: KeysContext, keySeal: KeySeal) {
  let keys: readonly LoadedKey[] = [];
  let loadedAtMs = Number.NEGATIVE_INFINITY;
  let loading: Promise<void> | undefined;

  const load = async (): Promise<void> => {
    const rows = await database.read(listSigningKeys);
    const known = new Map(keys.map((loaded) => [loaded.row.kid, loaded]));
    keys = await Promise.all(rows.map((row) => loadKey(row, known.get(row.kid), keySeal)));
    loadedAtMs = clock.monotonic();
  };
  const reload = (): Promise<void> => {
    loading ??= load().finally(() => {
      loading = undefined;
    });
    return loading;
  };
  return {
    keys: (): readonly LoadedKey[] => keys,
    reload,
    async notOlderThan(ageMs: number): Promise<readonly LoadedKey[]> {
      if (clock.monotonic() - loadedAtMs > ageMs) await reload();
      return keys;
    },
  };
}

/** The newest key that may sign by now; the first key if the clock went back. */
function keyThatSigns(keys: readonly LoadedKey[], now: number): LoadedKey {
  const signing = keys.findLast((loaded) => loaded.row.signs_from <= now) ?? keys[0];
  if (signing === undefined) throw new Error('there is no signing key');
  return signing;
}

function describeKeys(keys: readonly LoadedKey[], now: number): OperatorKey[] {
  const signing = keyThatSigns(keys, now);
  return keys.map(({ row }) => ({
    kid: row.kid,
    state: row.kid === signing.row.kid ? 'signing' : row.signs_from > now ? 'next' : 'retired',
    created_at: row.created_at,
    signs_from: row.signs_from,
    published_until: row.retired_at === null ? null : row.retired_at + PUBLISHED_AFTER_SIGNING_MS,
  }));
}

type NewKey = Pick<SigningKeyRow, 'kid' | 'private_jwk' | 'public_jwk'>;

/** Call this when the row is written: a machine that was asleep while the key was created must not backdate it. */
function startingAt(key: NewKey, now: number, delayMs: number): SigningKeyRow {
  return { ...key, created_at: now, signs_from: now + delayMs, retired_at: null };
}

async function createKey(keySeal: KeySeal): Promise<NewKey> {
  const pair = await generateKeyPair(ALGORITHM, { modulusLength: MODULUS_BITS, extractable: true });
  const publicJwk = await exportJWK(pair.publicKey);
  const kid = await calculateJwkThumbprint(publicJwk);
  return {
    kid,
    private_jwk: keySeal.close(kid, JSON.stringify(await exportJWK(pair.privateKey))),
    public_jwk: JSON.stringify({ ...publicJwk, kid, use: 'sig', alg: ALGORITHM }),
  };
}

async function loadKey(row: SigningKeyRow, known: LoadedKey | undefined, keySeal: KeySeal): Promise<LoadedKey> {
  if (known !== undefined) return { ...known, row };
  let opened: Promise<CryptoKey> | undefined;
  const openPrivate = async (): Promise<CryptoKey> => {
    opened ??= importKey(keySeal.open(row.kid, row.private_jwk));
    return opened;
  };
  return { row, publicKey: await importKey(row.public_jwk), openPrivate };
}

async function importKey(json: string): Promise<CryptoKey> {
  const key = await importJWK(JSON.parse(json) as JWK, ALGORITHM);
  if (key instanceof Uint8Array) throw new Error('a signing key is not an RSA key');
  return key;
}
