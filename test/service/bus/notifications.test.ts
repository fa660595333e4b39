import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { Bus, Signal } from '../../../src/service/core/bus.js';
import type { Calls } from '../../../src/service/core/database.js';
import { createSharedBus } from '../../../src/service/messaging/shared-bus.js';
import { createActor } from '../../support/actors.js';
import { createTestClock } from '../../support/clock.js';
import { type Cluster, startCluster } from '../../support/cluster.js';
import { request } from '../../support/http.js';
import { field } from '../../support/json.js';
import { GARBAGE } from '../../support/notification-garbage.js';
import { discover } from '../../support/oauth.js';
import { operatorOf } from '../../support/operator.js';
import { POSTGRES_URL } from '../../support/postgres-server.js';
import { createSchema } from '../../support/stores.js';
import { until } from '../../support/until.js';

const MESSAGES = 30;

describe('notifications over PostgreSQL', () => {
  const schema = createSchema();
  const name = new URL(schema.url).searchParams.get('search_path') ?? '';
  const role = `${name}_nobody`;
  let cluster: Cluster;
  let admin: pg.Client;
  beforeAll(async () => {
    cluster = await startCluster({ count: 2, databaseUrl: schema.url, name });
    admin = new pg.Client({ connectionString: POSTGRES_URL });
    await admin.connect();
    await admin.query(`CREATE ROLE ${role}`);
  });
  afterAll(async () => {
    await cluster?.stop();
    await admin.query(`DROP ROLE ${role}`);
    await admin.end();
    await schema.drop();
  });

  /** Only a superuser or the service's role can see the channel. */
  const findChannel = (): Promise<string> =>
    until('both services listen', async () => {
      const { rows } = await admin.query<{ query: string }>(
        `SELECT query FROM pg_stat_activity WHERE application_name = $1 AND query LIKE 'LISTEN %'`,
        [name],
      );
      return rows.length === 2 ? rows[0]?.query.replace('LISTEN ', '') : undefined;
    });

  it('a notification channel’s name cannot be guessed from the schema', async () => {
    expect(await findChannel()).toMatch(/^asp_[0-9a-f]{32}$/);
    const other = createSchema();
    const again = await startCluster({ count: 1, databaseUrl: other.url, name: `${name}_other` });
    const { rows } = await admin.query<{ query: string }>(
      `SELECT query FROM pg_stat_activity WHERE application_name = $1 AND query LIKE 'LISTEN %'`,
      [`${name}_other`],
    );
    expect(rows[0]?.query).not.toBe(`LISTEN ${await findChannel()}`);
    await again.stop();
    await other.drop();
  });

  it('garbage on the channel, from a role without any grant, changes nothing for services under load', async () => {
    const [one, two] = cluster.nodes;
    if (one === undefined || two === undefined) throw new Error('no nodes');
    const place = await discover(one.baseUrl);
    const [alice, bob] = [
      await createActor(place, operatorOf(one.home), 'alice'),
      await createActor(place, operatorOf(one.home), 'bob'),
    ];
    const session = await alice.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(session);
    const socket = await bob.mustConnect(undefined, `ws://127.0.0.1:${two.port}/connect`);
    const channel = await findChannel();
    await admin.query(`SET ROLE ${role}`);
    const sending = (async () => {
      for (let i = 0; i < MESSAGES; i += 1) await alice.mustSend(session, `message ${i}`);
    })();
    for (let round = 0; round < 10; round += 1)
      for (const text of GARBAGE) await admin.query('SELECT pg_notify($1, $2)', [channel, text.replaceAll('\0', '')]);
    await admin.query('RESET ROLE');
    await sending;
    const texts = (): unknown[] =>
      socket.frames
        .filter((frame) => field(frame, 'type') === 'session.message')
        .map((frame) => field(frame, 'payload.content'));
    await until('every message is there', async () => texts().length >= MESSAGES);
    expect(texts()).toEqual(Array.from({ length: MESSAGES }, (_, i) => `message ${i}`));
    for (const { port, running } of cluster.nodes) {
      expect((await request(`http://127.0.0.1:${port}/ready`)).status).toBe(200);
      expect(running.stderr()).not.toContain('failed');
    }
    await socket.close();
  });
});

