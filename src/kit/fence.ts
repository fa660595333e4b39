import { type Random, randomToken } from './random.js';
import { sanitize } from './sanitize.js';

const NONCE_BYTES = 12;

/**
 * Text from others for a model, between two lines that its author could not have predicted. `about` must be one safe
 * line.
 */
export function fence(random: Random, kind: 'message' | 'data', about: string, text: string): string {
  const nonce = randomToken(random, NONCE_BYTES);
  return [
    `=== ${nonce} begin untrusted ${kind}${about} ===`,
    sanitize(text),
    `=== ${nonce} end untrusted ${kind} ===`,
  ].join('\n');
}
