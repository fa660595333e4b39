import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { Signal } from '../../../src/service/core/bus.js';
import type { Calls } from '../../../src/service/core/database.js';
import { createSharedBus } from '../../../src/service/messaging/shared-bus.js';
import { createActor } from '../../support/actors.js';
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

  /** Only a superuser, or the service's own role, can see it. */
  const findChannel = (): Promise<string> =>
    until('both services listen', async () => {
      const { rows } = await admin.query<{ query: string }>(
        `SELECT query FROM pg_stat_activity WHERE application_name = $1 AND query LIKE 'LISTEN %'`,
        [name],
      );
      return rows.length === 2 ? rows[0]?.query.replace('LISTEN ', '') : undefined;
    });

  it('a channel of notifications has a name that cannot be guessed from the schema', async () => {
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

describe('a notification', () => {
  const hear = (text: string): Signal[] => {
    let deliver = (_: string): void => {};
    const calls: Calls = {
      send: async () => {},
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

  it('a notification of this version is heard, whatever members a later release has added to it', () => {
    const text = { v: 1, from: 'other', sessions: [['sess_1', 2, 3]], revoked: ['oac_1'], later: { any: 'thing' } };
    expect(hear(JSON.stringify(text))).toEqual([
      { kind: 'events', sessionId: 'sess_1', first: 2, last: 3 },
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
