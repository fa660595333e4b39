import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { StartError } from '../../../src/service/start-error.js';
import { MIGRATIONS, migrate } from '../../../src/service/store/migrate.js';
import { loadSqlite, type SqliteConnection } from '../../../src/service/store/sqlite-driver.js';
import { operate } from '../../support/actors.js';
import { list } from '../../support/json.js';
import { startTestService } from '../../support/service.js';

const NEWEST = MIGRATIONS.at(-1)?.version ?? 0;

describe('data of another version of the program', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'asp-upgrade-'));
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

  for (const { version } of MIGRATIONS)
    it(`is brought up from version ${version}, with what it holds`, async () => {
      await withDatabase((connection) => {
        migrate(connection, MIGRATIONS.slice(0, version));
        connection.exec(`INSERT INTO account (id, username, display_name, password_hash, tier, is_local, created_at)
          VALUES ('acct_01ARZ3NDEKTSV4RRFFQ69G5FAV', 'old', 'Old', NULL, 'paid', 1, 1)`);
      });
      const service = await startTestService({ data: { directory } });
      await operate(service.operator, 'POST', '/agents', { handle: '@old.agent' });
      const agents = list(await operate(service.operator, 'GET', '/agents'), 'agents');
      expect(agents).toMatchObject([{ handle: '@old.agent' }]);
      await service.stop();
      const versions = await withDatabase((connection) =>
        connection.prepare('SELECT version FROM schema_version ORDER BY version').all(),
      );
      expect(versions).toEqual(MIGRATIONS.map((migration) => ({ version: migration.version })));
    });

  it('is refused when it is newer, in words that say so, and stays as it is', async () => {
    await withDatabase((connection) => {
      migrate(connection);
      connection.exec(`INSERT INTO schema_version (version) VALUES (${NEWEST + 1})`);
    });
    const failure = await startTestService({ data: { directory } }).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(StartError);
    expect(failure).toMatchObject({
      code: 'DATABASE_NOT_USABLE',
      message: expect.stringContaining(`newer asp (schema version ${NEWEST + 1}; this one knows ${NEWEST})`),
    });
    const { count } = await withDatabase(
      (connection) => connection.prepare('SELECT COUNT(*) AS count FROM schema_version').get() as { count: number },
    );
    expect(count).toBe(MIGRATIONS.length + 1);
  });
});
