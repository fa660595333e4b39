import { type Clock, wait } from '../../kit/clock.js';
import { ServiceError } from '../service-error.js';

const FORGOTTEN_PER_CALL = 4;

export interface PaceOptions {
  /** What one key may have done each second. */
  readonly perSecond: number;
  /** What it may have done at once after it was idle. */
  readonly burst: number;
  /** Work that would have to wait longer is refused. */
  readonly longestWaitMs: number;
}

/**
 * Lets the work of one key begin at a bounded rate, in the order in which it came. What is beyond waits; nothing is refused
 * while the wait is bearable, so that exact limits stay exact (a leaky bucket as a meter, like the GCRA of ATM networks).
 */
export interface Pace {
  /** Resolves when work of this cost may begin. Throws RATE_LIMITED, at no cost, when that would take too long. */
  admit(key: string, cost: number): Promise<void>;
  /** Adds the cost of work that has begun already; what follows waits for it. */
  charge(key: string, cost: number): void;
}

export function createPace(clock: Clock, { perSecond, burst, longestWaitMs }: PaceOptions): Pace {
  const burstMs = (burst / perSecond) * 1000;
  /** When all that was admitted is paid off. Whoever was admitted last stands last. */
  const paidOffAt = new Map<string, number>();
  const forgetIdle = (now: number): void => {
    let looked = 0;
    for (const [key, at] of paidOffAt) {
      if (at > now || looked === FORGOTTEN_PER_CALL) return;
      paidOffAt.delete(key);
      looked += 1;
    }
  };
  const charge = (key: string, cost: number): void => {
    const now = clock.monotonic();
    const at = Math.max(now, paidOffAt.get(key) ?? now);
    paidOffAt.delete(key);
    paidOffAt.set(key, at + (cost / perSecond) * 1000);
  };
  return {
    charge,
    async admit(key, cost) {
      const now = clock.monotonic();
      forgetIdle(now);
      const waitMs = (paidOffAt.get(key) ?? now) - burstMs - now;
      if (waitMs > longestWaitMs)
        throw new ServiceError('RATE_LIMITED', undefined, { retryAfterS: Math.ceil((waitMs - longestWaitMs) / 1000) });
      charge(key, cost);
      if (waitMs > 0) await wait(clock, waitMs);
    },
  };
}
