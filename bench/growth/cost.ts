import { readFileSync } from 'node:fs';

import type { Database } from '../../src/service/core/database.js';

/**
 * Returns the CPU milliseconds spent so far by this process and, with PostgreSQL, by the server processes that serve
 * it.
 */
export type ReadCost = () => Promise<number>;

export async function costOf(databases: readonly Database[]): Promise<ReadCost> {
  const isShared = databases.some((database) => 'aside' in database);
  return async () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000 + (isShared ? await costOfServers(databases) : 0);
  };
}

/** Returns the CPU time of the server processes according to the kernel, in nanoseconds. */
async function costOfServers(databases: readonly Database[]): Promise<number> {
  let ms = 0;
  for (const database of databases) {
    const rows = await database.read((query) =>
      query.all<{ pid: number }>(
        'SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = current_setting($1)',
        'application_name',
      ),
    );
    for (const { pid } of rows) ms += Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
  }
  return ms;
}
