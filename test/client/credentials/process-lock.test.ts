import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { holdProcessLock, withProcessLock } from '../../../src/client/credentials/process-lock.js';
import { withDeferredSignals } from '../../../src/client/credentials/refresh-login.js';
import { systemClock } from '../../../src/kit/clock.js';
import { systemRandom } from '../../../src/kit/random.js';
import { bundleProgram } from '../../support/program.js';
import { until } from '../../support/until.js';

let lockDirectory: string;
beforeAll(() => {
  lockDirectory = mkdtempSync(join(tmpdir(), 'asp-locks-'));
});
afterAll(() => rmSync(lockDirectory, { recursive: true, force: true }));

const lock = <Result>(name: string, work: () => Promise<Result>, signal?: AbortSignal): Promise<Result> =>
  withProcessLock({ clock: systemClock, random: systemRandom, lockDirectory }, name, work, signal);

/** Starts a program and waits for its first line. */
async function start(source: string, ...words: string[]) {
  const child = spawn(process.execPath, [await bundleProgram(source), ...words], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString('utf8');
  });
  await once(child.stdout, 'data');
  return { child, closed: once(child, 'close'), output: () => output };
}

describe('the lock of a login', () => {
  it('lets one piece of work run at a time, even within a process, and does not delay anything else', async () => {
    let inside = 0;
    let most = 0;
    const work = async (): Promise<void> => {
      inside += 1;
      most = Math.max(most, inside);
      await new Promise((resolve) => setTimeout(resolve, 5));
      inside -= 1;
    };
    await Promise.all([...Array.from({ length: 8 }, () => lock('one', work))]);
    expect(most).toBe(1);
    await lock('one', () => lock('other', async () => undefined));
  });

  it('is free again when its holder is killed', async () => {
    const { child, closed } = await start('test/support/programs/hold-lock.ts', lockDirectory);
    const waiting = lock('name', async () => 'mine', AbortSignal.timeout(20_000));
    child.kill('SIGKILL');
    await closed;
    expect(await waiting).toBe('mine');
  });

  it('can be held for as long as a process lives, and is refused to others at once', async () => {
    const release = await holdProcessLock({ lockDirectory }, 'place');
    expect(await holdProcessLock({ lockDirectory }, 'place')).toBeUndefined();
    expect(await holdProcessLock({ lockDirectory }, 'other place')).toBeDefined();
    release?.();
    expect(await holdProcessLock({ lockDirectory }, 'place')).toBeDefined();
  });

  it('stays with a holder that is only suspended', async () => {
    const { child, closed } = await start('test/support/programs/hold-lock.ts', lockDirectory);
    child.kill('SIGSTOP');
    const waiting = lock('name', async () => 'mine', AbortSignal.timeout(300));
    await expect(waiting).rejects.toMatchObject({ code: 'ASP_ABORTED' });
    child.kill('SIGKILL');
    await closed;
  });
});

describe('a signal while a refresh token is spent', () => {
  it.each(['SIGINT', 'SIGTERM'] as const)('%s acts after its successor is stored', async (signal) => {
    const { child, closed, output } = await start('test/support/programs/defer-signals.ts');
    child.kill(signal);
    expect(await closed).toEqual([null, signal]);
    expect(output()).toBe('begun\nstored\n');
  });

  it('is not lost if it arrives just before', async () => {
    const handled: string[] = [];
    const handle = (signal: string): void => void handled.push(signal);
    process.on('SIGHUP', handle);
    process.kill(process.pid, 'SIGHUP');
    const handledDuring = await withDeferredSignals(async () => {
      await new Promise((resolve) => setTimeout(resolve, 50));
      return [...handled];
    });
    await until('the signal is handled', async () => handled.length > 0);
    process.removeListener('SIGHUP', handle);
    expect([handledDuring, handled]).toEqual([[], ['SIGHUP']]);
  });

  it('acts after the last of two refreshes that overlap, and is not ignored ever after', async () => {
    const listeners = (): number => process.listenerCount('SIGHUP');
    await until('the signal of the test before is handled', async () => listeners() === 0);
    const handled: string[] = [];
    const handle = (signal: string): void => void handled.push(signal);
    process.on('SIGHUP', handle);
    const ends: (() => void)[] = [];
    const [first, second] = [1, 2].map(() => withDeferredSignals(() => new Promise<void>((end) => ends.push(end))));
    process.emit('SIGHUP', 'SIGHUP');
    ends[0]?.();
    await first;
    expect(handled).toEqual([]);
    ends[1]?.();
    await second;
    await until('the signal is handled', async () => handled.length > 0);
    process.removeListener('SIGHUP', handle);
    expect([handled, listeners()]).toEqual([['SIGHUP'], 0]);
  });
});
