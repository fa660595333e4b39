import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import type { Database } from '../../../src/service/core/database.js';
import { insertSession } from '../../../src/service/store/sessions.js';
import { openSqlite } from '../../../src/service/store/sqlite.js';
import { loadSqlite } from '../../../src/service/store/sqlite-driver.js';
import { buildProgram } from '../../support/build-program.js';
import { IS_LONG } from '../../support/tally.js';

const KILLS = IS_LONG ? 200 : 5;
const SESSION = 'sess_01ARZ3NDEKTSV4RRFFQ69G5FAV';
const TMPFS = 'mount -t tmpfs -o size=4m tmpfs "$1" && exec "$2" "$3" fill "$1"';

let built: Awaited<ReturnType<typeof buildProgram>>;
let program: string;
let directory: string;
const children = new Set<ChildProcess>();

beforeAll(async () => {
  built = await buildProgram('test/service/store/child/store-child.ts');
  program = built.path;
});
afterAll(() => built?.remove());
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'asp-store-'));
});
afterEach(() => {
  for (const child of children) child.kill('SIGKILL');
  children.clear();
  rmSync(directory, { recursive: true, force: true });
});

interface Child {
  readonly lines: string[];
  readonly ended: Promise<unknown>;
  kill(): void;
  said(start: string): Promise<void>;
}

function start(command: string, parameters: readonly string[]): Child {
  const child = spawn(command, parameters, { stdio: ['ignore', 'pipe', 'inherit'] });
  children.add(child);
  const lines: string[] = [];
  const waiting: { start: string; resolve: () => void }[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(line);
    for (const waiter of waiting) if (line.startsWith(waiter.start)) waiter.resolve();
  });
  return {
    lines,
    ended: once(child, 'close'),
    kill: () => child.kill('SIGKILL'),
    said: (start) =>
      new Promise((resolve) => {
        if (lines.some((line) => line.startsWith(start))) return resolve();
        waiting.push({ start, resolve });
      }),
  };
}
const startChild = (...parameters: string[]): Child => start(process.execPath, [program, ...parameters]);
const acknowledged = (child: Child): string[] =>
  child.lines.filter((line) => line.startsWith('ack ')).map((line) => line.slice(4));
const noteNames = async (database: Database): Promise<Set<string>> => {
  const rows = await database.read((query) => query.all<{ name: string }>('SELECT name FROM note'));
  return new Set(rows.map((row) => row.name));
};

describe('one process owns the data', () => {
  it('a second one is refused with a clear error, and accepted as soon as the first is killed', async () => {
    const holder = startChild('hold', directory);
    await holder.said('open');
    await expect(openSqlite({ directory })).rejects.toThrow(`Another process is using the data in ${directory}.`);
    holder.kill();
    await holder.ended;
    await (await openSqlite({ directory })).close();
  });
});

describe('kill -9', () => {
  it(`loses and doubles no acknowledged write and leaves no gap: ${KILLS} kills under load`, async () => {
    const first = await openSqlite({ directory });
    await first.write((transaction) => insertSession(transaction, { id: SESSION, topic: null, created_at: 1 }));
    await first.close();
    let before = 0;
    for (let kill = 0; kill < KILLS; kill += 1) {
      const child = startChild('append', directory, SESSION);
      await child.said('ack');
      await new Promise((resolve) => setTimeout(resolve, (kill * 37) % 150));
      child.kill();
      await child.ended;
      const numbers = acknowledged(child).map(Number);
      const database = await openSqlite({ directory });
      const rows = await database.read((query) =>
        query.all<{ sequence: number }>('SELECT sequence FROM event ORDER BY sequence'),
      );
      const session = await database.read((query) =>
        query.get<{ last_sequence: number }>('SELECT last_sequence FROM session'),
      );
      await database.close();
      expect(new Set(numbers).size).toBe(numbers.length);
      expect(Math.min(...numbers)).toBe(before + 1);
      expect(rows.map((row) => row.sequence)).toEqual(rows.map((_, index) => index + 1));
      expect(session?.last_sequence).toBe(rows.length);
      expect(Math.max(...numbers)).toBeLessThanOrEqual(rows.length);
      before = rows.length;
    }
    const connection = (await loadSqlite())(join(directory, 'asp.sqlite'));
    expect({ ...(connection.prepare('PRAGMA integrity_check').get() as object) }).toEqual({ integrity_check: 'ok' });
    connection.close();
  });
});

