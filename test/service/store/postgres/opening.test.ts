import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Query, Work } from '../../../../src/service/core/database.js';
import { startService } from '../../../../src/service/service.js';
import { hasSecret, readDatabaseAddress } from '../../../../src/service/store/database-address.js';
import { SCHEMA_VERSION } from '../../../../src/service/store/migrations.js';
import { openPostgres, shareConnections } from '../../../../src/service/store/postgres.js';
import { assertSettings, type PostgresSettings } from '../../../../src/service/store/postgres-driver.js';
import { POSTGRES_URL } from '../../../support/postgres-server.js';
import { type PrivatePostgres, startPrivatePostgres, whyNoPrivatePostgres } from '../../../support/private-postgres.js';
import { createSchema, emptySchema, type Schema, takeSchema } from '../../../support/stores.js';
import { until } from '../../../support/until.js';

let schema: Schema;
beforeEach(() => {
  schema = createSchema();
});
afterEach(() => schema.drop());

async function ask<Row>(sql: string, url = schema.url): Promise<Row[]> {
  const { connectionStrings, schema: name } = readDatabaseAddress(url);
  const client = new pg.Client({ connectionString: connectionStrings[0] });
  await client.connect();
  await client.query(`SET search_path = ${name}`);
  try {
    return (await client.query(sql)).rows as Row[];
  } finally {
    await client.end();
  }
}

describe('several services that start at the same moment', () => {
  it('create the schema once, and all of them run', async () => {
    const opened = await Promise.all(Array.from({ length: 6 }, () => openPostgres(schema.url)));
    expect(await ask('SELECT version FROM schema_version')).toEqual([{ version: SCHEMA_VERSION }]);
    expect(await ask('SELECT secret FROM service_key')).toHaveLength(1);
    await Promise.all(opened.map((database) => database.close()));
  });
});

describe('the schema that one test leaves to the next', () => {
  const SECRET = 'SELECT secret FROM service_key';

  it('is like a new one, with another secret', async () => {
    // Not one of those that all processes share, because another one would take it once it is empty.
    const used = schema;
    await (await openPostgres(used.url)).close();
    const fresh = { state: await describeSchema(used.url), secret: await ask(SECRET, used.url) };
    expect(fresh.state).toContain('event 0 rows, at null');
    await ask(
      `INSERT INTO account (id, username, display_name, tier, is_local, created_at, updated_at)
         VALUES ('a', 'a', 'a', 'standard', 0, 1, 1);
       INSERT INTO rate_budget (name, subject_id, taken, last_at) VALUES ('a', 'a', 1, 1);
       SELECT nextval(pg_get_serial_sequence('event', 'position'))`,
      used.url,
    );
    expect(await describeSchema(used.url)).not.toEqual(fresh.state);
    const client = new pg.Client({ connectionString: POSTGRES_URL });
    await client.connect();
    expect(await emptySchema(client, new URL(used.url).searchParams.get('search_path') ?? '')).toBe(true);
    await client.end();
    // The first service on it begins the epoch.
    expect(await describeSchema(used.url)).toEqual(fresh.state.map((line) => line.replace(/^epoch 1/, 'epoch 0')));
    expect(await ask(SECRET, used.url)).not.toEqual(fresh.secret);
    await (await openPostgres(used.url)).close();
    expect(await describeSchema(used.url)).toEqual(fresh.state);
  });

  it.each(['CREATE TABLE note (name TEXT)', 'ALTER TABLE account ADD COLUMN note TEXT'])(
    'is dropped after a test that changed it: %s',
    async (change) => {
      const used = takeSchema();
      await (await openPostgres(used.url)).close();
      await ask(change, used.url);
      await used.drop();
      const name = new URL(used.url).searchParams.get('search_path');
      expect(await ask(`SELECT FROM pg_namespace WHERE nspname = '${name}'`)).toEqual([]);
    },
  );
});

/** Returns how many rows each table has, and where its sequence is. */
async function describeSchema(url: string): Promise<string[]> {
  const tables = await ask<{ name: string }>(
    `SELECT relname AS name FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
     ORDER BY relname`,
    url,
  );
  const [sequence] = await ask<{ at: string | null }>(
    'SELECT last_value::text AS at FROM pg_sequences WHERE schemaname = current_schema()',
    url,
  );
  const lines: string[] = [];
  for (const { name } of tables) {
    const [count] = await ask<{ rows: number }>(`SELECT COUNT(*)::int AS rows FROM ${name}`, url);
    lines.push(`${name} ${count?.rows} rows${name === 'event' ? `, at ${sequence?.at}` : ''}`);
  }
  return lines;
}

