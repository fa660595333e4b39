import { OWN_RATE_LIMIT, type OwnRateLimitName, RATE_LIMIT, type RateLimitName } from '../../wire/limit.js';

export type LimitName = RateLimitName | OwnRateLimitName;

/** `count` calls in any window of `window_ms`. */
export const LIMIT: Readonly<Record<LimitName, { readonly count: number; readonly window_ms: number }>> = {
  ...RATE_LIMIT,
  ...OWN_RATE_LIMIT,
};

/** A limit and whom it counts for. */
export interface Budget {
  readonly name: LimitName;
  readonly subjectId: string;
  /** How many calls it counts as; one unless said, and never more than the limit. */
  readonly weight?: number;
  /** In place of the count of the limit, where one subject stands for many. */
  readonly count?: number;
}

/** Exact sliding-window limits (spec: Rate limits). */
export interface RateLimits {
  /** Takes one call from the budget of `subjectId`, or throws RATE_LIMITED with a sufficient `Retry-After`; a refused call costs nothing. */
  take(name: LimitName, subjectId: string): Promise<void>;
  /** Takes its weight from each of these, or nothing from any. */
  takeAll(budgets: readonly Budget[]): Promise<void>;
  /** Throws as `take` would now, and takes nothing: for what must be refused before it is known to take effect. */
  check(name: LimitName, subjectId: string, weight?: number): Promise<void>;
}

/** Refuses nothing. */
export const unlimited: RateLimits = { take: async () => {}, takeAll: async () => {}, check: async () => {} };
