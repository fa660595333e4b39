import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';

export const PASSWORD_MIN_LENGTH = 8;
export const PASSWORD_MAX_LENGTH = 200;

const KEY_BYTES = 32;
const SALT_BYTES = 16;
const COST: ScryptOptions = { N: 2 ** 15, r: 8, p: 1, maxmem: 64 * 1024 * 1024 };

const derive = promisify<string, Buffer, number, ScryptOptions, Buffer>(scrypt);

/** A salted scrypt hash (RFC 7914) with its cost, as one text. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const key = await derive(password.normalize('NFKC'), salt, KEY_BYTES, COST);
  return `scrypt$${COST.N}$${COST.r}$${COST.p}$${salt.toString('base64url')}$${key.toString('base64url')}`;
}

/** Stands in for an account that does not exist, so that the answer takes as long. */
const NOBODY = `scrypt$${COST.N}$${COST.r}$${COST.p}$${Buffer.alloc(SALT_BYTES).toString('base64url')}$${Buffer.alloc(KEY_BYTES).toString('base64url')}`;

/** Whether `password` is the one that was hashed; never for an account without one, and as slowly. */
export async function isPasswordOf(hash: string | null | undefined, password: string): Promise<boolean> {
  const [, N, r, p, salt = '', key = ''] = (hash ?? NOBODY).split('$');
  const cost = { ...COST, N: Number(N), r: Number(r), p: Number(p) };
  const expected = Buffer.from(key, 'base64url');
  const derived = await derive(password.normalize('NFKC'), Buffer.from(salt, 'base64url'), expected.length, cost);
  return timingSafeEqual(derived, expected) && typeof hash === 'string';
}
