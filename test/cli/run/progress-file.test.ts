import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';

import { openProgress } from '../../../src/agent/progress-file.js';

const folder = mkdtempSync(join(tmpdir(), 'asp-progress-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const at = (timeMs: number) => async () => timeMs;
const read = (path: string): unknown => JSON.parse(readFileSync(path, 'utf8'));

describe('asp run › its progress', () => {
  it('begins now, and is on disk, and private, before anything is done', async () => {
    const path = join(folder, 'new', 'one.json');
    const progress = await openProgress(path, at(1000));
    expect(read(path)).toEqual({ since: 1000, sessions: {} });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    progress.advance('a', { after: 0 });
    progress.advance('b', { after: 7 });
    progress.advance('b', { after: 5 });
    await progress.written();
    expect(read(path)).toEqual({ since: 1000, sessions: { a: 0, b: 7 } });
    const again = await openProgress(path, at(9000));
    expect([again.sinceMs, ...again.sessions]).toEqual([1000, ['a', { after: 0 }], ['b', { after: 7 }]]);
  });

  it('only moves forward, and forgets ended sessions', async () => {
    const path = join(folder, 'two.json');
    writeFileSync(path, '{"since":1000,"sessions":{"a":1,"b":2}}');
    const progress = await openProgress(path, at(0));
    progress.settleUpTo(500, ['b']);
    await progress.written();
    expect(read(path)).toEqual({ since: 1000, sessions: { a: 1, b: 2 } });
    progress.settleUpTo(2000, ['a']);
    await progress.written();
    expect(read(path)).toEqual({ since: 2000, sessions: { b: 2 } });
  });

  it('counts how often a message was given out, across runs, until it is done', async () => {
    const path = join(folder, 'begun.json');
    const message = { session_id: 'a', event_id: 'evt_1' };
    const first = await openProgress(path, at(1000));
    expect(await first.begin(message)).toBe(1);
    expect(await first.begin(message)).toBe(2);
    expect(read(path)).toMatchObject({ begun: { a: { event: 'evt_1', times: 2 } } });
    const second = await openProgress(path, at(0));
    expect(await second.begin(message)).toBe(3);
    expect(await second.begin({ session_id: 'b', event_id: 'evt_1' })).toBe(1);
    second.advance('a', { after: 1 });
    expect(await second.begin({ session_id: 'a', event_id: 'evt_2' })).toBe(1);
    second.advance('a', { after: 2 });
    second.advance('b', { after: 1 });
    await second.written();
    expect(read(path)).toEqual({ since: 1000, sessions: { a: 2, b: 1 } });
  });

  it('accepts a cursor file of asp tail, from now on; any other file is refused and unchanged', async () => {
    const path = join(folder, 'three.json');
    writeFileSync(path, '{"sessions":{"a":4}}');
    expect((await openProgress(path, at(3000))).sinceMs).toBe(3000);
    for (const text of ['[]', '{', '{"sessions":{"a":-1}}', '{"since":"x","sessions":{}}', '{"sessions":[1.5]}']) {
      writeFileSync(path, text);
      await expect(openProgress(path, at(0))).rejects.toMatchObject({ code: 'ASP_USAGE' });
      expect(readFileSync(path, 'utf8')).toBe(text);
    }
  });
});
