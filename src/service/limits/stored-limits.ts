import { ServiceError } from '../service-error.js';
import { type Database, isShared, type Query } from '../store/database.js';
import { type CountedBudget, deleteIdleBudgets, takeCalls, waitForCall } from '../store/postgres-rates.js';
import { type Budget, LIMIT, type LimitName, type RateLimits } from './rate-limits.js';

const LONGEST_WINDOW_MS = Math.max(...Object.values(LIMIT).map((limit) => limit.window_ms));

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
    check: async (name, subjectId, weight = 1) =>
      refuseUntil(await waitForCall(query, toCounted({ name, subjectId, weight }), now()), name),
  };
}

function refuseUntil(waitMs: number, limit: LimitName | undefined): void {
  if (waitMs === 0) return;
  const retryAfterS = Math.max(1, Math.ceil(waitMs / 1000));
  throw new ServiceError('RATE_LIMITED', undefined, { retryAfterS, ...(limit !== undefined && { limit }) });
}

/** Keeps the counts of those who call no more from piling up. In memory they go by themselves. */
export async function forgetIdleBudgets(database: Database): Promise<void> {
  if (isShared(database)) await deleteIdleBudgets(database.aside, 2 * LONGEST_WINDOW_MS);
}

function toCounted({ name, subjectId, weight = 1, count = LIMIT[name].count }: Budget): CountedBudget {
  const { window_ms } = LIMIT[name];
  return { name, subject_id: subjectId, calls: count, window_ms, weight };
}