describe('a database that is closed while it connects to listen', () => {
  it('is closed at once at any stage of the connection', async () => {
    for (const pauseMs of [0, 1, 2, 4, 8, 16, 32]) {
      const database = await openPostgres(schema.url);
      database.calls.listen(() => {});
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      await database.close();
    }
  });
});

describe('the limits of a service on its database', () => {
  it('apply to every connection, and divide the connections between requests and background work', async () => {
    const limits = { connections: 24, statementTimeoutMs: 3_000, lockTimeoutMs: 2_000, pageRows: 20 };
    const database = await openPostgres(schema.url, { limits });
    expect(database.pageRows).toBe(20);
    const settings = await database.read((query) =>
      query.get("SELECT current_setting('statement_timeout') AS statement, current_setting('lock_timeout') AS lock"),
    );
    expect(settings).toEqual({ statement: '3s', lock: '2s' });
    /** Each waits until `expected` run, and then a little for one too many. */
    const countAtOnce = async ({ read }: Work, expected: number): Promise<number> => {
      let [running, most] = [0, 0];
      let start = (): void => {};
      const areAllRunning = new Promise<void>((resolve) => {
        start = resolve;
      });
      const one = async (query: Query): Promise<void> => {
        running += 1;
        most = Math.max(most, running);
        if (running === expected) start();
        await areAllRunning;
        await query.get('SELECT pg_sleep(0.05)::text AS slept');
        running -= 1;
      };
      await Promise.all(Array.from({ length: 40 }, () => read(one)));
      return most;
    };
    expect([await countAtOnce(database, 16), await countAtOnce(database.behind, 4)]).toEqual([16, 4]);
    await database.close();
  });

  it.each([
    [7, 1, 2],
    [14, 8, 2],
    [104, 80, 20],
  ])('leave, of %i connections, %i for requests and %i for background work', (connections, requests, behind) => {
    expect(shareConnections(connections)).toEqual({ requests, behind });
  });
});

describe('the schema', () => {
  it('is created completely or not at all', async () => {
    await (await openPostgres(schema.url)).close();
    await ask('DROP TABLE schema_version');
    await expect(openPostgres(schema.url)).rejects.toMatchObject({
      code: 'DATABASE_NOT_USABLE',
      message: expect.stringMatching(/cannot be used: its schema has tables of another program\. .* search_path/),
    });
    expect(
      await ask("SELECT 1 FROM pg_tables WHERE tablename = 'schema_version' AND schemaname = current_schema()"),
    ).toEqual([]);
  });

  it('of which a part is missing, as after an interrupted restore, is refused with that reason', async () => {
    await (await openPostgres(schema.url)).close();
    await ask('DROP TABLE service_key');
    await expect(openPostgres(schema.url)).rejects.toMatchObject({
      code: 'DATABASE_NOT_USABLE',
      message: expect.stringMatching(/cannot be used: some of its tables are missing/),
    });
  });

  it.each([
    [99, 'written by a newer asp (schema version 99'],
    [7, 'written by an early asp, before the first release (schema version 7'],
  ])('of version %i is refused and left unchanged', async (version, message) => {
    await (await openPostgres(schema.url)).close();
    await ask(`UPDATE schema_version SET version = ${version}, readable_from = ${version}`);
    await expect(openPostgres(schema.url)).rejects.toThrow(message);
    await expect(openPostgres(schema.url)).rejects.toMatchObject({ code: 'DATABASE_NOT_USABLE' });
    expect(await ask('SELECT version FROM schema_version')).toEqual([{ version }]);
  });
});

