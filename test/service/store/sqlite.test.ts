import {
  closeSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import {
  applySettings,
  assertSettings,
  openSqlite,
  prepareSchema,
  readSettings,
} from '../../../src/service/store/sqlite.js';
import { isSafeSqlite, loadSqlite, type SqliteConnection } from '../../../src/service/store/sqlite-driver.js';
import { addNotes, names, put } from './notes.js';

describe('data directory', () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'asp-store-'));
  });
  afterEach(() => {
    rmSync(directory, { recursive: true, force: true });
  });

  it('and its files are accessible only to their owner', async () => {
    const data = join(directory, 'deep', 'data');
    const database = await openSqlite({ directory: data });
    await addNotes(database);
    await put(database, 'a');
    expect(statSync(data).mode & 0o777).toBe(0o700);
    for (const file of ['asp.sqlite', 'asp.sqlite-wal', 'asp.sqlite-shm', 'asp.lock'])
      expect([file, statSync(join(data, file)).mode & 0o777]).toEqual([file, 0o600]);
    await database.close();
  });

  it('contains after a restart what was written before', async () => {
    const first = await openSqlite({ directory });
    await addNotes(first);
    await put(first, 'a');
    await first.close();
    const second = await openSqlite({ directory });
    expect(await names(second)).toEqual(['a']);
    await second.close();
  });

  it('after a stop, a copy of asp.sqlite alone holds everything that was written', async () => {
    const database = await openSqlite({ directory });
    await database.write((query) => query.run('CREATE TABLE copied (a INTEGER)'));
    await database.write((query) => query.run('INSERT INTO copied VALUES (1), (2), (3)'));
    await database.close();
    const copy = `${directory}-copy`;
    mkdirSync(copy);
    copyFileSync(join(directory, 'asp.sqlite'), join(copy, 'asp.sqlite'));
    const again = await openSqlite({ directory: copy });
    expect(await again.read((query) => query.all('SELECT a FROM copied'))).toHaveLength(3);
    await again.close();
    rmSync(copy, { recursive: true });
  });

  it('is refused to a second user, and free again once the first has closed it', async () => {
    const first = await openSqlite({ directory });
    await expect(openSqlite({ directory })).rejects.toThrow(`Another process is using the data in ${directory}.`);
    await first.close();
    const second = await openSqlite({ directory });
    await second.close();
  });

  it('written by a newer program is refused and left unchanged', async () => {
    await (await openSqlite({ directory })).close();
    const connection = (await loadSqlite())(join(directory, 'asp.sqlite'));
    connection.exec('INSERT INTO schema_version VALUES (99, 99)');
    connection.close();
    await expect(openSqlite({ directory })).rejects.toThrow('written by a newer asp (schema version 99');
    await expect(openSqlite({ directory })).rejects.toThrow('written by a newer asp');
  });

  /** Returns data whose process was killed while using it. */
  const killed = async (): Promise<string> => {
    const copy = join(directory, 'killed');
    mkdirSync(copy);
    const data = join(directory, 'data');
    const database = await openSqlite({ directory: data });
    await addNotes(database);
    for (let count = 0; count < 500; count += 1) await put(database, `note ${count}`);
    for (const name of readdirSync(data)) copyFileSync(join(data, name), join(copy, name));
    await database.close();
    return copy;
  };

  it('is refused when its write-ahead log is missing, which had the last writes', async () => {
    const data = await killed();
    rmSync(join(data, 'asp.sqlite-wal'));
    const before = readFileSync(join(data, 'asp.sqlite'));
    await expect(openSqlite({ directory: data })).rejects.toThrow(
      /asp\.sqlite-wal is missing.* delete .*asp\.sqlite-shm/,
    );
    expect(readFileSync(join(data, 'asp.sqlite')).equals(before)).toBe(true);
    rmSync(join(data, 'asp.sqlite-shm'));
    await (await openSqlite({ directory: data })).close();
  });

  it('that is damaged is refused, with an error that says how to recover', async () => {
    const pages: [string, (path: string) => void][] = [
      ['a page in the middle', (path) => overwrite(path, 4096 * 20, 4096 * 8)],
      ['the first page', (path) => overwrite(path, 0, 100)],
      ['the end', (path) => truncateSync(path, 4096 * 10)],
    ];
    for (const [what, harm] of pages) {
      const data = join(directory, what);
      await (await openSqlite({ directory: data })).close();
      for (const name of ['asp.sqlite-wal', 'asp.sqlite-shm']) rmSync(join(data, name), { force: true });
      harm(join(data, 'asp.sqlite'));
      const opening = openSqlite({ directory: data });
      await expect(opening, what).rejects.toMatchObject({ code: 'DATABASE_NOT_USABLE' });
      await expect(opening, what).rejects.toThrow(/asp\.sqlite is damaged \(.+\)\. .*asp serve restore/);
    }
  });

  it('that has lost its version is refused as damaged', async () => {
    await (await openSqlite({ directory })).close();
    const connection = (await loadSqlite())(join(directory, 'asp.sqlite'));
    connection.exec('DELETE FROM schema_version');
    connection.close();
    await expect(openSqlite({ directory })).rejects.toThrow('is damaged (it does not report its version)');
  });

  it('is locked again if its lock file is removed, before another process can use it', async () => {
    const first = await openSqlite({ directory });
    rmSync(join(directory, 'asp.lock'));
    first.keepLock?.();
    await expect(openSqlite({ directory })).rejects.toMatchObject({ code: 'DATA_IN_USE' });
    first.keepLock?.();
    expect(statSync(join(directory, 'asp.lock')).mode & 0o777).toBe(0o600);
    rmSync(join(directory, 'asp.lock'));
    const second = await openSqlite({ directory });
    expect(() => first.keepLock?.()).toThrow(expect.objectContaining({ code: 'DATA_IN_USE' }));
    await second.close();
    await first.close();
  });

  it('takes no write while its database file is not in its place, and continues when it is back', async () => {
    const database = await openSqlite({ directory });
    await addNotes(database);
    await put(database, 'before');
    const [path, away] = [join(directory, 'asp.sqlite'), join(directory, 'away')];
    renameSync(path, away);
    expect(String(database.writeFault())).toContain(`${path} is gone`);
    await expect(put(database, 'lost')).rejects.toMatchObject({
      cause: { message: expect.stringContaining('is gone') },
    });
    writeFileSync(path, '');
    expect(String(database.writeFault())).toContain(`${path} was replaced`);
    await expect(put(database, 'lost')).rejects.toThrow('not committed');
    renameSync(away, path);
    expect(database.writeFault()).toBeInstanceOf(Error);
    await put(database, 'after');
    expect(await names(database)).toEqual(['after', 'before']);
    expect(database.writeFault()).toBeUndefined();
    await database.close();
  });

  it('takes no write if its file disappears before the first one', async () => {
    const database = await openSqlite({ directory });
    rmSync(join(directory, 'asp.sqlite'));
    await expect(put(database, 'lost')).rejects.toThrow('is gone');
    await database.close();
  });

  it('takes no write while its log is not in its place, and loses none that it took', async () => {
    const database = await openSqlite({ directory });
    await addNotes(database);
    await put(database, 'before');
    const log = join(directory, 'asp.sqlite-wal');
    rmSync(log);
    expect(String(database.writeFault())).toContain(`${log} is gone`);
    await expect(put(database, 'lost')).rejects.toThrow('not committed');
    expect(await names(database)).toEqual(['before']);
    await database.close();
    const again = await openSqlite({ directory });
    expect(await names(again)).toEqual(['before']);
    await put(again, 'after');
    await again.close();
  });

  it('gets its schema completely or not at all', async () => {
    const connection = (await loadSqlite())(join(directory, 'half.sqlite'));
    connection.exec('CREATE TABLE absence (a INTEGER)');
    expect(() => prepareSchema(connection)).toThrow('already exists');
    expect(connection.prepare("SELECT name FROM sqlite_master WHERE name = 'account'").all()).toEqual([]);
    connection.exec('DROP TABLE absence');
    prepareSchema(connection);
    prepareSchema(connection);
    expect(connection.prepare('SELECT version FROM schema_version').all()).toHaveLength(1);
    connection.close();
  });
});

