import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { DatabaseUnusableError } from '../../../../src/service/store/database.js';
import { hasSecret, readDatabaseAddress } from '../../../../src/service/store/database-address.js';
import { MIGRATIONS } from '../../../../src/service/store/migrate.js';
import { openPostgres } from '../../../../src/service/store/postgres-database.js';
import { createClient } from '../../../../src/service/store/postgres-driver.js';
import { preparePostgres } from '../../../../src/service/store/postgres-migrate.js';
import { assertSettings, type PostgresSettings } from '../../../../src/service/store/postgres-settings.js';
import { POSTGRES_URL } from '../../../support/postgres-server.js';
import { createSchema, type Schema } from '../../../support/stores.js';

let schema: Schema;
beforeEach(() => {
  schema = createSchema();
});
afterEach(() => schema.drop());

async function ask<Row>(sql: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: readDatabaseAddress(schema.url).connectionString });
  await client.connect();
  try {
    return (await client.query(sql)).rows as Row[];
  } finally {
    await client.end();
  }
}

describe('several services that start at the same moment', () => {
  it('migrate the schema once, and all of them run', async () => {
    const opened = await Promise.all(Array.from({ length: 6 }, () => openPostgres(schema.url)));
    const versions = await ask<{ version: number }>('SELECT version FROM schema_version ORDER BY version');
    expect(versions.map((row) => row.version)).toEqual(MIGRATIONS.map((migration) => migration.version));
    expect(await ask('SELECT secret FROM service_key')).toHaveLength(1);
    await Promise.all(opened.map((database) => database.close()));
  });
});

describe('migrations', () => {
  const one = { version: 1, statements: ['CREATE TABLE one (a INTEGER)'] };
  const bad = { version: 2, statements: ['CREATE TABLE two (a INTEGER)', 'CREATE TABLE one (a INTEGER)'] };

  it('that fail leave nothing behind', async () => {
    const address = readDatabaseAddress(schema.url);
    const client = createClient(address);
    await client.connect();
    await expect(preparePostgres(client, address, [one, bad])).rejects.toThrow('already exists');
    expect(await ask(`SELECT 1 FROM pg_tables WHERE schemaname = current_schema()`)).toEqual([]);
    await preparePostgres(client, address, [one]);
    await preparePostgres(client, address, [one]);
    expect(await ask('SELECT version FROM schema_version')).toEqual([{ version: 1 }]);
    await client.end();
  });

  it('of a newer program are refused, and not touched', async () => {
    await (await openPostgres(schema.url)).close();
    await ask('INSERT INTO schema_version (version) VALUES (99)');
    await expect(openPostgres(schema.url)).rejects.toThrow('written by a newer asp (schema version 99');
    await expect(openPostgres(schema.url)).rejects.toBeInstanceOf(DatabaseUnusableError);
  });
});

describe('a database that cannot be used says why, without its secrets', () => {
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
    ['a database that is not there', altered((url) => (url.pathname = `/${none}`)), /it has no database of this name/],
    ['a user that is not there', altered((url) => (url.username = none)), /(refused the user|does not let this user)/],
    ['another kind of URL', 'mysql://root@localhost/x', /not given as postgres:/],
    ['a schema that is none', altered((url) => url.searchParams.set('search_path', 'a, b')), /one plain schema name/],
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
    expect(refusal).toBeInstanceOf(DatabaseUnusableError);
    expect(refusal.message).not.toContain('CANARY');
  });

  const good: PostgresSettings = {
    version: 150_020,
    synchronous_commit: 'on',
    fsync: 'on',
    full_page_writes: 'on',
    encoding: 'UTF8',
    is_standby: 0,
    schema: 'public',
  };
  it.each<[Partial<PostgresSettings>, RegExp]>([
    [{ version: 130_022 }, /PostgreSQL 13, and 14 or later/],
    [{ synchronous_commit: 'off' }, /loses acknowledged writes/],
    [{ fsync: 'off' }, /fsync is off/],
    [{ full_page_writes: 'off' }, /full_page_writes/],
    [{ encoding: 'SQL_ASCII' }, /not UTF8/],
    [{ is_standby: 1 }, /a standby/],
    [{ schema: null }, /names no schema/],
  ])('settings that lose data: %j', (worse, message) => {
    expect(assertSettings(good)).toBe('public');
    for (const level of ['on', 'local', 'remote_write', 'remote_apply'])
      expect(assertSettings({ ...good, synchronous_commit: level })).toBe('public');
    expect(() => assertSettings({ ...good, ...worse })).toThrow(message);
  });

  it('is shown without password and parameters', () => {
    const url = 'postgres://asp:s3cret@db.example:5433/asp?search_path=blue&password=x&sslmode=require';
    expect(readDatabaseAddress(url).shown).toBe('postgres://asp@db.example:5433/asp (schema blue)');
    expect(hasSecret(url)).toBe(true);
    expect(hasSecret('postgres://asp:x@h/d')).toBe(true);
    expect(hasSecret('postgres://asp@h/d?sslpassword=x')).toBe(true);
    expect(hasSecret('postgres://asp@h/d?search_path=blue')).toBe(false);
  });
});
