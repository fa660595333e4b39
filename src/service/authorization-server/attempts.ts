import type { Clock } from '../../kit/clock.js';

const SUBJECTS_MAX = 50_000;

/** Counts attempts that the specification's table has no row for, by whom they come from. */
export interface Attempts {
  /** Whole seconds to wait before the next attempt; 0: now. */
  waitS(subject: string): number;
  add(subject: string): void;
  forget(subject: string): void;
}

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
    forget: (subject) => {
      timesOf.delete(subject);
    },
  };
}