function overwrite(path: string, start: number, length: number): void {
  const file = openSync(path, 'r+');
  writeSync(file, Buffer.alloc(length, 0xff), 0, length, start);
  closeSync(file);
}

/**
 * Opens connections that note how each commit is flushed: 1 is written, 2 is on disk; and how many snapshots are begun.
 * `isStuck`: ROLLBACK fails.
 */
async function watchConnections() {
  const open = await loadSqlite();
  const flushes: number[] = [];
  const state = { flushes, snapshots: 0, isStuck: false };
  const openConnection = (path: string): SqliteConnection => {
    const real = open(path);
    return {
      get isTransaction() {
        return real.isTransaction;
      },
      exec: (sql) => real.exec(sql),
      close: () => real.close(),
      prepare(sql) {
        const statement = real.prepare(sql);
        return {
          all: (...parameters) => statement.all(...parameters),
          get: (...parameters) => statement.get(...parameters),
          run(...parameters) {
            if (sql === 'BEGIN') state.snapshots += 1;
            if (sql === 'ROLLBACK' && state.isStuck) throw new Error('stuck');
            if (sql === 'COMMIT') {
              const { synchronous } = readSettings(real);
              if (state.isStuck) throw new Error('not committed');
              flushes.push(synchronous);
            }
            return statement.run(...parameters);
          },
        };
      },
    };
  };
  return { state, openConnection };
}

