import type { Clock } from '../../src/kit/clock.js';

/** A clock that ends every wait at once and records it. Only guards never run out. */
export interface HastyClock extends Clock {
  /** The requested waits, in milliseconds. */
  readonly waits: number[];
}

/** `guards` are the lengths of the timers that only guard against a silent peer. They never run out. */
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
