import { createHash } from 'node:crypto';

import { CODE_VERIFIER_MAX_LENGTH, CODE_VERIFIER_MIN_LENGTH } from '../../../wire/limit.js';
import { isSameSecret } from '../secret.js';

const VERIFIER = new RegExp(`^[A-Za-z0-9._~-]{${CODE_VERIFIER_MIN_LENGTH},${CODE_VERIFIER_MAX_LENGTH}}$`);
const CHALLENGE = /^[A-Za-z0-9_-]{43}$/;

/** Whether `challenge` can be the S256 of a verifier (RFC 7636 §4.2). */
export function isCodeChallenge(challenge: string): boolean {
  return CHALLENGE.test(challenge);
}

/** (RFC 7636 §4.6, S256) */
export function isVerifierOf(challenge: string, verifier: string | undefined): boolean {
  if (verifier === undefined || !VERIFIER.test(verifier)) return false;
  return isSameSecret(createHash('sha256').update(verifier).digest('base64url'), challenge);
}
