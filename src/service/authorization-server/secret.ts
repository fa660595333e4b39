import { createHash, timingSafeEqual } from 'node:crypto';

import { type Random, randomToken } from '../../kit/random.js';

const SECRET_BYTES = 32;

/** What a secret is for shows in its prefix, so that a leak can be told by its looks. */
const PREFIX = {
  authorizationCode: 'asp_ac_',
  refreshToken: 'asp_rt_',
  clientSecret: 'asp_cs_',
  browser: '',
  request: '',
} as const;

/** 256 bits of chance in base64url. */
export function createSecret(random: Random, kind: keyof typeof PREFIX): string {
  return secretOf(randomToken(random, SECRET_BYTES), kind);
}

/** The secret that these bits of chance make. */
export function secretOf(bits: string, kind: keyof typeof PREFIX): string {
  return `${PREFIX[kind]}${bits}`;
}

/** How the store knows a secret. It has too many bits to be guessed, so a slow hash would gain nothing. */
export function hashSecret(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url');
}

/** Whether both are the same, in a time that depends on neither. */
export function isSameSecret(given: string, expected: string): boolean {
  return timingSafeEqual(createHash('sha256').update(given).digest(), createHash('sha256').update(expected).digest());
}