const canMount =
  process.platform === 'linux' &&
  spawnSync('unshare', ['-rm', 'sh', '-c', 'mount -t tmpfs tmpfs /mnt'], { stdio: 'ignore' }).status === 0;

describe('a disk that is full', () => {
  it.runIf(canMount)(
    'never leads to a false acknowledgment; reads continue, and writes once there is room again',
    async () => {
      const filler = `head -c 1500000 /dev/zero > "$1/filler" && exec "$2" "$3" fill "$1"`;
      const script = TMPFS.replace('exec "$2" "$3" fill "$1"', filler);
      const child = start('unshare', ['-rm', 'sh', '-c', script, 'sh', directory, process.execPath, program]);
      await child.ended;
      expect(child.lines).toContain('refused 20');
      expect(child.lines).toContain('recovered');
      const readable = Number(child.lines.find((line) => line.startsWith('readable '))?.slice(9));
      expect(readable).toBe(acknowledged(child).length - 1);
    },
  );

  it.runIf(process.platform === 'linux')(
    'or a file that may not grow keeps exactly what was acknowledged, even after a restart',
    async () => {
      const child = start('sh', ['-c', 'ulimit -f 2000; exec "$0" "$@"', process.execPath, program, 'fill', directory]);
      await child.ended;
      expect(child.lines).toContain('refused 20');
      const names = acknowledged(child);
      const database = await openSqlite({ directory });
      expect(await noteNames(database)).toEqual(new Set(names));
      await database.close();
      expect(names.length).toBeGreaterThan(10);
    },
  );
});

const canInject = spawnSync('strace', ['-f', '-o', '/dev/null', 'true'], { stdio: 'ignore' }).status === 0;

describe('A disk that fails to write (EIO)', () => {
  it.runIf(canInject)(
    'never leads to a false acknowledgment, and the store continues when the disk works again',
    async () => {
      const inject = 'inject=fdatasync,fsync:error=EIO:when=30..90+3';
      const options = ['-f', '-qq', '-o', '/dev/null', '-e', 'trace=fdatasync,fsync', '-e', inject];
      const child = start('strace', [...options, process.execPath, program, 'insist', directory]);
      await child.ended;
      const names = acknowledged(child);
      const refused = child.lines.filter((line) => line.startsWith('refused ')).length;
      expect(child.lines).toContain('done');
      expect(refused).toBeGreaterThan(0);
      expect(names.length + refused).toBe(300);
      expect(names.at(-1)).toBe('n299');
      const database = await openSqlite({ directory });
      const kept = await noteNames(database);
      await database.close();
      expect(names.filter((name) => !kept.has(name))).toEqual([]);
    },
  );
});

/** Makes one disk operation fail, or all of them from one on. The first failure happens while the data is set up. */
const FAILURES: readonly { calls: string; error: string; places: readonly number[]; isFromThereOn: boolean }[] = [
  {
    calls: 'fdatasync,fsync',
    error: 'EIO',
    places: IS_LONG ? Array.from({ length: 100 }, (_, index) => index + 1) : [1, 12, 40],
    isFromThereOn: false,
  },
  ...['ENOSPC', 'EROFS'].map((error) => ({
    calls: 'pwrite64',
    error,
    places: IS_LONG ? Array.from({ length: 50 }, (_, index) => 1 + 23 * index) : [5, 400],
    isFromThereOn: true,
  })),
];

describe.each(FAILURES)('a disk that answers $calls with $error', ({ calls, error, places, isFromThereOn }) => {
  it.runIf(canInject).each(places)(
    'at call %i keeps what was acknowledged, and the data can be opened',
    async (place) => {
      const inject = `inject=${calls}:error=${error}:when=${place}${isFromThereOn ? '+' : ''}`;
      const log = join(directory, 'calls');
      const options = ['-f', '-qq', '-o', log, '-e', `trace=${calls}`, '-e', inject];
      const data = join(directory, 'data');
      const child = start('strace', [...options, process.execPath, program, 'insist', data]);
      await child.ended;
      expect(readFileSync(log, 'utf8')).toContain('(INJECTED)');
      const names = acknowledged(child);
      if (isFromThereOn) expect(names).not.toContain('n299');
      const database = await openSqlite({ directory: data });
      const kept = names.length > 0 ? await noteNames(database) : new Set<string>();
      await database.close();
      expect(names.filter((name) => !kept.has(name))).toEqual([]);
      // The process must report the failure: it refuses the write or exits.
      if (!child.lines.includes('done')) expect(names).toEqual([]);
    },
  );
});