describe('the error about an unusable database gives the reason without secrets:', () => {
  const altered = (change: (url: URL) => void): string => {
    const url = new URL(POSTGRES_URL);
    url.password = 'CANARY-password';
    change(url);
    return url.href;
  };
  const none = `none_${randomBytes(4).toString('hex')}`;
  it.each<[string, string, RegExp]>([
    ['a port where nothing listens', altered((url) => (url.port = '1')), /cannot be used: nothing listens there/],
    [
      'a host that is not there',
      altered((url) => (url.hostname = 'none.invalid')),
      /cannot be used: (there is no host|the name of its host)/,
    ],
    [
      'a database that is not there',
      altered((url) => (url.pathname = `/${none}`)),
      /it has no database with this name/,
    ],
    ['a user that is not there', altered((url) => (url.username = none)), /(refused the user|does not let this user)/],
    ['another kind of URL', 'mysql://root@localhost/x', /must look like postgres:/],
    ['an invalid schema', altered((url) => url.searchParams.set('search_path', 'a, b')), /single plain schema name/],
    [
      'a schema of the options that is not there',
      altered((url) => url.searchParams.set('options', `-c search_path=${none}`)),
      /names no schema that exists/,
    ],
    [
      'synchronous_commit off',
      altered((url) => url.searchParams.set('options', '-c synchronous_commit=off')),
      /synchronous_commit is off/,
    ],
  ])('%s', async (_, url, message) => {
    const refusal = await openPostgres(url).then(
      () => new Error('opened'),
      (error: Error) => error,
    );
    expect(refusal.message).toMatch(message);
    expect(refusal).toMatchObject({ code: 'DATABASE_NOT_USABLE' });
    expect(refusal.message).not.toContain('CANARY');
  });

  const good: PostgresSettings = {
    version: 150_020,
    synchronous_commit: 'on',
    fsync: 'on',
    full_page_writes: 'on',
    encoding: 'UTF8',
    is_standby: 0,
    is_read_only: 0,
    schema: 'public',
    autovacuum: 'on',
  };
  it.each<[Partial<PostgresSettings>, RegExp]>([
    [{ version: 130_022 }, /PostgreSQL 13; version 14 or later/],
    [{ synchronous_commit: 'off' }, /loses acknowledged writes/],
    [{ fsync: 'off' }, /fsync is off/],
    [{ full_page_writes: 'off' }, /full_page_writes/],
    [{ encoding: 'SQL_ASCII' }, /not UTF8/],
    [{ is_standby: 1 }, /a standby/],
    [{ is_read_only: 1 }, /read-only/],
    [{ schema: null }, /names no schema/],
  ])('settings that lose data: %j', (worse, message) => {
    expect(assertSettings(good)).toBe('public');
    for (const level of ['on', 'local', 'remote_write', 'remote_apply'])
      expect(assertSettings({ ...good, synchronous_commit: level })).toBe('public');
    expect(() => assertSettings({ ...good, ...worse })).toThrow(message);
  });

  it('a connection to a different schema than requested is refused', () => {
    expect(assertSettings(good, 'public')).toBe('public');
    expect(() => assertSettings(good, 'blue')).toThrow('the schema blue was requested, but the connection uses public');
  });

  it('several hosts are one address, even with different ports', () => {
    const address = readDatabaseAddress(
      'postgres://asp:x@a:1,b,[::1]:3/asp?target_session_attrs=read-write&sslmode=require',
    );
    expect(address.connectionStrings).toEqual([
      'postgres://asp:x@a:1/asp?sslmode=require',
      'postgres://asp:x@b/asp?sslmode=require',
      'postgres://asp:x@[::1]:3/asp?sslmode=require',
    ]);
    expect(address.shown).toBe('postgres://asp@a:1,b,[::1]:3/asp');
    expect(() => readDatabaseAddress('postgres://a/b?target_session_attrs=standby')).toThrow("is 'standby'");
  });

  it('the address is shown without password and parameters', () => {
    const url = 'postgres://asp:s3cret@db.example:5433/asp?search_path=blue&password=x&sslmode=require';
    expect(readDatabaseAddress(url).shown).toBe('postgres://asp@db.example:5433/asp (schema blue)');
    expect(hasSecret(url)).toBe(true);
    expect(hasSecret('postgres://asp:x@h/d')).toBe(true);
    expect(hasSecret('postgres://asp@h/d?sslpassword=x')).toBe(true);
    expect(hasSecret('postgres://asp@h/d?search_path=blue')).toBe(false);
  });
});

