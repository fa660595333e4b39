import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { Database } from '../../../src/service/core/database.js';
import { openStore, type StoreKind, TEST_STORE } from '../../support/stores.js';
import { addNotes, names, put } from './notes.js';

const KINDS: readonly StoreKind[] = TEST_STORE === 'postgres' ? ['postgres'] : ['file', 'memory'];

describe.each(KINDS)('database in %s', (kind) => {
  /** Writes that arrive together share a transaction. */
  const isGrouped = kind !== 'postgres';
  let database: Database;
  const faults: unknown[] = [];

  beforeEach(async () => {
    faults.length = 0;
    database = await openStore(kind, { onFault: (error) => faults.push(error) });
    await addNotes(database);
  });
  afterEach(() => database.close());

  it('shows a write to every read that begins after it resolved', async () => {
    for (let i = 0; i < 50; i += 1) {
      await put(database, `n${i}`);
      expect(await names(database)).toHaveLength(i + 1);
    }
  });

  it('reads parameters by number, in any order and repeatedly', async () => {
    const row = await database.read((query) =>
      query.get<{ a: string; b: number; c: string; d: null }>(
        'SELECT CAST($2 AS TEXT) AS a, CAST($1 AS BIGINT) AS b, CAST($2 AS TEXT) AS c, $3 AS d',
        7,
        'x',
        null,
      ),
    );
    expect({ ...row }).toEqual({ a: 'x', b: 7, c: 'x', d: null });
  });

  it('rolls back only a work that throws when several are committed together', async () => {
    await put(database, 'first');
    const outcomes = await Promise.allSettled([
      put(database, 'zeroth'),
      database.write(async (transaction) => {
        await transaction.run("INSERT INTO note (name, value) VALUES ('doomed', 'x')");
        throw new Error('changed my mind');
      }),
      put(database, 'first', 'again'),
      put(database, 'second'),
    ]);
    expect(outcomes.map((outcome) => outcome.status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled']);
    expect(await names(database)).toEqual(['first', 'second', 'zeroth']);
  });

  if (isGrouped)
    it('shows a work the writes of earlier works in its group, but no reader before the commit', async () => {
      let seenByReader: string[] | undefined;
      let seenByWriter: number | undefined;
      const first = database.write(async (transaction) => {
        await transaction.run("INSERT INTO note (name, value) VALUES ('a', 'x')");
      });
      const second = database.write(async (transaction) => {
        seenByWriter = (await transaction.all('SELECT * FROM note')).length;
        if (kind === 'file') seenByReader = await names(database);
      });
      await Promise.all([first, second]);
      expect(seenByWriter).toBe(1);
      if (kind === 'file') expect(seenByReader).toEqual([]);
    });

  it('attempts a step whose failure keeps earlier writes', async () => {
    const seen: string[] = [];
    await database.write(async (transaction) => {
      await transaction.run("INSERT INTO note (name, value) VALUES ('kept', 'x')");
      transaction.afterCommit(() => seen.push('kept'));
      const step = transaction.attempt(async (inner) => {
        await inner.run("INSERT INTO note (name, value) VALUES ('dropped', 'x')");
        inner.afterCommit(() => seen.push('dropped'));
        throw new Error('no');
      });
      await expect(step).rejects.toThrow('no');
      await transaction.attempt((inner) => inner.run("INSERT INTO note (name, value) VALUES ('late', 'x')"));
    });
    expect(await names(database)).toEqual(['kept', 'late']);
    expect(seen).toEqual(['kept']);
  });

  it('runs effects only after the commit, and survives one that throws', async () => {
    const seen: string[] = [];
    const failing = database.write(async (transaction) => {
      transaction.afterCommit(() => seen.push('never'));
      throw new Error('no');
    });
    const working = database.write(async (transaction) => {
      await transaction.run("INSERT INTO note (name, value) VALUES ('a', 'x')");
      transaction.afterCommit(() => {
        throw new Error('a faulty effect');
      });
      transaction.afterCommit(() => seen.push('done'));
      expect(seen).toEqual([]);
    });
    await expect(failing).rejects.toThrow('no');
    await working;
    expect(seen).toEqual(['done']);
    expect(faults).toHaveLength(1);
  });

  it('gives a read one snapshot throughout', async () => {
    const counts: number[] = [];
    const writes: Promise<number>[] = [];
    await database.read(async (query) => {
      counts.push((await query.all('SELECT * FROM note')).length);
      for (let i = 0; i < 5; i += 1) writes.push(put(database, `w${i}`));
      if (!isGrouped) await Promise.all(writes);
      for (let i = 0; i < 5; i += 1) counts.push((await query.all('SELECT * FROM note')).length);
    });
    await Promise.all(writes);
    expect(new Set(counts)).toEqual(new Set([0]));
  });

  it('refuses a query that is used after its work', async () => {
    const kept = await database.read(async (query) => ({ query }));
    await expect(kept.query.all('SELECT 1')).rejects.toThrow('after its work ended');
    const held = await database.write(async (transaction) => ({ transaction }));
    await expect(held.transaction.run('DELETE FROM note')).rejects.toThrow('after its work ended');
  });

  it('keeps the rows that foreign keys refer to', async () => {
    const orphan = database.write((transaction) =>
      transaction.run("INSERT INTO allowlist_entry (agent_id, entry, created_at) VALUES ('agt_none', '@a.b', 1)"),
    );
    await expect(orphan).rejects.toThrow(/foreign key/i);
  });

  it('finishes waiting writes when it is closed, and accepts no more', async () => {
    const writes = Array.from({ length: 600 }, (_, i) => put(database, `n${i}`));
    const closed = database.close();
    const late = expect(put(database, 'late')).rejects.toThrow('closed');
    await expect(Promise.all(writes)).resolves.toHaveLength(600);
    await late;
    await closed;
    database = await openStore('memory');
  });

  it('refuses writes beyond a bound instead of letting them pile up', async () => {
    const writes = Array.from({ length: 10_200 }, (_, i) => put(database, `n${i}`));
    const outcomes = await Promise.allSettled(writes);
    expect(outcomes.filter((outcome) => outcome.status === 'rejected').length).toBeGreaterThanOrEqual(100);
    expect(await names(database)).toHaveLength(outcomes.filter((outcome) => outcome.status === 'fulfilled').length);
  });

  it('keeps every text unchanged, including U+0000 and noncharacters', async () => {
    const texts = ['a\0b', '\0', '\uFDD0', '\uFDD00', '\uFDD01\0', '\u{10ffff}', 'é', '\\u0000', "'; --", ''];
    for (const [index, text] of texts.entries()) await put(database, `t${index}`, text);
    const rows = await database.read((query) =>
      query.all<{ value: string }>('SELECT value FROM note ORDER BY LENGTH(name), name'),
    );
    expect(rows.map((row) => row.value)).toEqual(texts);
    const found = await database.read((query) => query.get('SELECT name FROM note WHERE value = $1', 'a\0b'));
    expect({ ...(found as object) }).toEqual({ name: 't0' });
  });

  it('orders text by its code points, whatever the language of the machine', async () => {
    const handles = ['@b.a', '@a.z', '@a_b.c', '@a-b.c', '@ab.c', '@a.b'];
    for (const [index, handle] of handles.entries())
      await database.write((transaction) =>
        transaction.run(
          `INSERT INTO account (id, username, display_name, tier, is_local, created_at, updated_at) VALUES ($1, $2, 'x', 'standard', 0, 1, 1)`,
          `acct_${index}`,
          handle,
        ),
      );
    const rows = await database.read((query) =>
      query.all<{ username: string }>('SELECT username FROM account ORDER BY username'),
    );
    expect(rows.map((row) => row.username)).toEqual([...handles].sort());
  });

  it('returns numbers as numbers, even the largest sequences and times', async () => {
    const row = await database.read((query) =>
      query.get('SELECT CAST($1 AS BIGINT) AS big, (SELECT COUNT(*) FROM note) AS none', Number.MAX_SAFE_INTEGER),
    );
    expect({ ...(row as object) }).toEqual({ big: Number.MAX_SAFE_INTEGER, none: 0 });
  });
});
