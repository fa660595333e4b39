import type { Query } from '../core/database.js';
import { SCHEMA_VERSION } from './migrations.js';

/** The database's own time in epoch milliseconds, which is the same for all processes. */
const NOW = 'FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint';

/**
 * Writes this process's heartbeat, in its own statement. Returns the time of the database, the processes that
 * have not stopped, and the position of the last event.
 */
export async function reportProcess(
  query: Query,
  processId: string,
  seenAt: number,
): Promise<{ readonly now: number; readonly others: readonly string[]; readonly position: number }> {
  const row = await query.get<{ now: number; others: string | null; position: number | null }>(
    `INSERT INTO server_process (id, seen_at, schema_version) VALUES ($1, $2, $3)
     ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at
     RETURNING ${NOW} AS now,
       (SELECT STRING_AGG(other.id, ' ') FROM server_process AS other WHERE other.id <> $1 AND other.seen_at > 0) AS others,
       (SELECT MAX(position) FROM event) AS position`,
    processId,
    seenAt,
    SCHEMA_VERSION,
  );
  return { now: row?.now ?? 0, others: row?.others?.split(' ') ?? [], position: row?.position ?? 0 };
}

/**
 * Whether it is this process's turn to do a chore: no other process has claimed it for `everyMs`. `now` null: the
 * database's own time.
 */
export async function takeTurn(query: Query, chore: string, everyMs: number, now: number | null): Promise<boolean> {
  const taken = await query.run(
    `INSERT INTO chore (name, taken_at) VALUES ($1, COALESCE($3::bigint, ${NOW}))
     ON CONFLICT (name) DO UPDATE SET taken_at = excluded.taken_at WHERE chore.taken_at <= excluded.taken_at - $2::bigint`,
    chore,
    Math.floor(everyMs),
    now,
  );
  return taken === 1;
}

/**
 * How many processes that reported within the last `forMs` expect a schema before `version`. Their clocks may be off by
 * half a minute.
 */
export async function countOlderProcesses(query: Query, version: number, forMs: number): Promise<number> {
  const row = await query.get<{ count: number }>(
    `SELECT COUNT(*)::int AS count FROM server_process WHERE schema_version < $1 AND seen_at > ${NOW} - $2::bigint`,
    version,
    forMs,
  );
  return row?.count ?? 0;
}
