import type { Clock } from '../../kit/clock.js';
import { createWindow, type SlidingWindow } from '../../kit/sliding-window.js';
import { OWN_RATE_LIMIT, type OwnRateLimitName, RATE_LIMIT, type RateLimitName } from '../../wire/limit.js';
import { ServiceError } from './errors.js';

export type LimitName = RateLimitName | OwnRateLimitName;

/** `count` calls in any window of `window_ms`. */
export const LIMIT: Readonly<Record<LimitName, { readonly count: number; readonly window_ms: number }>> = {
  ...RATE_LIMIT,
  ...OWN_RATE_LIMIT,
};

/** A limit and the subject it counts for. */
export interface Budget {
  readonly name: LimitName;
  readonly subjectId: string;
  /** How many calls it counts as (default 1), at most the limit. */
  readonly weight?: number;
  /** Replaces the limit's count if one subject stands for many. */
  readonly count?: number;
}

/** Exact sliding-window limits (spec: Rate limits). */
export interface RateLimits {
  /**
   * Takes one call from the budget of `subjectId`, or throws RATE_LIMITED with a sufficient `Retry-After`; a refused
   * call costs nothing.
   */
  take(name: LimitName, subjectId: string): Promise<void>;
  /** Takes its weight from all of these, or from none. */
  takeAll(budgets: readonly Budget[]): Promise<void>;
  /**
   * Throws as `take` would now, but takes nothing: for calls that must be refused before it is known whether they take
   * effect.
   */
  check(budget: Budget): Promise<void>;
  /** How many calls of `subjectId` are in the window now; undefined: nothing is counted. */
  getUsed(name: LimitName, subjectId: string): Promise<number | undefined>;
}

/** Refuses nothing. */
export const unlimited: RateLimits = {
  take: async () => {},
  takeAll: async () => {},
  check: async () => {},
  getUsed: async () => undefined,
};

/**
 * Each call returns the limits for one more run of the same work, which runs again if its transaction was rolled back.
 * A run takes only the part that no earlier run has taken.
 */
export function chargeOnce(limits: RateLimits): () => RateLimits {
  const taken = new Map<string, number>();
  return () => {
    const credit = new Map(taken);
    const split = (budget: Budget) => {
      const key = `${budget.name} ${budget.subjectId}`;
      const weight = budget.weight ?? 1;
      const covered = Math.min(weight, credit.get(key) ?? 0);
      return { key, covered, due: { ...budget, weight: weight - covered } };
    };
    const takeAll = async (budgets: readonly Budget[]): Promise<void> => {
      const parts = budgets.map(split);
      const due = parts.flatMap((part) => (part.due.weight > 0 ? [part.due] : []));
      for (const { key, covered } of parts) add(credit, key, -covered);
      try {
        if (due.length > 0) await limits.takeAll(due);
      } catch (error) {
        for (const { key, covered } of parts) add(credit, key, covered);
        throw error;
      }
      for (const { key, due } of parts) add(taken, key, due.weight);
    };
    return {
      take: (name, subjectId) => takeAll([{ name, subjectId }]),
      takeAll,
      async check(budget) {
        const { due } = split(budget);
        if (due.weight > 0) await limits.check(due);
      },
      getUsed: (name, subjectId) => limits.getUsed(name, subjectId),
    };
  };
}

function add(counts: Map<string, number>, key: string, amount: number): void {
  counts.set(key, (counts.get(key) ?? 0) + amount);
}

const SUBJECTS_PER_LIMIT_MAX = 100_000;

export interface MemoryLimits extends RateLimits {
  /** How many subjects are remembered, over all limits. */
  readonly subjectCount: number;
}

/** Limits that one process counts; `Retry-After` is the time until the oldest call leaves the window, rounded up. */
export function createMemoryLimits(clock: Clock): MemoryLimits {
  const windows = new Map<LimitName, SlidingWindow>();
  const getWindow = (name: LimitName): SlidingWindow => {
    const window = windows.get(name) ?? createWindow(clock, LIMIT[name].window_ms, SUBJECTS_PER_LIMIT_MAX);
    windows.set(name, window);
    return window;
  };
  const requireRoom = (budgets: readonly Budget[]): void => {
    let waitMs = 0;
    let limit: LimitName | undefined;
    for (const { name, subjectId, weight, count = LIMIT[name].count } of budgets) {
      const budgetMs = getWindow(name).waitMs(subjectId, count, weight);
      if (budgetMs <= waitMs) continue;
      waitMs = budgetMs;
      limit = name;
    }
    if (limit !== undefined)
      throw new ServiceError('RATE_LIMITED', undefined, { retryAfterS: Math.max(1, Math.ceil(waitMs / 1000)), limit });
  };
  const takeAll = async (budgets: readonly Budget[]): Promise<void> => {
    requireRoom(budgets);
    for (const { name, subjectId, weight, count = LIMIT[name].count } of budgets)
      getWindow(name).add(subjectId, count, weight);
  };

  return {
    take: (name, subjectId) => takeAll([{ name, subjectId }]),
    takeAll,
    check: async (budget) => requireRoom([budget]),
    getUsed: async (name, subjectId) => getWindow(name).count(subjectId),
    get subjectCount() {
      return [...windows.values()].reduce((sum, { subjectCount }) => sum + subjectCount, 0);
    },
  };
}
