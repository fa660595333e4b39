import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OperatorError } from '../../../src/service/core/errors.js';
import { planMigration } from '../../../src/service/operator/migrate.js';
import { MIGRATIONS, type Migration, SCHEMA_VERSION, VERSION_TABLE } from '../../../src/service/store/migrations.js';
import { openSqlite, prepareSchema } from '../../../src/service/store/sqlite.js';
import { loadSqlite, type SqliteConnection } from '../../../src/service/store/sqlite-driver.js';
import { startTestService } from '../../support/service.js';
import { AFTER_NEXT, NEXT, NEXT_VERSION, openSession } from './next-release.js';

/** Tables, columns and indexes, however they came about. */
function describeData(connection: SqliteConnection): unknown[] {
  const rows = connection
    .prepare(`SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name`)
    .all() as { type: string; name: string; sql: string }[];
  return rows.map(({ type, name, sql }) =>
    type === 'index'
      ? sql.replaceAll(/\s+/g, ' ')
      : ['table_xinfo', 'foreign_key_list'].map((facts) => [
          name,
          connection.prepare(`SELECT * FROM pragma_${facts}('${name}')`).all(),
        ]),
  );
}

describe('the data in a folder', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'asp-migrate-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  const withDatabase = async <T>(work: (connection: SqliteConnection) => T): Promise<T> => {
    const connection = (await loadSqlite())(join(directory, 'asp.sqlite'));
    try {
      return work(connection);
    } finally {
      connection.close();
    }
  };
  const ask = (sql: string): Promise<unknown[]> => withDatabase((connection) => connection.prepare(sql).all());
  const isRefused = async (message: string): Promise<void> => {
    const failure = await startTestService({ data: { directory } }).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(OperatorError);
    expect(failure).toMatchObject({ code: 'DATABASE_NOT_USABLE', message: expect.stringContaining(message) });
  };

  it('have the same tables and indexes if they are new as if all migrations since version 34 led there', async () => {
    const open = await loadSqlite();
    const [fresh, migrated] = [open(':memory:'), open(':memory:')];
    prepareSchema(fresh);
    const first = await readFile(new URL('schema-34.sqlite.sql', import.meta.url), 'utf8');
    migrated.exec(`${VERSION_TABLE}; INSERT INTO schema_version VALUES (34, 34); ${first}`);
    prepareSchema(migrated);
    expect(describeData(migrated)).toEqual(describeData(fresh));
    for (const connection of [fresh, migrated]) connection.close();
  });

  it('is refused with a reason if a build before the first release wrote it, and stays unchanged', async () => {
    const version = 33;
    await withDatabase((connection) => {
      prepareSchema(connection);
      connection.exec(`DROP TABLE schema_version; CREATE TABLE schema_version (version INTEGER NOT NULL);
        INSERT INTO schema_version VALUES (${version})`);
    });
    await isRefused(`by an early asp, before the first release (schema version ${version}; this one uses`);
    expect(await ask('SELECT * FROM schema_version')).toEqual([{ version }]);
  });

  it('is refused with a reason if a newer program wrote it that this one cannot read, and stays unchanged', async () => {
    await withDatabase((connection) => {
      prepareSchema(connection);
      prepareSchema(connection, true, [NEXT, AFTER_NEXT]);
    });
    await isRefused(`by a newer asp (schema version ${NEXT_VERSION + 1}; this one uses ${SCHEMA_VERSION})`);
  });

  it('is migrated when it is opened, and a program of the previous version can still use it', async () => {
    const before = await startTestService({ data: { directory } });
    await openSession(before);
    await before.stop();
    const [event] = (await ask('SELECT COUNT(*) AS count FROM event')) as [{ count: number }];
    expect(await planMigration({ directory }, [NEXT])).toMatchObject({
      version: SCHEMA_VERSION,
      target: NEXT_VERSION,
      inTheWay: 0,
      steps: [
        { to: NEXT_VERSION, what: 'add event.day', table: 'event', kind: 'change', is_new: false, rows: event.count },
        { kind: 'index' },
        { kind: 'fill' },
      ],
    });
    await (await openSqlite({ directory }, { migrations: [NEXT] })).close();
    await (await openSqlite({ directory }, { migrations: [NEXT] })).close();
    expect(await ask('SELECT version, readable_from FROM schema_version')).toEqual([
      { version: SCHEMA_VERSION, readable_from: MIGRATIONS.at(-1)?.readableFrom },
      { version: NEXT_VERSION, readable_from: SCHEMA_VERSION },
    ]);
    expect(await ask('SELECT 1 FROM event WHERE day IS NULL OR day <> created_at / 86400000')).toEqual([]);
    expect(await ask("SELECT name FROM sqlite_master WHERE name = 'event_by_day'")).toHaveLength(1);
    expect(await planMigration({ directory }, [NEXT])).toMatchObject({ version: NEXT_VERSION, steps: [] });
    expect((await planMigration({ directory }, [NEXT, AFTER_NEXT])).steps).toMatchObject([{ is_new: true, rows: 0 }]);
    const after = await startTestService({ data: { directory } });
    await openSession(after);
    await after.stop();
  });

  it('stays unreadable for a program that lacks what a migration before the last one removed', async () => {
    const last: Migration = { ...AFTER_NEXT, to: NEXT_VERSION + 2, readableFrom: SCHEMA_VERSION, steps: [] };
    await withDatabase((connection) => {
      prepareSchema(connection);
      prepareSchema(connection, true, [NEXT, AFTER_NEXT, last]);
    });
    await isRefused(`by a newer asp (schema version ${NEXT_VERSION + 2}`);
  });

  it('stays as it was if a step fails', async () => {
    await withDatabase((connection) => prepareSchema(connection));
    const broken: Migration = {
      ...NEXT,
      steps: [
        ...NEXT.steps,
        { kind: 'change', what: 'fail', table: 'event', sql: 'ALTER TABLE nothing ADD COLUMN day' },
      ],
    };
    await expect(openSqlite({ directory }, { migrations: [broken] })).rejects.toThrow('nothing');
    expect(await ask("SELECT 1 FROM pragma_table_info('event') WHERE name = 'day'")).toEqual([]);
    expect(await planMigration({ directory })).toMatchObject({ version: SCHEMA_VERSION, steps: [] });
  });
});
