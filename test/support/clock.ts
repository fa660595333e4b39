import type { Clock } from '../../src/kit/clock.js';

/** A clock that moves only when a test advances it. */
export interface TestClock extends Clock {
  /** Advances the clock, running the actions that come due, in order. */
  advance(ms: number): void;
}

export function createTestClock(startMs = 1_800_000_000_000): TestClock {
  let passed = 0;
  let count = 0;
  const timers = new Map<number, { readonly at: number; readonly action: () => void }>();
  const nextDue = (until: number): [number, { at: number; action: () => void }] | undefined =>
    [...timers].filter(([, { at }]) => at <= until).sort(([a, x], [b, y]) => x.at - y.at || a - b)[0];
  return {
    now: () => startMs + passed,
    monotonic: () => passed,
    schedule(delayMs, action) {
      count += 1;
      const id = count;
      timers.set(id, { at: passed + Math.max(0, delayMs), action });
      return () => timers.delete(id);
    },
    advance(ms) {
      const end = passed + ms;
      for (let next = nextDue(end); next !== undefined; next = nextDue(end)) {
        const [id, { at, action }] = next;
        timers.delete(id);
        passed = Math.max(passed, at);
        action();
      }
      passed = end;
    },
  };
}
