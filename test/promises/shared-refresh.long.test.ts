import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import {
  createHome,
  type Ended,
  type Home,
  type Running,
  type ServiceProcess,
  startServe,
} from '../acceptance/program.js';
import { createTally, quantile } from '../support/tally.js';

const PROCESSES = 50;
const ROUNDS = 10;
const KILL_ROUNDS = 10;
const STILL_ROUNDS = 5;
/** Longer than any request may take. */
const STILL_MS = 150_000;
/** The folder where all programs of one user take their locks, whatever their environment. */
const LOCKS = join(userInfo().homedir, '.local/state/asp-cli/locks');
const { DatabaseSync } = createRequire(import.meta.url)(
  '@photostructure/sqlite',
) as typeof import('@photostructure/sqlite');

let home: Home;
let service: ServiceProcess;
beforeAll(async () => {
  home = createHome();
  service = await startServe(home, ['--demo', '--limits', 'off']);
  await signIn();
});
afterAll(async () => {
  await service.stop();
  await home.dispose();
});

async function signIn(): Promise<void> {
  expect(await home.run(['login', '@demo.you', '--yes'])).toMatchObject({ status: 0 });
}

/** Returns the number of refresh tokens ever issued. */
function countTokens(): number {
  const database = new DatabaseSync(join(service.data, 'asp.sqlite'), { readOnly: true });
  const { n } = database.prepare('SELECT count(*) AS n FROM refresh_token').get() as { n: number };
  database.close();
  return Number(n);
}

/** Starts all processes at once without an access token, half of them with a different configuration folder. */
function startAll(): Running[] {
  rmSync(join(home.environment['XDG_RUNTIME_DIR'] ?? '', 'asp-cli/tokens'), { recursive: true, force: true });
  return Array.from({ length: PROCESSES }, (_, index) => {
    const environment = index % 2 === 0 ? {} : { XDG_CONFIG_HOME: join(home.directory, 'elsewhere') };
    return home.start(['session', 'list', '--json', '--quiet'], { environment });
  });
}

/** Returns the process that currently holds a login lock. */
function findHolder(processes: readonly Running[]): Running | undefined {
  const inodes = new Set(readdirSync(LOCKS).map((name) => String(statSync(join(LOCKS, name)).ino)));
  for (const line of readFileSync('/proc/locks', 'utf8').split('\n')) {
    const [, pid, inode = ''] = /POSIX +ADVISORY +WRITE +(\d+) +\w+:\w+:(\d+) /.exec(line) ?? [];
    const holder = inodes.has(inode) ? processes.find((one) => one.pid === Number(pid)) : undefined;
    if (holder !== undefined) return holder;
  }
  return undefined;
}

async function findAnyHolder(processes: readonly Running[]): Promise<Running> {
  while (true) {
    const holder = findHolder(processes);
    if (holder !== undefined) return holder;
    await pause(1);
  }
}

const failed = (ended: readonly Ended[]): Ended[] => ended.filter(({ status }) => status !== 0);

describe(`${PROCESSES} programs that share one login`, () => {
  it(`refresh it once per round and never lose it: ${ROUNDS} rounds`, async () => {
    const tally = createTally('programs that share one login');
    const times: number[] = [];
    let ok = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      const before = countTokens();
      const startedAt = performance.now();
      const ended = await Promise.all(startAll().map((one) => one.ended));
      times.push(performance.now() - startedAt);
      tally.fired('stale');
      expect(failed(ended)).toEqual([]);
      ok += ended.length;
      expect(countTokens() - before).toBe(1);
    }
    tally.finish(['stale'], { ok, failed: 0, indeterminate: 0, round_ms_max: Math.round(quantile(times, 1)) });
  }, 3_600_000);

  it.runIf(process.platform === 'linux')(
    `lose nothing when the refreshing one stops for ${STILL_MS / 1000} s: ${STILL_ROUNDS} rounds`,
    async () => {
      const tally = createTally('programs that share one login, one of which is stopped while it refreshes');
      const counts = { ok: 0, failed: 0, indeterminate: 0 };
      for (let round = 0; round < STILL_ROUNDS; round += 1) {
        const before = countTokens();
        const processes = startAll();
        const all = Promise.all(processes.map((one) => one.ended));
        const holder = await findAnyHolder(processes);
        await pause(tally.random.below(30));
        holder.kill('SIGSTOP');
        tally.fired('standstill');
        await pause(STILL_MS);
        holder.kill('SIGCONT');
        const ended = await all;
        counts.ok += ended.length - failed(ended).length;
        counts.failed += failed(ended).length;
        // A process may give up waiting for the lock. It must report that.
        expect(new Set(failed(ended).map(({ status }) => status))).toEqual(
          new Set(failed(ended).length > 0 ? [8] : []),
        );
        expect(countTokens() - before).toBe(1);
        expect(await home.asp(['session', 'list'])).toMatchObject({ status: 0 });
      }
      tally.finish(['standstill'], counts);
    },
    3_600_000,
  );

  it.runIf(process.platform === 'linux')(
    `continue when the refreshing one is killed: ${KILL_ROUNDS} rounds`,
    async () => {
      const tally = createTally('programs that share one login, one of which is killed while it refreshes');
      const counts = { ok: 0, failed: 0, indeterminate: 0 };
      let lost = 0;
      const waits: number[] = [];
      for (let round = 0; round < KILL_ROUNDS; round += 1) {
        const processes = startAll();
        let areOver = false;
        const all = Promise.all(processes.map((one) => one.ended)).finally(() => {
          areOver = true;
        });
        let victim: Running | undefined;
        while (victim === undefined && !areOver) {
          victim = findHolder(processes);
          if (victim === undefined) await pause(1);
        }
        await pause(tally.random.below(30));
        victim?.kill('SIGKILL');
        const killedAt = performance.now();
        const ended = await all;
        waits.push(performance.now() - killedAt);
        if (ended.some(({ signal }) => signal === 'SIGKILL')) tally.fired('kill');
        const refused = failed(ended).filter(({ signal }) => signal === null);
        counts.ok += ended.length - failed(ended).length;
        counts.indeterminate += ended.filter(({ signal }) => signal !== null).length;
        counts.failed += refused.length;
        if (refused.length === 0) continue;
        // Only a kill between the server's commit and the write of the client's file can do this. Every process then
        // fails alike.
        expect(new Set(refused.map(({ status }) => status))).toEqual(new Set([4]));
        lost += 1;
        await signIn();
      }
      tally.finish(['kill'], { ...counts, families_lost: lost, waiters_ms_max: Math.round(quantile(waits, 1)) });
      expect(lost).toBeLessThanOrEqual(KILL_ROUNDS / 10);
    },
    3_600_000,
  );
});
