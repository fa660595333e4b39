import type { Clock } from '../../kit/clock.js';
import { OAuthError } from './oauth-error.js';

const SUBJECTS_MAX = 50_000;

/** Counts attempts by where they come from, for limits that the specification's table does not have. */
export interface Attempts {
  /** Whole seconds to wait before the next attempt; 0 when it may come now. */
  waitS(subject: string): number;
  add(subject: string): void;
  /** Whether one was added within the window. */
  has(subject: string): boolean;
  forget(subject: string): void;
}

/** Counts nothing. */
export const UNCOUNTED: Attempts = { waitS: () => 0, add: () => {}, has: () => false, forget: () => {} };

/** At most `count` attempts in any window of `windowMs`. */
export function createAttempts(clock: Clock, limit: { readonly count: number; readonly windowMs: number }): Attempts {
  const timesOf = new Map<string, number[]>();
  const recent = (subject: string): number[] => {
    const opened = clock.monotonic() - limit.windowMs;
    return (timesOf.get(subject) ?? []).filter((time) => time > opened);
  };
  return {
    waitS(subject) {
      const times = recent(subject);
      const freeing = times.at(-limit.count);
      if (freeing === undefined) return 0;
      return Math.max(1, Math.ceil((freeing + limit.windowMs - clock.monotonic()) / 1000));
    },
    add(subject) {
      const times = recent(subject);
      const [longestIdle] = timesOf.keys();
      if (timesOf.size >= SUBJECTS_MAX && longestIdle !== undefined) timesOf.delete(longestIdle);
      timesOf.delete(subject);
      timesOf.set(subject, [...times, clock.monotonic()].slice(-limit.count));
    },
    has: (subject) => recent(subject).length > 0,
    forget: (subject) => {
      timesOf.delete(subject);
    },
  };
}

export function tooManyRequests(waitS: number): OAuthError {
  return new OAuthError('slow_down', 'Too many requests. Try again later.', undefined, {
    headers: { 'retry-after': String(waitS) },
  });
}
