import type { Clock } from './clock.js';

/** Counts calls per subject in a sliding window, in this process. */
export interface SlidingWindow {
  /** Milliseconds until `weight` more calls of a subject stay within `count`; 0 if they do now. Counts nothing. */
  waitMs(subject: string, count: number, weight?: number): number;
  /** Counts `weight` calls of a subject; only the latest `count` are kept. */
  add(subject: string, count: number, weight?: number): void;
  /** How many calls of a subject are in the window, as far as they are kept. */
  count(subject: string): number;
  /** Whether a call of the subject is in the window. */
  has(subject: string): boolean;
  forget(subject: string): void;
  /** How many subjects are remembered. */
  readonly subjectCount: number;
}

const FORGOTTEN_PER_CALL = 4;

/**
 * Remembers the time of every call in the last `windowMs`, so that a limit is exact at each moment. The clock is the
 * monotonic one: changing the machine's time neither locks anyone out nor lets anyone through. Beyond `subjectsMax`, the
 * subject that has been idle longest is forgotten, so that an attacker who invents subjects cannot fill the memory.
 */
export function createWindow(clock: Clock, windowMs: number, subjectsMax: number): SlidingWindow {
  /** When each call was made, oldest first. */
  const timesByKey = new Map<string, number[]>();

  const forgetIdle = (moment: number): void => {
    let forgotten = 0;
    for (const [subject, times] of timesByKey) {
      const isIdle = (times.at(-1) ?? Number.NEGATIVE_INFINITY) <= moment;
      if (!isIdle && timesByKey.size <= subjectsMax) return;
      timesByKey.delete(subject);
      forgotten += 1;
      if (forgotten === FORGOTTEN_PER_CALL) return;
    }
  };
  const recent = (subject: string, now: number): number[] | undefined => {
    forgetIdle(now - windowMs);
    const times = timesByKey.get(subject);
    if (times === undefined) return undefined;
    // Deleted and inserted again: a Map iterates in insertion order, so the subject that has been idle longest comes
    // first.
    timesByKey.delete(subject);
    timesByKey.set(subject, times);
    dropUpTo(times, now - windowMs);
    return times;
  };
  const count = (subject: string): number => recent(subject, clock.monotonic())?.length ?? 0;
  return {
    waitMs(subject, count, weight = 1) {
      const now = clock.monotonic();
      const times = recent(subject, now) ?? [];
      const freeing = times[times.length - count + weight - 1];
      return freeing === undefined ? 0 : freeing + windowMs - now;
    },
    add(subject, count, weight = 1) {
      const now = clock.monotonic();
      const times = recent(subject, now) ?? [];
      for (let counted = 0; counted < weight; counted += 1) times.push(now);
      if (times.length > count) times.splice(0, times.length - count);
      timesByKey.set(subject, times);
    },
    count,
    has: (subject) => count(subject) > 0,
    forget: (subject) => void timesByKey.delete(subject),
    get subjectCount() {
      return timesByKey.size;
    },
  };
}

/** A call leaves the window when exactly the window has passed. */
function dropUpTo(times: number[], moment: number): void {
  const kept = times.findIndex((time) => time > moment);
  if (kept !== 0) times.splice(0, kept === -1 ? times.length : kept);
}
