import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { Clock } from '../../../../src/kit/clock.js';
import type { AgentActor, ServiceContext } from '../../../../src/service/core/context.js';
import { createHealth } from '../../../../src/service/health.js';
import { createPresence, type Presence } from '../../../../src/service/messaging/presence.js';
import {
  type AbsenceRow,
  deleteAbsence,
  insertAbsence,
  listAbsencesOf,
  restartAbsences,
} from '../../../../src/service/store/participants.js';
import { hasSocket } from '../../../../src/service/store/processes.js';
import { createTestClock, type TestClock } from '../../../support/clock.js';
import { POSTGRES_URL } from '../../../support/postgres-server.js';
import { until } from '../../../support/until.js';
import { must, openStage, type Stage } from '../../sessions/stage.js';

const HOUR_MS = 3_600_000;
const GRACE_MS = 600_000;
const SOCKETS = 64;

let stage: Stage;
let alice: AgentActor;
const running: Presence[] = [];

beforeEach(async () => {
  stage = await openStage();
  alice = await stage.addAgent(await stage.addAccount('alice'), 'main');
});
afterEach(async () => {
  for (const presence of running.splice(0)) await presence.stop();
  await stage.close();
});

const isOnline = (): Promise<boolean> => stage.read((query) => hasSocket(query, alice.agentId));

/** Starts a service with a separate clock. */
async function startProcess(clock: Clock, changes: Partial<ServiceContext> = {}): Promise<Presence> {
  const context = { ...stage.context, clock, ...changes };
  const health = createHealth(context);
  const presence = createPresence(context, health, new Set());
  await health.start();
  await presence.start();
  const stop = async (): Promise<void> => {
    await presence.stop();
    await health.stop();
  };
  running.push({ ...presence, stop });
  return { ...presence, stop };
}
const open = (presence: Presence): Promise<number> =>
  presence.opened({ socketId: 's1', agentId: alice.agentId, grantId: 'g', expiresAtMs: 0 });
/** Advances the clocks one second at a time and waits for all resulting work, even if the database is slow. */
async function goOn(clocks: readonly TestClock[], seconds: number): Promise<void> {
  for (let second = 0; second < seconds; second += 1) {
    for (const clock of clocks) clock.advance(1_000);
    await stage.write((query) => query.run('UPDATE account SET display_name = display_name'));
    await pause(5);
  }
}

describe('Sockets that open together', () => {
  it('share a few transactions', async () => {
    const presence = await startProcess(createTestClock());
    const owner = { agentId: alice.agentId, grantId: 'g', expiresAtMs: 0 };
    await Promise.all(
      Array.from({ length: SOCKETS }, (_, index) => presence.opened({ ...owner, socketId: `s${index}` })),
    );
    const [row] = await stage.read((query) =>
      query.all<{ sockets: number; transactions: number }>(
        'SELECT COUNT(*) AS sockets, COUNT(DISTINCT xmin::text) AS transactions FROM socket',
      ),
    );
    expect(row?.sockets).toBe(SOCKETS);
    expect(row?.transactions).toBeLessThan(SOCKETS / 8);
  });
});

describe('Sockets of a dead service', () => {
  it('count until it has been silent for half a minute', async () => {
    const clock = createTestClock();
    await open(await startProcess(createTestClock()));
    await startProcess(clock);
    await goOn([clock], 29);
    expect(await isOnline()).toBe(true);
    await goOn([clock], 16);
    expect(await isOnline()).toBe(false);
  });

  it('count as long as no service can write a heartbeat', async () => {
    const clock = createTestClock();
    await open(await startProcess(createTestClock()));
    await startProcess(clock);
    const [row] = await stage.read((query) => query.all<{ name: string }>('SELECT current_schema()::text AS name'));
    const other = new pg.Client({ connectionString: POSTGRES_URL });
    await other.connect();
    await other.query(`BEGIN; LOCK TABLE ${row?.name}.server_process IN EXCLUSIVE MODE`);
    await goOn([clock], 60);
    expect(await isOnline()).toBe(true);
    await other.end();
    await until('nobody is online', async () => {
      await goOn([clock], 1);
      return !(await isOnline());
    });
  });

  it('do not count anymore if it stopped in an orderly way', async () => {
    const one = await startProcess(createTestClock());
    await open(one);
    await one.stop();
    await startProcess(createTestClock());
    expect(await isOnline()).toBe(false);
  });

  it('are those of a silent one, not of one with a different clock', async () => {
    const clocks = [createTestClock(), createTestClock(1_800_000_000_000 + HOUR_MS)] as const;
    await open(await startProcess(clocks[0]));
    await startProcess(clocks[1]);
    await goOn(clocks, 90);
    expect(await isOnline()).toBe(true);
  });
});

describe('An absence', () => {
  const listAlices = (): Promise<AbsenceRow[]> => stage.read((query) => listAbsencesOf(query, alice.agentId, 2));

  it('that begins again in one service is not ended by another one that read it before', async () => {
    const { session_id } = must(await stage.create(alice, {}));
    const absence = { agent_id: alice.agentId, session_id, since: Number.MAX_SAFE_INTEGER - 1 };
    await stage.write((transaction) => insertAbsence(transaction, absence));
    let ending: Promise<boolean> | undefined;
    await stage.write(async (transaction) => {
      await restartAbsences(transaction, alice.agentId, Number.MAX_SAFE_INTEGER);
      ending = stage.write((other) => deleteAbsence(other, absence));
      // It waits for this row.
      await pause(200);
    });
    expect(await ending).toBe(false);
    expect(await listAlices()).toHaveLength(1);
  });

  it('neither ends nor begins in a service whose clock is wrong, even if that has only just jumped', async () => {
    const { session_id } = must(await stage.create(alice, {}));
    const owner = { socketId: 's1', agentId: alice.agentId, grantId: 'g', expiresAtMs: 0 };
    const clock = createTestClock(Date.now());
    let aheadMs = 0;
    const presence = await startProcess(
      { ...clock, isSystem: true, now: () => clock.now() + aheadMs },
      {
        settings: { ...stage.context.settings, presenceGraceMs: GRACE_MS },
        log: { ...stage.context.log, error: () => {} },
      },
    );
    const since = Date.now();
    await stage.write((transaction) => insertAbsence(transaction, { agent_id: alice.agentId, session_id, since }));
    aheadMs = HOUR_MS;
    await goOn([clock], 12);
    expect(await listAlices()).toMatchObject([{ since }]);
    await stage.write((transaction) => deleteAbsence(transaction, { agent_id: alice.agentId, session_id, since }));
    await presence.opened(owner);
    await presence.closed(owner);
    expect(await listAlices()).toEqual([]);
    aheadMs = 0;
    await until('it begins', async () => {
      await goOn([clock], 1);
      return (await listAlices()).length > 0;
    });
    const [row] = await listAlices();
    expect(Math.abs((row?.since ?? 0) - Date.now())).toBeLessThan(GRACE_MS);
  });
});
