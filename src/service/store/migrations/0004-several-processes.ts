import type { Migration } from './migration.js';

/**
 * Which services use the data, by when each last said so, and, where there can be several, the calls that the rate limits
 * count. Of these a budget remembers its last N in N slots, which are filled in a circle: the slot that comes next holds
 * the oldest, and it alone decides. Losing the counts in a crash of the database harms nobody, so they are not logged.
 */
export const severalProcesses: Migration = {
  version: 4,
  statements: [
    `CREATE TABLE server_process (
      id TEXT PRIMARY KEY,
      seen_at BIGINT NOT NULL
    )`,
    {
      sqlite: undefined,
      postgres: `CREATE UNLOGGED TABLE rate_budget (
        name TEXT NOT NULL,
        subject_id TEXT NOT NULL,
        taken BIGINT NOT NULL,
        last_at BIGINT NOT NULL,
        PRIMARY KEY (name, subject_id)
      )`,
    },
    {
      sqlite: undefined,
      postgres: `CREATE UNLOGGED TABLE rate_call (
        name TEXT NOT NULL,
        subject_id TEXT NOT NULL,
        slot BIGINT NOT NULL,
        at BIGINT NOT NULL,
        PRIMARY KEY (name, subject_id, slot)
      )`,
    },
    { sqlite: undefined, postgres: takeCalls() },
  ],
};

/**
 * Takes one call from each budget, or from none. Gives the milliseconds to wait; 0: taken. Without `given_at` the time is
 * that of the database, which is one for all services; it is read when the budgets are held, so that it never runs back.
 */
function takeCalls(): string {
  return `CREATE FUNCTION take_calls(budgets json, given_at bigint) RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE
      wanted record;
      moment bigint;
      freeing bigint;
      wait bigint := 0;
    BEGIN
      FOR wanted IN SELECT b.name, b.subject_id FROM json_to_recordset(budgets) AS b (name text, subject_id text)
        ORDER BY b.name, b.subject_id LOOP
        INSERT INTO rate_budget (name, subject_id, taken, last_at) VALUES (wanted.name, wanted.subject_id, 0, 0)
          ON CONFLICT (name, subject_id) DO UPDATE SET last_at = rate_budget.last_at;
      END LOOP;
      moment := COALESCE(given_at, FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint);
      FOR wanted IN SELECT b.window_ms, rate_call.at
        FROM json_to_recordset(budgets) AS b (name text, subject_id text, calls bigint, window_ms bigint)
          JOIN rate_budget ON rate_budget.name = b.name AND rate_budget.subject_id = b.subject_id
          JOIN rate_call ON rate_call.name = b.name AND rate_call.subject_id = b.subject_id
            AND rate_call.slot = rate_budget.taken % b.calls LOOP
        freeing := wanted.at + wanted.window_ms;
        IF freeing > moment THEN wait := GREATEST(wait, freeing - moment); END IF;
      END LOOP;
      IF wait > 0 THEN RETURN wait; END IF;
      FOR wanted IN
        SELECT b.name, b.subject_id, b.calls
        FROM json_to_recordset(budgets) AS b (name text, subject_id text, calls bigint) LOOP
        INSERT INTO rate_call (name, subject_id, slot, at)
          SELECT wanted.name, wanted.subject_id, taken % wanted.calls, moment FROM rate_budget
          WHERE name = wanted.name AND subject_id = wanted.subject_id
          ON CONFLICT (name, subject_id, slot) DO UPDATE SET at = excluded.at;
        UPDATE rate_budget SET taken = taken + 1, last_at = moment
          WHERE name = wanted.name AND subject_id = wanted.subject_id;
      END LOOP;
      RETURN 0;
    END
  $$`;
}
