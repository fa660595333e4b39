import { readFile } from 'node:fs/promises';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { migrate, planMigration } from '../../../../src/service/operator/migrate.js';
import { readDatabaseAddress } from '../../../../src/service/store/database-address.js';
import { SCHEMA_VERSION, VERSION_TABLE } from '../../../../src/service/store/migrations.js';
import { openPostgres } from '../../../../src/service/store/postgres.js';
import { toPostgres } from '../../../../src/service/store/prepare-postgres.js';
import type { Actor } from '../../../support/actors.js';
import { startTestService, type TestService } from '../../../support/service.js';
import { createSchema, type Schema } from '../../../support/stores.js';
import { until } from '../../../support/until.js';
import { AFTER_NEXT, NEXT, NEXT_VERSION, openSession } from '../next-release.js';

/** Sends messages one after the other, and returns how to end that. */
function keepSending(sender: Actor, sessionId: string) {
  let isOver = false;
  let sent = 0;
  const failures: unknown[] = [];
  const loop = async (): Promise<void> => {
    while (!isOver) {
      const answer = await sender.post(`/sessions/${sessionId}/messages`, { content: `number ${sent}` });
      if (answer.status === 201) sent += 1;
      else failures.push(answer.text);
    }
  };
  const running = loop();
  return {
    count: () => sent,
    async stop() {
      isOver = true;
      await running;
      return { sent, failures };
    },
  };
}

