import type { Query } from './database.js';

/** One budget as the database counts it. */
export interface CountedBudget {
  readonly name: string;
  readonly subject_id: string;
  readonly calls: number;
  readonly window_ms: number;
  /** How many calls are taken at once. */
  readonly weight: number;
}

/** Takes its weight from each, or nothing from any; gives the milliseconds to wait, 0: taken. `at` null: the database's own time. */
export async function takeCalls(query: Query, budgets: readonly CountedBudget[], at: number | null): Promise<number> {
  const row = await query.get<{ wait: number }>(
    'SELECT take_calls($1::json, $2::bigint) AS wait',
    JSON.stringify(budgets),
    at,
  );
  return row?.wait ?? 0;
}

/** The milliseconds until it could be taken, 0: now. Takes nothing. */
export async function waitForCall(query: Query, budget: CountedBudget, at: number | null): Promise<number> {
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

/** Forgets the budgets from which nobody has taken for `idleMs`. */
export async function deleteIdleBudgets(query: Query, idleMs: number): Promise<void> {
  await query.run(
    `WITH gone AS (
       DELETE FROM rate_budget WHERE last_at < FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint - $1::bigint
       RETURNING name, subject_id
     )
     DELETE FROM rate_call USING gone WHERE rate_call.name = gone.name AND rate_call.subject_id = gone.subject_id`,
    idleMs,
  );
}
