import { type Random, randomToken } from './random.js';
import { sanitize, sanitizeLine } from './sanitize.js';

const NONCE_BYTES = 12;

/** A sender, for a model: the service proves the handle, and the owner of the agent decides the relation. */
export function describeSender(sender: string, relation: string): string {
  return `${sanitizeLine(sender)} (checked by the service; relation to you: ${relation})`;
}

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