const UP = { send: async () => {}, isUp: () => true, lines: () => ({}), onUp: () => {} };

describe('a notification', () => {
  const hear = (text: string): Signal[] => {
    let deliver = (_: string): void => {};
    const calls: Calls = {
      ...UP,
      listen(listener) {
        deliver = listener;
        return () => {};
      },
    };
    const heard: Signal[] = [];
    const bus = createSharedBus(calls, {
      processId: 'me',
      onFault: (error) => {
        throw error;
      },
    });
    bus.listen((signal) => heard.push(signal));
    deliver(text);
    return heard;
  };

  it('a notification of this version is accepted, even with members added by a later release', () => {
    const known = { sessions: [['sess_1', 2, 3]], progress: ['sess_2'], presence: ['agent_1'], revoked: ['oac_1'] };
    expect(hear(JSON.stringify({ v: 1, from: 'other', ...known, later: { any: 'thing' } }))).toEqual([
      { kind: 'events', sessionId: 'sess_1', first: 2, last: 3 },
      { kind: 'progress', sessionId: 'sess_2' },
      { kind: 'presence', agentId: 'agent_1' },
      { kind: 'revoked', grantId: 'oac_1' },
    ]);
  });

  it('a notification of another version, from this process itself, or that is garbage is ignored', () => {
    expect(hear('{"v":2,"from":"other","sessions":[["sess_1",2,3]]}')).toEqual([]);
    expect(hear('{"v":1,"from":"me","sessions":[["sess_1",2,3]]}')).toEqual([]);
    expect(hear(`{"v":1,"from":"other","sessions":[["sess_1",2,3]],"pad":"${'x'.repeat(9_000)}"}`)).toEqual([]);
    const understood = GARBAGE.flatMap(hear).filter((signal) => signal.kind !== 'events');
    expect(understood).toEqual([]);
  });
});

