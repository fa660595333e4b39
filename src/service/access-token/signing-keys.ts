import { type CryptoKey, calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type JWK } from 'jose';

import { ACCESS_TOKEN_LIFETIME_S } from '../../wire/limit.js';
import type { ServiceContext } from '../context.js';
import {
  deleteSigningKeysRetiredBefore,
  insertFirstSigningKey,
  insertNextSigningKey,
  listSigningKeys,
  type SigningKeyRow,
} from '../store/signing-key-rows.js';

/** How long others may cache the key set. */
export const KEY_SET_MAX_AGE_S = 300;
/** A new key is published this long before it signs: every machine has read it and every cache has aged out. */
export const PUBLISHED_BEFORE_SIGNING_MS = 2 * KEY_SET_MAX_AGE_S * 1000;
/** A key that no longer signs stays published until its last token has expired and every cache has aged out. */
const PUBLISHED_AFTER_SIGNING_MS = (ACCESS_TOKEN_LIFETIME_S + KEY_SET_MAX_AGE_S) * 1000;
/** A key signs for at most this long before the next one is made. */
const ROTATION_AGE_MS = 90 * 24 * 60 * 60 * 1000;
/** Another process may have rotated the keys. */
const RELOAD_AFTER_MS = 60_000;
const RELOAD_FOR_UNKNOWN_AFTER_MS = 30_000;

const ALGORITHM = 'RS256';
const MODULUS_BITS = 2048;

type KeysContext = Pick<ServiceContext, 'clock' | 'database' | 'log'>;

/** The RSA keys of access tokens, as the store holds them. */
export interface SigningKeys {
  /** The key that signs now. */
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
  listKeys(): Promise<readonly SigningKeyFacts[]>;
  /** Rotates when the newest key is old, and removes keys whose tokens have expired. */
  keepFresh(): Promise<void>;
}

export interface SigningKeyFacts {
  readonly kid: string;
  /** Published and yet to sign, signing now, or published for the tokens that it has signed. */
  readonly state: 'next' | 'signing' | 'retired';
  readonly createdAt: number;
  readonly signsFrom: number;
  /** Null while no other key has taken over. */
  readonly publishedUntil: number | null;
}

interface LoadedKey {
  readonly row: SigningKeyRow;
  readonly privateKey: CryptoKey;
  readonly publicKey: CryptoKey;
}

/** Reads the keys, and creates the first one on the first start. */
export async function openSigningKeys(context: KeysContext): Promise<SigningKeys> {
  const { clock, database } = context;
  const ring = createRing(context);
  await ring.reload();
  if (ring.keys().length === 0) {
    const key = await createKey();
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
    const key = await createKey();
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
      return { kid: signing.row.kid, key: signing.privateKey };
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
function createRing({ clock, database }: KeysContext) {
  let keys: readonly LoadedKey[] = [];
  let loadedAtMs = Number.NEGATIVE_INFINITY;
  let loading: Promise<void> | undefined;

  const load = async (): Promise<void> => {
    const rows = await database.read(listSigningKeys);
    const known = new Map(keys.map((loaded) => [loaded.row.kid, loaded]));
    keys = await Promise.all(rows.map((row) => loadKey(row, known.get(row.kid))));
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

function describeKeys(keys: readonly LoadedKey[], now: number): SigningKeyFacts[] {
  const signing = keyThatSigns(keys, now);
  return keys.map(({ row }) => ({
    kid: row.kid,
    state: row.kid === signing.row.kid ? 'signing' : row.signs_from > now ? 'next' : 'retired',
    createdAt: row.created_at,
    signsFrom: row.signs_from,
    publishedUntil: row.retired_at === null ? null : row.retired_at + PUBLISHED_AFTER_SIGNING_MS,
  }));
}

type NewKey = Pick<SigningKeyRow, 'kid' | 'private_jwk' | 'public_jwk'>;

/** Call this when the row is written: a machine that slept while the key was created must not backdate it. */
function startingAt(key: NewKey, now: number, delayMs: number): SigningKeyRow {
  return { ...key, created_at: now, signs_from: now + delayMs, retired_at: null };
}

async function createKey(): Promise<NewKey> {
  const pair = await generateKeyPair(ALGORITHM, { modulusLength: MODULUS_BITS, extractable: true });
  const publicJwk = await exportJWK(pair.publicKey);
  const kid = await calculateJwkThumbprint(publicJwk);
  return {
    kid,
    private_jwk: JSON.stringify(await exportJWK(pair.privateKey)),
    public_jwk: JSON.stringify({ ...publicJwk, kid, use: 'sig', alg: ALGORITHM }),
  };
}

async function loadKey(row: SigningKeyRow, known: LoadedKey | undefined): Promise<LoadedKey> {
  if (known !== undefined) return { ...known, row };
  const [privateKey, publicKey] = await Promise.all([importKey(row.private_jwk), importKey(row.public_jwk)]);
  return { row, privateKey, publicKey };
}

async function importKey(json: string): Promise<CryptoKey> {
  const key = await importJWK(JSON.parse(json) as JWK, ALGORITHM);
  if (key instanceof Uint8Array) throw new Error('a signing key is not an RSA key');
  return key;
}