describe('a volatile write', () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'asp-store-'));
  });
  afterEach(() => {
    rmSync(directory, { recursive: true, force: true });
  });

  it('is not flushed alone, but every other write is, also one in the same commit or after a failure', async () => {
    const { state, openConnection } = await watchConnections();
    const database = await openSqlite({ directory }, { openConnection });
    await addNotes(database);
    const volatile = (name: string): Promise<number> | undefined =>
      database.writeVolatile?.((query) => query.run('INSERT INTO note (name, value) VALUES ($1, 1)', name));
    state.flushes.length = 0;
    await volatile('a');
    await Promise.all([volatile('b'), volatile('c')]);
    await put(database, 'd');
    await Promise.all([volatile('e'), put(database, 'f')]);
    expect(state.flushes).toEqual([1, 1, 2, 2]);

    state.isStuck = true;
    await expect(volatile('g')).rejects.toThrow('not committed');
    // The transaction is still open, and the setting cannot change in it.
    await expect(put(database, 'h')).rejects.toThrow('not committed');
    state.isStuck = false;
    await put(database, 'i').catch(() => {});
    await put(database, 'j');
    expect(state.flushes.slice(4).every((flush) => flush === 2)).toBe(true);
    expect((await names(database)).filter((name) => 'gh'.includes(name))).toEqual([]);
    expect(await names(database)).toContain('j');
    await database.close();
  });
});

describe('reads that wait for their turn', () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'asp-store-'));
  });
  afterEach(() => {
    rmSync(directory, { recursive: true, force: true });
  });

  it('share one snapshot, which shows all that was written before the last of them came', async () => {
    const { state, openConnection } = await watchConnections();
    const database = await openSqlite({ directory }, { openConnection });
    await addNotes(database);
    await put(database, 'a');
    state.snapshots = 0;
    let goOn = (): void => {};
    const held = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const list = 'SELECT name FROM note ORDER BY name';
    const first = database.read(async (query) => {
      const before = await query.all(list);
      await held;
      return [before, await query.all(list)];
    });
    const second = names(database);
    await put(database, 'b');
    const third = names(database);
    const broken = database.read((query) => query.all('SELECT name FROM nowhere'));
    const refused = expect(broken).rejects.toThrow('nowhere');
    const last = names(database);
    goOn();
    await refused;
    expect(await first).toEqual([[{ name: 'a' }], [{ name: 'a' }]]);
    expect([await third, await last]).toEqual([
      ['a', 'b'],
      ['a', 'b'],
    ]);
    expect((await second).at(0)).toBe('a');
    expect(state.snapshots).toBe(2);
    await put(database, 'c');
    expect(await names(database)).toEqual(['a', 'b', 'c']);
    await database.close();
  });

  it('never see an old snapshot that could not be ended', async () => {
    const { state, openConnection } = await watchConnections();
    const database = await openSqlite({ directory }, { openConnection });
    await addNotes(database);
    state.isStuck = true;
    expect(await names(database)).toEqual([]);
    await expect(names(database)).rejects.toThrow('transaction');
    state.isStuck = false;
    await names(database).catch(() => {});
    await put(database, 'a');
    expect(await names(database)).toEqual(['a']);
    await database.close();
  });
});

describe('The settings that durability depends on', () => {
  it('are read back from the connection', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'asp-store-'));
    const connection = (await loadSqlite())(join(directory, 'a.sqlite'));
    applySettings(connection);
    const settings = readSettings(connection);
    expect(settings).toMatchObject({ journal_mode: 'wal', synchronous: 2, foreign_keys: 1 });
    expect(settings.busy_timeout).toBeGreaterThanOrEqual(5000);
    expect(() => assertSettings(settings, false)).not.toThrow();
    for (const worse of [{ synchronous: 1 }, { journal_mode: 'delete' }, { foreign_keys: 0 }, { busy_timeout: 100 }])
      expect(() => assertSettings({ ...settings, ...worse }, false)).toThrow('durable writes need');
    expect(() => assertSettings({ ...settings, version: '3.45.1' }, false)).toThrow('can corrupt data');
    connection.close();
    rmSync(directory, { recursive: true });
  });

  it.each([
    ['3.6.23', true],
    ['3.7.0', false],
    ['3.44.5', false],
    ['3.44.6', true],
    ['3.45.0', false],
    ['3.50.6', false],
    ['3.50.7', true],
    ['3.51.2', false],
    ['3.51.3', true],
    ['3.53.0', true],
    ['4.0.0', true],
  ])('call SQLite %s safe: %s', (version, isSafe) => {
    expect(isSafeSqlite(version)).toBe(isSafe);
  });
});