describe('a lost notification', () => {
  /** Connects processes over lines that the test controls. */
  function connectProcesses(...names: readonly string[]) {
    const clock = createTestClock();
    const lines = names.map((name) => {
      const line = { isUp: true, isSilent: false, fail: false, hear: (_: string): void => {}, goUp: (): void => {} };
      const calls: Calls = {
        async send(text) {
          if (line.fail) throw new Error('no connection');
          if (!line.isSilent) for (const other of lines) if (other.isUp) other.hear(text);
        },
        listen(listener) {
          line.hear = listener;
          return () => {};
        },
        isUp: () => line.isUp,
        lines: () => ({ line: line.isUp }),
        onUp(listener) {
          line.goUp = listener;
        },
      };
      const bus = createSharedBus(calls, { processId: `bus of ${name}`, onFault: () => {}, clock });
      return Object.assign(line, { name, bus, isLost: bus.watchLosses() });
    });
    /** Lets three heartbeats pass, the most that a beat may be late. */
    const beat = async (alive = lines): Promise<void> => {
      for (let count = 0; count < 3; count += 1) {
        for (const { bus, name } of alive)
          bus.beat(
            name,
            names.filter((other) => other !== name),
            { position: 0, writers: [] },
          );
        clock.advance(5_000);
        await settled();
      }
    };
    const notify = async ({ bus }: { bus: Bus }): Promise<void> => {
      bus.notify({ kind: 'events', sessionId: 'sess_1', first: 1, last: 1 });
      clock.advance(5);
      await settled();
    };
    return { lines, beat, notify, clock };
  }
  const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

  async function startPair() {
    const { lines, ...rest } = connectProcesses('one', 'two');
    const [one, two] = lines;
    if (one === undefined || two === undefined) throw new Error('no processes');
    await rest.beat();
    for (const { isLost } of lines) isLost();
    return { one, two, ...rest };
  }

  it('is not suspected when messages are delivered, which every process hears once', async () => {
    const { one, two, clock } = await startPair();
    const heard: Signal[] = [];
    two.bus.listen((signal) => heard.push(signal));
    const signal = { kind: 'progress', sessionId: 'sess_1' } as const;
    for (let count = 0; count < 3; count += 1) one.bus.notify(signal);
    clock.advance(5);
    await settled();
    expect([heard, two.isLost()]).toEqual([[signal], false]);
  });

  it('does not happen when agents connect: one text names all that did within a quarter of a second', async () => {
    const { one, two, clock } = await startPair();
    const heard: Signal[] = [];
    two.bus.listen((signal) => heard.push(signal));
    const signals = ['agent_1', 'agent_2'].map((agentId) => ({ kind: 'presence' as const, agentId }));
    for (const signal of signals) {
      one.bus.notify(signal);
      clock.advance(100);
      await settled();
    }
    expect(heard).toEqual([]);
    clock.advance(60);
    await settled();
    expect([heard, two.isLost()]).toEqual([signals, false]);
  });

  it('is not suspected while heartbeats arrive, even if nothing else happens', async () => {
    const { one, two, beat, notify } = await startPair();
    for (let count = 0; count < 10; count += 1) {
      await beat();
      await notify(one);
      expect([one.isLost(), two.isLost()]).toEqual([false, false]);
    }
  });

  it('is looked for from before a commit that takes long, until it can be seen', async () => {
    const { lines, clock } = connectProcesses('one');
    const [one] = lines;
    if (one === undefined) throw new Error('no process');
    const positions: unknown[] = [];
    const beat = (position: number, ...writers: string[]): void => {
      one.bus.beat('one', [], { position, writers });
      positions.push(one.bus.settledPosition());
      clock.advance(5_000);
    };
    beat(1);
    beat(2, '700', '701');
    for (let position = 3; position < 400; position += 1) beat(position, '701', `${700 + position}`);
    expect(new Set(positions)).toEqual(new Set([1]));
    beat(400);
    expect(one.bus.settledPosition()).toBe(400);
  });

  it('is noticed by the number of the next text, once', async () => {
    const { one, two, notify } = await startPair();
    one.isSilent = true;
    await notify(one);
    one.isSilent = false;
    expect(two.isLost()).toBe(false);
    await notify(one);
    expect([two.isLost(), two.isLost(), one.isLost()]).toEqual([true, false, false]);
  });

  it('is noticed when its process could not send it', async () => {
    const { one, two, beat, notify } = await startPair();
    one.fail = true;
    await notify(one);
    one.fail = false;
    await beat();
    expect(two.isLost()).toBe(true);
  });

  it('is suspected while a process that should be alive is silent, and no longer when it is back', async () => {
    const { one, two, beat } = await startPair();
    await beat([two]);
    expect([two.isLost(), two.isLost()]).toEqual([true, true]);
    await beat();
    two.isLost();
    expect([two.isLost(), one.isLost()]).toEqual([false, false]);
  });

  it('is suspected until a new process is heard, because it may use another bus', async () => {
    const { lines, beat } = connectProcesses('one', 'two');
    const [one, two] = lines;
    expect(one?.isLost()).toBe(true);
    if (two !== undefined) two.isSilent = true;
    await beat();
    expect([one?.isLost(), one?.isLost()]).toEqual([true, true]);
  });

  it('is suspected while this process is disconnected, and once after it reconnects', async () => {
    const { two } = await startPair();
    two.isUp = false;
    expect([two.isLost(), two.isLost()]).toEqual([true, true]);
    two.isUp = true;
    two.goUp();
    expect([two.isLost(), two.isLost()]).toEqual([true, false]);
  });

  it('is noticed by everyone when a process does not know whether its commit succeeded', async () => {
    const { one, two, clock } = await startPair();
    one.bus.noteLoss();
    clock.advance(5);
    await settled();
    expect([one.isLost(), two.isLost()]).toEqual([true, true]);
  });
});
