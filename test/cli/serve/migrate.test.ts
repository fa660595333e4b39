import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { SCHEMA_VERSION } from '../../../src/service/store/migrations.js';
import { loadSqlite } from '../../../src/service/store/sqlite-driver.js';
import { createHome, type Home, json, startServe } from '../../acceptance/program.js';

describe('asp serve migrate', () => {
  let home: Home;
  let data: string;
  beforeEach(() => {
    home = createHome();
    data = join(home.directory, 'serve-data');
  });
  afterEach(() => home.dispose());

  const facts = { schema_version: SCHEMA_VERSION, target_version: SCHEMA_VERSION, in_the_way: 0, steps: [] };

  it('says that there is no data, and creates none', async () => {
    const { status, stdout } = await home.asp(['serve', 'migrate', '--data', data]);
    expect({ status, stdout }).toEqual({ status: 0, stdout: 'There is no data yet. asp serve creates it.\n' });
    expect(existsSync(data)).toBe(false);
  });

  it('finds nothing to do in data of its own version; --plan also does while a service is running', async () => {
    const service = await startServe(home);
    const plan = await home.asp(['serve', 'migrate', '--plan', '--data', data, '--json']);
    expect(json(plan.stdout), plan.stderr).toEqual({ data, ...facts, is_plan: true });
    await service.stop();
    const done = await home.asp(['serve', 'migrate', '--data', data, '--json']);
    expect(json(done.stdout), done.stderr).toEqual({ data, ...facts, is_plan: false });
    const { stdout } = await home.asp(['serve', 'migrate', '--plan', '--data', data]);
    expect(stdout).toBe(`There is nothing to do: the data has schema version ${SCHEMA_VERSION}.\n`);
  });

  it('says which tables are new', async () => {
    await (await startServe(home)).stop();
    const connection = (await loadSqlite())(join(data, 'asp.sqlite'));
    connection.exec('DROP TABLE share_link; UPDATE schema_version SET version = 36');
    connection.close();
    const { status, stdout } = await home.asp(['serve', 'migrate', '--plan', '--data', data]);
    expect({ status, first: stdout.split('\n')[0] }).toEqual({
      status: 0,
      first: '37  add share_link (share_link: new table)',
    });
  });

  it.each([
    ['a service in memory', ['--data', 'memory'], 'nothing to migrate'],
    ['a database that does not respond', ['--database', 'postgres://asp@127.0.0.1:1/asp'], 'nothing listens there'],
  ])('refuses %s with the reason', async (_what, words, reason) => {
    const { status, stdout, stderr } = await home.asp(['serve', 'migrate', ...words]);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toContain(reason);
  });
});
