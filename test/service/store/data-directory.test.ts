import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { openSqlite } from '../../../src/service/store/sqlite.js';

const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8);

describe('the data directory', () => {
  let folder: string;
  let directory: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'asp-directory-'));
    directory = join(folder, 'data');
  });
  afterEach(() => rm(folder, { recursive: true }));

  it('and all its files become accessible only to their owner, whatever the umask and their old mode', async () => {
    const umask = process.umask(0);
    try {
      const database = await openSqlite({ directory });
      await database.write((transaction) => transaction.run('DELETE FROM account'));
      for (const name of ['asp.sqlite', 'asp.sqlite-wal', 'asp.sqlite-shm', 'asp.lock'])
        expect(modeOf(join(directory, name)), name).toBe('600');
      expect(modeOf(directory)).toBe('700');
      await database.close();
      chmodSync(join(directory, 'asp.sqlite'), 0o644);
      await (await openSqlite({ directory })).close();
      expect(modeOf(join(directory, 'asp.sqlite'))).toBe('600');
    } finally {
      process.umask(umask);
    }
  });

  it('is refused if its group or everyone can write to it', async () => {
    mkdirSync(directory);
    for (const mode of [0o777, 0o770, 0o775, 0o2770]) {
      chmodSync(directory, mode);
      await expect(openSqlite({ directory }), mode.toString(8)).rejects.toMatchObject({ code: 'DATABASE_NOT_USABLE' });
      expect(existsSync(join(directory, 'asp.sqlite'))).toBe(false);
    }
    chmodSync(directory, 0o755);
    await (await openSqlite({ directory })).close();
    chmodSync(directory, 0o1777);
    await (await openSqlite({ directory })).close();
  });

  for (const name of ['asp.sqlite', 'asp.sqlite-wal', 'asp.lock'])
    it(`is refused when ${name} is a link to somewhere else`, async () => {
      const precious = join(folder, 'precious');
      writeFileSync(precious, 'precious', { mode: 0o644 });
      mkdirSync(directory);
      symlinkSync(precious, join(directory, name));
      await expect(openSqlite({ directory })).rejects.toThrow('is a link, which asp does not follow');
      expect([readFileSync(precious, 'utf8'), modeOf(precious)]).toEqual(['precious', '644']);
    });
});
