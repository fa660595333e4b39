import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../../kit/clock.js';
import { DATABASE_FILE } from '../store/data-directory.js';
import { listPending, MIGRATIONS, type PlannedStep, planSteps, versionAfter } from '../store/migrations.js';
import { openSqlite, planSqlite } from '../store/sqlite.js';

/** Where the data of a service is. */
export type DataLocation = { readonly directory: string } | { readonly databaseUrl: string };

/** What migrating the data of a service means. */
export interface MigrationPlan {
  /** The version of its schema; undefined: there is no data. */
  readonly version: number | undefined;
  /** The version that this program needs. */
  readonly target: number;
  readonly steps: readonly PlannedStep[];
  /** Running services that could not go on. */
  readonly inTheWay: number;
}

/** Lists the steps that the data lacks. Changes nothing, and may run while a service does. */
export async function planMigration(location: DataLocation, migrations = MIGRATIONS): Promise<MigrationPlan> {
  const target = versionAfter(migrations);
  const none = { version: undefined, target, steps: [], inTheWay: 0 };
  if ('directory' in location) {
    const file = join(location.directory, DATABASE_FILE);
    return existsSync(file) ? { target, inTheWay: 0, ...(await planSqlite(file, migrations)) } : none;
  }
  const { countInTheWay, usePostgres } = await import('../store/migrate-postgres.js');
  const plan = await usePostgres(location.databaseUrl, async ({ query, version }) => {
    const pending = listPending(version, migrations);
    const counts: number[] = [];
    for (const migration of pending) counts.push(await countInTheWay(query, migration));
    return {
      version: version.version,
      target,
      steps: await planSteps(query, pending),
      inTheWay: Math.max(0, ...counts),
    };
  });
  return plan ?? none;
}

/**
 * Migrates the data of a service: in a folder while no service uses it, in PostgreSQL while services go on. `onStep` is
 * called before each step there. Throws an `OperatorError` that says why it could not.
 */
export async function migrate(
  location: DataLocation,
  onStep: (to: number, what: string) => void,
  migrations = MIGRATIONS,
): Promise<void> {
  // Opening it migrates it.
  if ('directory' in location) return (await openSqlite(location, { mustExist: true, migrations })).close();
  const { migratePostgres, usePostgres } = await import('../store/migrate-postgres.js');
  await usePostgres(location.databaseUrl, (data) =>
    migratePostgres(data, { clock: systemClock, migrations, onStep: (to, { what }) => onStep(to, what) }),
  );
}