describe('the data in PostgreSQL', () => {
  let schema: Schema;
  let client: pg.Client;
  let service: TestService | undefined;
  beforeEach(async () => {
    schema = createSchema();
    const { connectionStrings, schema: name } = readDatabaseAddress(schema.url);
    client = new pg.Client({ connectionString: connectionStrings[0] });
    client.on('error', () => {});
    await client.connect();
    await client.query(`SET search_path = ${name}`);
  });
  afterEach(async () => {
    await client.end();
    await service?.stop();
    service = undefined;
    await schema.drop();
  });

  const ask = async (sql: string): Promise<unknown[]> => (await client.query(sql)).rows;
  const place = (): { databaseUrl: string } => ({ databaseUrl: schema.url });
  const start = async (): Promise<{ alice: Actor; sessionId: string }> => {
    service = await startTestService({ databaseUrl: schema.url, areLimitsOn: false });
    return openSession(service);
  };
  /** Copies of its first event, so that filling takes several turns. */
  const addEvents = (count: number) =>
    client.query(
      `INSERT INTO event (session_id, sequence, id, type, created_at, payload)
       SELECT 'copy', number, 'copy' || number, type, created_at, payload
       FROM generate_series(1, ${count}) AS number, (SELECT * FROM event ORDER BY position LIMIT 1) AS first`,
    );
  const expectMigrated = async (): Promise<void> => {
    const indexes = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('event_by_day')";
    expect(await ask(indexes)).toEqual([{ indisvalid: true }]);
    expect(await ask("SELECT 1 FROM event WHERE session_id = 'copy' AND day IS NULL")).toEqual([]);
    expect(await ask('SELECT MAX(version) AS version FROM schema_version')).toEqual([{ version: NEXT_VERSION }]);
  };

  const describeData = async (): Promise<unknown> => {
    const facts: unknown[] = [];
    for (const sql of [
      `SELECT table_name, column_name, data_type, collation_name, column_default, is_nullable, is_identity
         FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, 2`,
      'SELECT indexdef AS text FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1',
      `SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) AS text FROM pg_constraint
         WHERE connamespace = current_schema()::regnamespace ORDER BY 1`,
      'SELECT prosrc AS text FROM pg_proc WHERE pronamespace = current_schema()::regnamespace ORDER BY proname',
    ])
      facts.push(await ask(sql));
    return JSON.parse(
      JSON.stringify(facts)
        .replaceAll(/(\\n|\s)+/g, ' ')
        .replaceAll(/asp_test_\w+\./g, ''),
    );
  };
  /** Makes the data of the first version that can be migrated. */
  const makeFirst = async (): Promise<void> => {
    const name = readDatabaseAddress(schema.url).schema;
    await client.query(`DROP SCHEMA IF EXISTS ${name} CASCADE; CREATE SCHEMA ${name}`);
    const first = await readFile(new URL('../schema-34.postgres.sql', import.meta.url), 'utf8');
    const statements = [VERSION_TABLE, 'INSERT INTO schema_version VALUES (34, 34)', ...first.split(';\n\n')];
    await client.query(statements.map(toPostgres).join(';\n'));
  };

  it('has the same tables, indexes and functions if it is new as if all migrations since version 34 led there', async () => {
    await (await openPostgres(schema.url)).close();
    const fresh = await describeData();
    await makeFirst();
    await migrate(place(), () => {});
    expect(await describeData()).toEqual(fresh);
  });

  it('stays the same if every step since version 34 is taken again, as after an interruption', async () => {
    await makeFirst();
    await migrate(place(), () => {});
    const migrated = await describeData();
    await client.query('DELETE FROM schema_version WHERE version > 34');
    const taken: string[] = [];
    await migrate(place(), (_, what) => taken.push(what)).catch((error: unknown) => {
      throw new Error(`'${taken.at(-1)}' cannot be taken twice: write IF NOT EXISTS, or use addColumn`, {
        cause: error,
      });
    });
    expect(taken).not.toEqual([]);
    expect(await describeData()).toEqual(migrated);
  });

  it('is not migrated by a service that starts: the error names the command', async () => {
    await (await openPostgres(schema.url)).close();
    await expect(openPostgres(schema.url, { migrations: [NEXT] })).rejects.toThrow(
      `The database has schema version ${SCHEMA_VERSION}; this asp uses ${NEXT_VERSION}. Run this first, with the same settings: asp serve migrate.`,
    );
    expect(await ask('SELECT version FROM schema_version')).toEqual([{ version: SCHEMA_VERSION }]);
  });

  it('is migrated while a service of the previous version keeps running, and no request fails', async () => {
    const { alice, sessionId } = await start();
    await addEvents(5_000);
    await client.query('ANALYZE event');
    expect(await planMigration(place(), [NEXT])).toMatchObject({
      version: SCHEMA_VERSION,
      inTheWay: 0,
      steps: [{ kind: 'change', rows: expect.toSatisfy((rows) => rows >= 5_000) }, { kind: 'index' }, { kind: 'fill' }],
    });
    const { steps: planned } = await planMigration(place(), [NEXT, AFTER_NEXT]);
    expect(planned.map(({ is_new: isNew, rows }) => [isNew, rows])).toEqual([
      ...NEXT.steps.map(() => [false, expect.any(Number)]),
      [true, 0],
    ]);
    const sending = keepSending(alice, sessionId);
    const steps: string[] = [];
    await until('the first messages', async () => sending.count() > 5);
    await migrate(place(), (to, what) => steps.push(`${to} ${what}`), [NEXT]);
    const after = sending.count();
    await until('messages after it', async () => sending.count() > after + 5);
    expect(await sending.stop()).toMatchObject({ failures: [] });
    expect(steps).toEqual(NEXT.steps.map(({ what }) => `${NEXT_VERSION} ${what}`));
    await expectMigrated();
    // The new program opens it, and so does another one of the previous version.
    await (await openPostgres(schema.url, { migrations: [NEXT] })).close();
    await (await openPostgres(schema.url)).close();
  });

  it('is migrated once by two programs at the same moment', async () => {
    await start();
    await addEvents(5_000);
    const steps: string[] = [];
    await Promise.all([1, 2, 3].map(() => migrate(place(), (_, what) => steps.push(what), [NEXT])));
    expect(steps).toEqual(NEXT.steps.map(({ what }) => what));
    await expectMigrated();
  });

  it('is migrated by a second run after the first one lost its connection', async () => {
    await start();
    await addEvents(20_000);
    const losses: string[] = [];
    // Each run ends at another step.
    for (const last of NEXT.steps) {
      const run = migrate(
        place(),
        (_, what) => {
          if (what !== last.what) return;
          client.query(
            `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()
               AND objid = (SELECT (hashtextextended('asp ' || current_schema() || ' migration', 0) & 4294967295)::oid)`,
          );
        },
        [NEXT],
      );
      // It may have been quicker.
      await run.then(
        () => {},
        (error: unknown) => losses.push(String(error)),
      );
    }
    expect(losses.length).toBeGreaterThan(0);
    for (const loss of losses) expect(loss).toMatch(/Connection terminated|closed the connection|terminating/);
    await migrate(place(), () => {}, [NEXT]);
    await expectMigrated();
  });

  it('gets an index again whose construction was interrupted', async () => {
    await start();
    await addEvents(10);
    await client.query('ALTER TABLE event ADD COLUMN day BIGINT');
    await client.query('UPDATE event SET day = 1');
    await client.query('CREATE UNIQUE INDEX CONCURRENTLY event_by_day ON event (day)').catch(() => {});
    await migrate(place(), () => {}, [NEXT]);
    await expectMigrated();
  });

  it('is migrated after a transaction that holds a table, and requests do not wait for it in the meantime', async () => {
    const { alice, sessionId } = await start();
    await client.query('BEGIN; LOCK TABLE event IN ROW EXCLUSIVE MODE');
    const run = migrate(place(), () => {}, [NEXT]);
    const sending = keepSending(alice, sessionId);
    await until('many messages', async () => sending.count() > 100, 60_000);
    expect(await sending.stop()).toMatchObject({ failures: [] });
    await client.query('COMMIT');
    await run;
    await expectMigrated();
  });

  it('is not migrated while a service is running that would fail, and is once that has stopped', async () => {
    await start();
    expect(await planMigration(place(), [NEXT, AFTER_NEXT])).toMatchObject({ inTheWay: 1 });
    await expect(migrate(place(), () => {}, [NEXT, AFTER_NEXT])).rejects.toThrow(
      `A service that uses this database would fail after the migration to schema version ${NEXT_VERSION + 1}`,
    );
    expect(await ask('SELECT MAX(version) AS version FROM schema_version')).toEqual([{ version: NEXT_VERSION }]);
    await service?.stop();
    service = undefined;
    await migrate(place(), () => {}, [NEXT, AFTER_NEXT]);
    expect(await ask('SELECT version, readable_from FROM schema_version ORDER BY version DESC LIMIT 1')).toEqual([
      { version: NEXT_VERSION + 1, readable_from: NEXT_VERSION },
    ]);
    await expect(openPostgres(schema.url)).rejects.toThrow('The data was written by a newer asp');
  });
});
