import type { Clock } from '../../kit/clock.js';
import { repeat } from '../../kit/repeat.js';
import { RATE_LIMIT, type RateLimitName } from '../../wire/limit.js';
import { ServiceError } from '../service-error.js';
import type { Query } from '../store/database.js';
import { type CountedBudget, deleteIdleBudgets, takeCalls, waitForCall } from '../store/postgres-rates.js';
import type { Budget, RateLimits } from './rate-limits.js';

const FORGET_EVERY_MS = 600_000;
const LONGEST_WINDOW_MS = Math.max(...Object.values(RATE_LIMIT).map((limit) => limit.window_ms));

/**
 * The sliding windows of all services that use one database: exact together, by one time, which is the database's own
 * unless `now` gives another.
 */
export function createStoredLimits(query: Query, now: () => number | null = () => null): RateLimits {
  const takeAll = async (budgets: readonly Budget[]): Promise<void> => {
    if (budgets.length === 0) return;
    const waitMs = await takeCalls(query, budgets.map(toCounted), now());
    refuseUntil(waitMs, budgets.length === 1 ? budgets[0]?.name : undefined);
  };
  return {
    take: (name, subjectId) => takeAll([{ name, subjectId }]),
    takeAll,
    check: async (name, subjectId) =>
      refuseUntil(await waitForCall(query, toCounted({ name, subjectId }), now()), name),
  };
}

function refuseUntil(waitMs: number, limit: RateLimitName | undefined): void {
  if (waitMs === 0) return;
  const retryAfterS = Math.max(1, Math.ceil(waitMs / 1000));
  throw new ServiceError('RATE_LIMITED', undefined, { retryAfterS, ...(limit !== undefined && { limit }) });
}

/** Keeps the counts of those who call no more from piling up. The answer stops it. */
export function forgetIdleBudgets(clock: Clock, query: Query, onFault: (error: unknown) => void): () => Promise<void> {
  return repeat(clock, FORGET_EVERY_MS, () => deleteIdleBudgets(query, 2 * LONGEST_WINDOW_MS), onFault);
}

function toCounted({ name, subjectId }: Budget): CountedBudget {
  const { count, window_ms } = RATE_LIMIT[name];
  return { name, subject_id: subjectId, calls: count, window_ms };
}
