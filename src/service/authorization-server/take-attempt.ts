import type { Attempts } from './attempts.js';
import { OAuthError } from './oauth-error.js';

/** Counts an attempt, or refuses it and says when the next one is let in. */
export function takeAttempt(attempts: Attempts, subject: string): void {
  const waitS = attempts.waitS(subject);
  if (waitS > 0) {
    throw new OAuthError('slow_down', 'Too many requests. Try again later.', undefined, {
      headers: { 'retry-after': String(waitS) },
    });
  }
  attempts.add(subject);
}
