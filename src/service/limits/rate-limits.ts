import type { RateLimitName } from '../../wire/limit.js';

/** A limit and whom it counts for. */
export interface Budget {
  readonly name: RateLimitName;
  readonly subjectId: string;
}

/** Exact sliding-window limits (spec: Rate limits). */
export interface RateLimits {
  /** Takes one call from the budget of `subjectId`, or throws RATE_LIMITED with a sufficient `Retry-After`; a refused call costs nothing. */
  take(name: RateLimitName, subjectId: string): Promise<void>;
  /** Takes one call from each of these, or from none. */
  takeAll(budgets: readonly Budget[]): Promise<void>;
  /** Throws as `take` would now, and takes nothing: for what must be refused before it is known to take effect. */
  check(name: RateLimitName, subjectId: string): Promise<void>;
}

/** Refuses nothing. */
export const unlimited: RateLimits = { take: async () => {}, takeAll: async () => {}, check: async () => {} };
