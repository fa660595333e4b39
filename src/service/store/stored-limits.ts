import { type Database, isShared, type Query } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import { type Budget, LIMIT, type LimitName, type RateLimits } from '../core/rate-limits.js';

/** One budget as the database counts it. */
interface CountedBudget {
  readonly name: string;
  readonly subject_id: string;
  readonly calls: number;
  readonly window_ms: number;
  /** The number of calls taken at once. */
  readonly weight: number;
}

/**
 * Takes its weight from each budget, or nothing from any; returns the milliseconds to wait, 0: taken. `at` null: the
 * database's own time.
 */
async function takeCalls(query: Query, budgets: readonly CountedBudget[], at: number | null): Promise<number> {
  const row = await query.get<{ wait: number }>(
    'SELECT take_calls($1::json, $2::bigint) AS wait',
    JSON.stringify(budgets),
    at,
  );
  return row?.wait ?? 0;
}

/** The milliseconds until it could be taken, 0: now. Takes nothing. */
async function waitForCall(query: Query, budget: CountedBudget, at: number | null): Promise<number> {
  const row = await query.get<{ wait: number }>(
    `SELECT GREATEST(0, rate_call.at + $3::bigint
       - COALESCE($5::bigint, FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint)) AS wait
     FROM rate_budget JOIN rate_call ON rate_call.name = rate_budget.name
       AND rate_call.subject_id = rate_budget.subject_id AND rate_call.slot = (rate_budget.taken + $6::bigint - 1) % $4::bigint
     WHERE rate_budget.name = $1 AND rate_budget.subject_id = $2`,
    budget.name,
    budget.subject_id,
    budget.window_ms,
    budget.calls,
    at,
    budget.weight,
  );
  return row?.wait ?? 0;
}

/** Forgets the calls of these budgets that were made after now, and returns their number. */
function forgetLaterCalls(query: Query, budgets: readonly CountedBudget[], at: number | null): Promise<number> {
  return query.run(
    `DELETE FROM rate_call USING json_to_recordset($1::json) AS budget (name text, subject_id text)
     WHERE rate_call.name = budget.name AND rate_call.subject_id = budget.subject_id
       AND rate_call.at > COALESCE($2::bigint, FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint)`,
    JSON.stringify(budgets),
    at,
  );
}

/** How many calls of a budget are in its window now. */
async function countCalls(
  query: Query,
  { name, subject_id, window_ms }: Pick<CountedBudget, 'name' | 'subject_id' | 'window_ms'>,
  at: number | null,
): Promise<number> {
  const row = await query.get<{ count: number }>(
    `SELECT COUNT(*) AS count FROM rate_call WHERE name = $1 AND subject_id = $2
       AND at > COALESCE($4::bigint, FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint) - $3::bigint`,
    name,
    subject_id,
    window_ms,
    at,
  );
  return Number(row?.count ?? 0);
}

/** Forgets budgets that were not used for `idleMs`. */
async function deleteIdleBudgets(query: Query, idleMs: number): Promise<void> {
  await query.run(
    `WITH gone AS (
       DELETE FROM rate_budget WHERE last_at < FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint - $1::bigint
       RETURNING name, subject_id
     )
     DELETE FROM rate_call USING gone WHERE rate_call.name = gone.name AND rate_call.subject_id = gone.subject_id`,
    idleMs,
  );
}

const LONGEST_WINDOW_MS = Math.max(...Object.values(LIMIT).map((limit) => limit.window_ms));

/**
 * The sliding windows of all services that use one database: exact together, by one time, which is the database's own
 * unless `now` provides another.
 */
export function createStoredLimits(query: Query, now: () => number | null = () => null): RateLimits {
  /** A call that was made after now means that the clock was set back. It must not lock anyone out until it gets there again. */
  const askAgainIfLong = async (budgets: readonly CountedBudget[], ask: () => Promise<number>): Promise<number> => {
    const waitMs = await ask();
    const isLong = waitMs > Math.min(...budgets.map((budget) => budget.window_ms));
    return isLong && (await forgetLaterCalls(query, budgets, now())) > 0 ? ask() : waitMs;
  };
  const takeAll = async (budgets: readonly Budget[]): Promise<void> => {
    if (budgets.length === 0) return;
    const counted = budgets.map(toCounted);
    const waitMs = await askAgainIfLong(counted, () => takeCalls(query, counted, now()));
    refuseUntil(waitMs, budgets.length === 1 ? budgets[0]?.name : undefined);
  };
  return {
    take: (name, subjectId) => takeAll([{ name, subjectId }]),
    takeAll,
    async check(budget) {
      const counted = toCounted(budget);
      refuseUntil(await askAgainIfLong([counted], () => waitForCall(query, counted, now())), budget.name);
    },
    getUsed: (name, subjectId) => countCalls(query, toCounted({ name, subjectId }), now()),
  };
}

function refuseUntil(waitMs: number, limit: LimitName | undefined): void {
  if (waitMs === 0) return;
  const retryAfterS = Math.max(1, Math.ceil(waitMs / 1000));
  throw new ServiceError('RATE_LIMITED', undefined, { retryAfterS, ...(limit !== undefined && { limit }) });
}

/** Removes the counts of callers that have stopped calling. In memory they disappear on their own. */
export async function forgetIdleBudgets(database: Database): Promise<void> {
  if (isShared(database)) await deleteIdleBudgets(database.aside, 2 * LONGEST_WINDOW_MS);
}

function toCounted({ name, subjectId, weight = 1, count = LIMIT[name].count }: Budget): CountedBudget {
  const { window_ms } = LIMIT[name];
  return { name, subject_id: subjectId, calls: count, window_ms, weight };
}
