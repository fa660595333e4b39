import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OperatorError } from '../../../src/service/core/errors.js';

import { SCHEMA_VERSION } from '../../../src/service/store/schema.js';
import { prepareSchema } from '../../../src/service/store/sqlite.js';
import { loadSqlite, type SqliteConnection } from '../../../src/service/store/sqlite-driver.js';
import { startTestService } from '../../support/service.js';

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

  it.each([
    ['newer', SCHEMA_VERSION + 1, 'by a newer asp'],
    ['older', SCHEMA_VERSION - 1, 'by an early asp, before the first release'],
  ])('is refused with a reason when it is %s, and stays unchanged', async (_age, version, by) => {
    await withDatabase((connection) => {
      prepareSchema(connection);
      connection.exec(`UPDATE schema_version SET version = ${version}`);
    });
    const failure = await startTestService({ data: { directory } }).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(OperatorError);
    expect(failure).toMatchObject({
      code: 'DATABASE_NOT_USABLE',
      message: expect.stringContaining(`${by} (schema version ${version}; this one uses ${SCHEMA_VERSION})`),
    });
    const versions = await withDatabase((connection) => connection.prepare('SELECT version FROM schema_version').all());
    expect(versions).toEqual([{ version }]);
  });
});
