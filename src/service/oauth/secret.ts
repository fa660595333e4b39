import { createHash } from 'node:crypto';
import { type Random, randomToken } from '../../kit/random.js';

const SECRET_BYTES = 32;

/** The purpose of a secret is visible in its prefix, so that a leaked one can be identified. */
const PREFIX = {
  authorizationCode: 'asp_ac_',
  refreshToken: 'asp_rt_',
  clientSecret: 'asp_cs_',
  browser: '',
  request: '',
} as const;

/** 256 random bits in base64url. */
export function createSecret(random: Random, kind: keyof typeof PREFIX): string {
  return toSecret(randomToken(random, SECRET_BYTES), kind);
}

/** The secret made of these random bits. */
export function toSecret(bits: string, kind: keyof typeof PREFIX): string {
  return `${PREFIX[kind]}${bits}`;
}

/** How the store knows a secret. It has too many bits to be guessed, so a slow hash would gain nothing. */
export function hashSecret(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url');
}
