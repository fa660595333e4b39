import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type Clock, systemClock } from '../../../../src/kit/clock.js';
import { DEFAULT_POSTGRES_LIMITS } from '../../../../src/service/core/database.js';
import { type RunningService, startService } from '../../../../src/service/service.js';
import { type Actor, actorOf, callApi, createActor, type Operator, operate } from '../../../support/actors.js';
import { createTestClock } from '../../../support/clock.js';
import { request } from '../../../support/http.js';
import { discover, headerOf, type Place, register } from '../../../support/oauth.js';
import { startTestService } from '../../../support/service.js';
import { stopWithSockets } from '../../../support/stop-with-sockets.js';
import { createSchema } from '../../../support/stores.js';

const MINUTE_MS = 60_000;

/** Moves the clock of both services. */
let shift = 0;
const clock: Clock = {
  now: () => systemClock.now() + shift,
  monotonic: () => systemClock.monotonic() + shift,
  schedule: (delayMs, action, isBackground) => systemClock.schedule(delayMs, action, isBackground),
};

describe('operating two services on one database', () => {
  const schema = createSchema();
  let one: RunningService;
  let two: RunningService;
  let place: Place;
  let operator: Operator;
  let alice: Actor;
  beforeAll(async () => {
    const options = { host: '127.0.0.1', port: 0, data: 'memory', databaseUrl: schema.url, clock } as const;
    one = await startService({ ...options, metricsPort: 0 });
    two = await startService({ ...options, publicUrl: one.authUrl });
    place = await discover(one.baseUrl);
    operator = { url: one.operatorUrl, secret: one.operatorSecret };
    alice = await createActor(place, operator, 'alice');
  });
  afterAll(async () => {
    await two?.stop();
    await one?.stop();
    await schema.drop();
  });
  const doors = (): string[] => [one.baseUrl, `http://127.0.0.1:${two.port}/v1`];

  it('each is ready while the database answers', async () => {
    for (const door of doors()) expect((await request(`${new URL(door).origin}/ready`)).status).toBe(200);
  });

  it('the size of the database and the commits are counted', async () => {
    await alice.mustSend(await alice.mustCreate(), 'hello');
    const { text } = await request(one.metricsUrl ?? '');
    expect(Number(/^asp_database_bytes (\d+)/m.exec(text)?.[1])).toBeGreaterThan(1e5);
    expect(Number(/^asp_commit_writes_count (\d+)/m.exec(text)?.[1])).toBeGreaterThan(0);
  });

  it('the connections to PostgreSQL, the one that listens and the backlog are measured', async () => {
    const { text } = await request(one.metricsUrl ?? '');
    const read = (sample: string): number =>
      Number(
        text
          .split('\n')
          .find((line) => line.startsWith(`${sample} `))
          ?.slice(sample.length),
      );
    expect(read('asp_database_connections_max{pool="work"}') + read('asp_database_connections_max{pool="aside"}')).toBe(
      DEFAULT_POSTGRES_LIMITS.connections - 1,
    );
    for (const pool of ['work', 'aside']) {
      const open = ['used', 'idle'].map((state) => read(`asp_database_connections{pool="${pool}",state="${state}"}`));
      expect(open.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(0);
    }
    expect(read('asp_bus_connected{bus="listen"}')).toBe(1);
    expect(text).not.toContain('bus="nats"');
    for (const queue of ['inboxes', 'search'])
      expect(read(`asp_backlog_events{queue="${queue}"}`)).toBeGreaterThanOrEqual(0);
    expect(read('asp_signing_key_created_timestamp_seconds')).toBeGreaterThan(1e9);
  });

  it('registrations from one address share one limit and one Retry-After', async () => {
    const registerUrls = [place.registerUrl, place.registerUrl.replace(`:${one.port}`, `:${two.port}`)];
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, index) => register({ ...place, registerUrl: registerUrls[index % 2] ?? '' })),
    );
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(20);
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused).toHaveLength(10);
    for (const { headers } of refused) expect(Number(headers['retry-after'])).toBeGreaterThan(3_500);
  });

  it('the other knows rotated keys before they sign, and no token fails at either', async () => {
    const kids = new Set<string>();
    for (let round = 0; round < 3; round += 1) {
      const { rotated } = (await operate(operator, 'POST', '/keys/rotate')) as { rotated: boolean };
      expect(rotated).toBe(true);
      const tokens: string[] = [];
      for (const step of [0, 5, 6]) {
        shift += step * MINUTE_MS;
        const token = await actorOf(place, alice.handle, alice.credentials).token();
        tokens.push(token);
        kids.add((headerOf(token) as { kid: string }).kid);
        for (const door of doors())
          for (const earlier of tokens)
            expect((await callApi(door, earlier, 'GET', '/agents/me')).status, `round ${round}`).toBe(200);
      }
    }
    expect(kids.size).toBe(4);
  });
});

describe('a service whose clients can go to others', () => {
  it('closes its sockets a few at a time, so that not all of them get there at once', async () => {
    const schema = createSchema();
    const testClock = createTestClock();
    const service = await startTestService({ clock: testClock, areLimitsOn: false, databaseUrl: schema.url });
    expect(await stopWithSockets(service, testClock, 42)).toBe(25);
    await schema.drop();
  });
});
