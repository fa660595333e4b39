import type { Clock } from '../../src/kit/clock.js';

/** A clock on which every wait but a guard is over at once, and remembered. */
export interface HastyClock extends Clock {
  /** The waits that were asked for, in milliseconds. */
  readonly waits: number[];
}

/** `guards` are the lengths of timers that only guard against a silent peer: they never run out. */
export function createHastyClock(guards: readonly number[] = [10_000], startMs = 1_800_000_000_000): HastyClock {
  const waits: number[] = [];
  let passed = 0;
  return {
    waits,
    now: () => startMs + passed,
    monotonic: () => passed,
    schedule(delayMs, action) {
      if (guards.includes(delayMs)) return () => {};
      waits.push(delayMs);
      let isCancelled = false;
      setImmediate(() => {
        if (isCancelled) return;
        passed += delayMs;
        action();
      });
      return () => {
        isCancelled = true;
      };
    },
  };
}
