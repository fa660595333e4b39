import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createHome, type Home, type ServiceProcess, startServe } from '../acceptance/program.js';
import { type Actor, actorOf, createActor } from '../support/actors.js';
import { createLedger, findFaults } from '../support/ledger.js';
import { discover } from '../support/oauth.js';
import { operatorOf } from '../support/operator.js';
import { createTally, IS_LONG, quantile, type Tally } from '../support/tally.js';

const [KILLS, WRITERS, SESSIONS] = IS_LONG ? [200, 64, 20] : [3, 16, 4];
const SYNC_KILLS = IS_LONG ? 200 : 3;
/** Acknowledgments between two kills, so that each kill interrupts work. */
const ACKS_BETWEEN = 20;
const canInject = spawnSync('strace', ['-f', '-o', '/dev/null', 'true'], { stdio: 'ignore' }).status === 0;
const { DatabaseSync } = createRequire(import.meta.url)(
  '@photostructure/sqlite',
) as typeof import('@photostructure/sqlite');

function integrityOf(data: string): unknown {
  const database = new DatabaseSync(join(data, 'asp.sqlite'), { readOnly: true });
  const row = database.prepare('PRAGMA integrity_check').get() as { integrity_check: string };
  database.close();
  return row.integrity_check;
}

/** Kills the service in one particular way; resolves when it is dead. */
type Kill = (service: ServiceProcess, number: number) => Promise<void>;

describe('A service killed with kill -9 under load', () => {
  let home: Home;
  let tally: Tally;
  beforeEach(() => {
    home = createHome();
  });
  afterEach(() => home.dispose());

  /** Runs writers that never pause and retry unanswered requests with their keys, while the service dies repeatedly. */
  async function survive(title: string, kills: number, kill: Kill): Promise<void> {
    tally = createTally(title);
    let service = await startServe(home, ['--limits', 'off']);
    const place = await discover(service.url);
    const first = await createActor(place, operatorOf(home), 'alice');
    const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => first.mustCreate()));
    const ledger = createLedger();
    let alice: Actor = first;
    let isOver = false;
    const writers = Array.from({ length: WRITERS }, (_, index) => {
      const session = sessions[index % SESSIONS] ?? '';
      return ledger.writeUntil(
        () => isOver,
        session,
        async ({ key, content }) => {
          const answer = await alice.post(`/sessions/${session}/messages`, { content }, { key });
          if (answer.status === 401) alice = actorOf(place, first.handle, first.credentials);
          return answer;
        },
      );
    });
    const restarts: number[] = [];
    let worst = 'ok';
    for (let number = 0; number < kills; number += 1) {
      const { ok } = ledger.counts;
      while (ledger.counts.ok < ok + ACKS_BETWEEN) await pause(5);
      await kill(service, number);
      tally.fired('kill');
      const before = performance.now();
      service = await startServe(home, ['--limits', 'off'], service.url);
      restarts.push(performance.now() - before);
      if (number % 20 === 0) {
        const found = integrityOf(service.data);
        if (found !== 'ok') worst = String(found);
      }
    }
    isOver = true;
    await Promise.all(writers);
    alice = actorOf(place, first.handle, first.credentials);
    const faults = [];
    let events = 0;
    for (const session of sessions) {
      const log = await alice.mustReplay(session);
      events += log.length;
      faults.push(...findFaults(session, log, ledger));
    }
    await service.stop();
    tally.finish(['kill'], {
      ...ledger.counts,
      events,
      wrong: faults.length,
      restart_p50_ms: Math.round(quantile(restarts, 0.5)),
      restart_p99_ms: Math.round(quantile(restarts, 0.99)),
    });
    expect(faults).toEqual([]);
    expect([worst, integrityOf(service.data)]).toEqual(['ok', 'ok']);
    expect(ledger.counts.indeterminate).toBeGreaterThan(0);
  }

  it(
    `loses and doubles no acknowledged message and leaves no gap: ${KILLS} kills at random moments`,
    async () => {
      await survive('kill -9 at random moments', KILLS, async (service) => {
        await pause(tally.random.below(700));
        service.running.kill('SIGKILL');
        expect((await service.running.ended).signal).toBe('SIGKILL');
      });
    },
    IS_LONG ? 3_600_000 : 300_000,
  );

  it.runIf(canInject)(
    `loses nothing between the flush of a write and its answer either: ${SYNC_KILLS} kills, each at the n-th flush`,
    async () => {
      await survive('kill -9 by the n-th flush', SYNC_KILLS, async (service, number) => {
        await service.stop();
        const nth = IS_LONG ? number + 1 : 10 + tally.random.below(30);
        const inject = `inject=fdatasync,fsync:signal=SIGKILL:when=${nth}`;
        const strace = ['-f', '-qq', '-o', '/dev/null', '-e', 'trace=fdatasync,fsync', '-e', inject];
        const port = new URL(service.url).port;
        const words = ['serve', '--port', port, '--data', service.data, '--limits', 'off'];
        const dying = home.spawn('strace', [...strace, 'asp', ...words]);
        const { status, signal, stderr } = await dying.ended;
        expect([signal ?? `exit ${status}`, stderr]).toEqual(['SIGKILL', expect.any(String)]);
      });
    },
    IS_LONG ? 3_600_000 : 300_000,
  );
});