const whyNot = whyNoPrivatePostgres();
describe.skipIf(whyNot !== undefined)('a server whose autovacuum is off', () => {
  it('is used, and the log says so at each start until it is on', async () => {
    const server = await startPrivatePostgres();
    const warningsAtStart = async (): Promise<string[]> => {
      const warnings: string[] = [];
      const database = await openPostgres(server.url, { onWarning: (warning) => warnings.push(warning) });
      await database.close();
      return warnings;
    };
    const setAutovacuum = async (value: 'on' | 'off'): Promise<void> => {
      const client = new pg.Client({ connectionString: server.url });
      await client.connect();
      await client.query(`ALTER SYSTEM SET autovacuum = ${value}`);
      await client.end();
      await server.restartImmediately();
    };
    try {
      await setAutovacuum('off');
      expect(await warningsAtStart()).toEqual([expect.stringContaining('autovacuum is off')]);
      await setAutovacuum('on');
      expect(await warningsAtStart()).toEqual([]);
    } finally {
      await server.stop();
    }
  });
});

describe.skipIf(whyNot !== undefined)('a server with a standby', () => {
  const setUp = async (server: PrivatePostgres, ...settings: string[]): Promise<void> => {
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    for (const setting of settings) await client.query(`ALTER SYSTEM SET ${setting}`);
    await client.query('SELECT pg_reload_conf()');
    await client.end();
  };
  /** Creates a database for a user without any operator privileges. */
  const createOwner = async (server: PrivatePostgres): Promise<string> => {
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    await client.query('CREATE ROLE plain LOGIN');
    await client.query('CREATE DATABASE asp OWNER plain');
    await client.end();
    return `postgres://plain@127.0.0.1:${server.port}/asp`;
  };

  it('is used even if it does not wait for the standby, and the log says what a failover can lose', async () => {
    const server = await startPrivatePostgres();
    const standby = await server.createStandby();
    try {
      const url = await createOwner(server);
      const warningsAtStart = async (): Promise<string[]> => {
        const warnings: string[] = [];
        await (await openPostgres(url, { onWarning: (warning) => warnings.push(warning) })).close();
        return warnings;
      };
      await until('it streams', async () => (await warningsAtStart()).length === 1);
      expect(await warningsAtStart()).toEqual([expect.stringContaining('synchronous_standby_names is empty')]);
      await setUp(server, "synchronous_standby_names = '*'");
      await until('it waits for it', async () => (await warningsAtStart()).length === 0);
      await setUp(server, 'synchronous_commit = local');
      await until('it does not wait', async () => (await warningsAtStart()).length === 1);
      expect(await warningsAtStart()).toEqual([expect.stringContaining('synchronous_commit is local')]);
    } finally {
      await standby.stop();
      await server.stop();
    }
  });

  it('acknowledges nothing while the standby is down: a write’s outcome is unknown until it is back', async () => {
    const server = await startPrivatePostgres();
    try {
      const url = await createOwner(server);
      const limits = { statementTimeoutMs: 1_000, lockTimeoutMs: 500 };
      const database = await openPostgres(url, { limits });
      await database.write((transaction) => transaction.run('CREATE TABLE seen (number INTEGER)'));
      await setUp(server, "synchronous_standby_names = 'away'");
      await until(
        'it waits',
        async () =>
          (await database.aside.get<{ names: string }>("SELECT current_setting('synchronous_standby_names') AS names"))
            ?.names === 'away',
      );
      const write = database.write((transaction) => transaction.run('INSERT INTO seen VALUES (1)'));
      await expect(write).rejects.toMatchObject({ code: 'COMMIT_UNKNOWN' });
      const count = () =>
        database.read((query) => query.get<{ count: number }>('SELECT COUNT(*)::int AS count FROM seen'));
      expect(await count()).toEqual({ count: 0 });
      const service = { host: '127.0.0.1', port: 0, data: 'memory', databaseUrl: url, databaseLimits: limits } as const;
      await expect(startService(service)).rejects.toMatchObject({
        code: 'DATABASE_NOT_USABLE',
        message: expect.stringContaining('synchronous_standby_names'),
      });
      await setUp(server, "synchronous_standby_names = ''");
      await until('it is there after all', async () => (await count())?.count === 1);
      await database.close();
    } finally {
      await server.stop();
    }
  });
});
