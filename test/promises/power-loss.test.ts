import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { insertSession } from '../../src/service/store/sessions.js';
import { openSqlite } from '../../src/service/store/sqlite.js';
import { loadSqlite } from '../../src/service/store/sqlite-driver.js';
import { buildProgram } from '../support/build-program.js';
import { createCrashingDisk, RECORDING, readSteps, type Step } from '../support/recorded-writes.js';
import { createTally, IS_LONG } from '../support/tally.js';

const SESSION = 'sess_01ARZ3NDEKTSV4RRFFQ69G5FAV';
const [ACKNOWLEDGED, STATES] = IS_LONG ? [5_000, 1_000] : [300, 40];
const SECTOR = 512;
const canRecord = spawnSync('strace', ['-f', '-o', '/dev/null', 'true'], { stdio: 'ignore' }).status === 0;

const scratch = mkdtempSync(join(tmpdir(), 'asp-power-'));
const data = join(scratch, 'data');
let built: Awaited<ReturnType<typeof buildProgram>>;
beforeAll(async () => {
  built = await buildProgram('test/service/store/child/store-child.ts');
});
afterAll(() => {
  built?.remove();
  rmSync(scratch, { recursive: true, force: true });
});

const filesOf = (folder: string): Map<string, Buffer> =>
  new Map(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]));

/** Appends events until enough are acknowledged, then kills the program. Returns what the program did to its files. */
async function record(): Promise<Step[]> {
  const trace = join(scratch, 'trace');
  const child = spawn('strace', [...RECORDING, '-o', trace, process.execPath, built.path, 'append', data, SESSION], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'close');
  let count = 0;
  let program = 0;
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.startsWith('ack ')) count += 1;
    if (program === 0) program = Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim());
    // The record of the last write is missing if the kill comes first.
    if (count === ACKNOWLEDGED + 1) process.kill(program, 'SIGKILL');
  }
  await ended;
  return readSteps(trace, data);
}

/** Returns how the files left by a crash break the promise, or undefined. */
async function findFault(folder: string, acknowledged: number): Promise<string | undefined> {
  try {
    const database = await openSqlite({ directory: folder });
    const rows = await database.read((query) =>
      query.all<{ sequence: number }>('SELECT sequence FROM event ORDER BY 1'),
    );
    await database.close();
    const open = await loadSqlite();
    const connection = open(join(folder, 'asp.sqlite'));
    const { integrity_check } = connection.prepare('PRAGMA integrity_check').get() as { integrity_check: string };
    connection.close();
    if (integrity_check !== 'ok') return integrity_check;
    if (rows.some(({ sequence }, index) => sequence !== index + 1)) return 'there is a hole';
    return rows.length < acknowledged ? `${acknowledged - rows.length} acknowledged events are lost` : undefined;
  } catch (error) {
    return `it does not open: ${error}`;
  }
}

describe('A power failure', () => {
  it.runIf(canRecord)(
    `loses nothing acknowledged, no matter what else had reached the disk: ${STATES} states`,
    async () => {
      const tally = createTally('loss of power');
      rmSync(data, { recursive: true, force: true });
      const prepared = await openSqlite({ directory: data });
      await prepared.write((transaction) => insertSession(transaction, { id: SESSION, topic: null, created_at: 1 }));
      await prepared.close();
      const disk = createCrashingDisk(filesOf(data));
      const steps = await record();
      const said = steps.filter((step) => step.kind === 'said').length;
      const moments = steps.flatMap((step, index) => (step.kind === 'write' ? [] : [index]));
      const share = Math.min(1, STATES / 4 / moments.length);
      const isCrash = new Set(moments.filter(() => tally.random.below(1_000_000) < share * 1_000_000));

      const faults: string[] = [];
      let acknowledged = 0;
      let states = 0;
      const crash = async (kind: string, keep: Parameters<typeof disk.filesAfterCrash>[0]): Promise<void> => {
        const folder = join(scratch, `state-${states}`);
        mkdirSync(folder, { mode: 0o700 });
        for (const [name, bytes] of disk.filesAfterCrash(keep))
          if (!name.endsWith('-shm')) writeFileSync(join(folder, name), bytes, { mode: 0o600 });
        const fault = await findFault(folder, acknowledged);
        if (fault !== undefined) faults.push(`${kind} at ${acknowledged}: ${fault}`);
        rmSync(folder, { recursive: true });
        tally.fired(kind);
        states += 1;
      };
      for (const [index, step] of steps.entries()) {
        if (step.kind === 'said')
          acknowledged += step.text.split('\n').filter((line) => line.startsWith('ack ')).length;
        // Crash just before a flush, when the most data is at risk, or just after an acknowledgment.
        if (isCrash.has(index)) {
          await crash('nothing more', () => undefined);
          await crash('everything', (_index, _count, change) => change);
          await crash('some of it', (_index, _count, change) => (tally.random.below(2) === 0 ? change : undefined));
          await crash('torn', (at, count, change) => {
            if (at < count - 1 || change.kind !== 'write') return change;
            const kept = SECTOR * tally.random.below(1 + Math.floor(change.bytes.length / SECTOR));
            return { ...change, bytes: change.bytes.subarray(0, kept) };
          });
        }
        disk.take(step);
      }
      tally.finish(['nothing more', 'everything', 'some of it', 'torn'], {
        ok: acknowledged,
        failed: 0,
        indeterminate: 0,
        states,
        wrong: faults.length,
        flushes: steps.filter((step) => step.kind === 'flush').length,
        said,
      });
      expect(faults).toEqual([]);
      expect(acknowledged).toBeGreaterThanOrEqual(ACKNOWLEDGED);
      expect(states).toBeGreaterThan(STATES / 4);
    },
    IS_LONG ? 1_800_000 : 300_000,
  );
});
