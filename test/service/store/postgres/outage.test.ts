import { randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openPostgres } from '../../../../src/service/store/postgres.js';
import { createHome, type Home } from '../../../acceptance/program.js';
import { type Actor, callApi, operate } from '../../../support/actors.js';
import { startCluster } from '../../../support/cluster.js';
import { type Answer, request } from '../../../support/http.js';
import { field } from '../../../support/json.js';
import { askClientToken } from '../../../support/oauth.js';
import { POSTGRES_URL } from '../../../support/postgres-server.js';
import { startTestService, type TestService } from '../../../support/service.js';
import { type SocketCutter, startSocketCutter } from '../../../support/socket-cutter.js';
import { createSchema, type Schema } from '../../../support/stores.js';
import { until } from '../../../support/until.js';

let schema: Schema;
let lines: string[];
beforeEach(() => {
  schema = createSchema();
  lines = [];
});
afterEach(() => schema.drop());

const log = {
  info: (event: string) => void lines.push(event),
  warn: (event: string) => void lines.push(event),
  error: (event: string, error: unknown) => void lines.push(`${event} ${error}`),
};

describe('a service whose PostgreSQL is down', () => {
  let cutter: SocketCutter;
  let service: TestService;
  let alice: Actor;
  let session: string;
  beforeEach(async () => {
    cutter = await startSocketCutter('all');
    cutter.targetPort = Number(new URL(POSTGRES_URL).port || 5432);
    const url = new URL(schema.url);
    url.port = String(cutter.port);
    service = await startTestService({ databaseUrl: url.href, areLimitsOn: false, log, metricsPort: 0 });
    alice = await service.createAgent('alice');
    session = await alice.mustCreate();
    await alice.token('ws');
  });
  afterEach(async () => {
    await service.stop();
    await cutter.stop();
  });

  const everyCall = async (): Promise<Answer[]> =>
    Promise.all([
      alice.post(`/sessions/${session}/messages`, { content: 'x' }),
      alice.get(`/sessions/${session}/events`),
      alice.upload({ bytes: 'x' }),
      askClientToken(service.place, alice.credentials, service.place.baseUrl, 'sessions:read'),
      alice
        .connect()
        .then((answer) => ('status' in answer ? answer : Promise.reject(new Error('a socket was opened')))),
    ]);

  it('answers every call with 503, Retry-After and the envelope, and recovers on its own', async () => {
    const { targetPort } = cutter;
    cutter.targetPort = 1;
    cutter.cutAll('reset');
    for (const answer of await everyCall()) {
      expect([answer.status, field(answer.json, 'error.code')]).toEqual([503, 'INTERNAL_ERROR']);
      expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1);
    }
    await until('it is not ready', async () => (await request(`${service.authUrl}/ready`)).status === 503);
    expect(await operate(service.operator, 'GET', '/status')).toMatchObject({
      ...{ pid: process.pid, not_ready: expect.stringContaining('connection to the database') },
      ...{ accounts: null, agents: null, sessions: null, sockets: null },
    });
    // By now, the service has noticed, and no request waits for the database.
    const startedAt = performance.now();
    for (let i = 0; i < 40; i += 1) expect((await alice.get(`/sessions/${session}/events`)).status).toBe(503);
    expect(performance.now() - startedAt).toBeLessThan(40 * 1_000);
    expect(lines.filter((line) => line.startsWith('database_down '))).toHaveLength(1);
    expect(lines.filter((line) => line.startsWith('request_failed'))).toEqual([]);
    const { text } = await request(service.metricsUrl ?? '');
    expect(Number(/^asp_database_failures_total\{failure="lost"\} (\d+)$/m.exec(text)?.[1])).toBeGreaterThan(0);
    for (const name of ['asp_database_bytes', 'asp_backlog_events{queue="inboxes"}'])
      expect(text).toContain(`${name} NaN`);

    cutter.targetPort = targetPort;
    await until(
      'it writes again',
      async () => (await alice.post(`/sessions/${session}/messages`, { content: 'y' })).status === 201,
    );
    await until('it is ready again', async () => (await request(`${service.authUrl}/ready`)).status === 200);
    expect(await operate(service.operator, 'GET', '/status')).toMatchObject({ not_ready: null, sessions: 1 });
    expect(lines).toContain('database_up');
  });

  it('does the same while its tables are missing, as during a restore or at the wrong end of a failover', async () => {
    const name = new URL(schema.url).searchParams.get('search_path');
    const other = new pg.Client({ connectionString: POSTGRES_URL });
    await other.connect();
    await other.query(`ALTER SCHEMA ${name} RENAME TO ${name}_away`);
    try {
      for (const answer of await everyCall()) {
        expect([answer.status, field(answer.json, 'error.code')]).toEqual([503, 'INTERNAL_ERROR']);
        expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1);
      }
      await until('it is not ready', async () => (await request(`${service.authUrl}/ready`)).status === 503);
      expect(lines.filter((line) => line.startsWith('request_failed'))).toEqual([]);
    } finally {
      await other.query(`ALTER SCHEMA ${name}_away RENAME TO ${name}`);
      await other.end();
    }
    await until(
      'it writes again',
      async () => (await alice.post(`/sessions/${session}/messages`, { content: 'y' })).status === 201,
    );
  });

  it('answers with 503 even if PostgreSQL falls silent', async () => {
    cutter.cutAll('silence');
    const { targetPort } = cutter;
    cutter.targetPort = 1;
    const answers = await Promise.all(Array.from({ length: 30 }, () => alice.get(`/sessions/${session}/events`)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([503]));
    cutter.targetPort = targetPort;
    await until('it reads again', async () => (await alice.get(`/sessions/${session}/events`)).status === 200);
  });
});

describe('a connection for notifications that dies without closing', () => {
  it('is replaced within half a minute', async () => {
    const cutter = await startSocketCutter('all');
    cutter.targetPort = Number(new URL(POSTGRES_URL).port || 5432);
    const url = new URL(schema.url);
    url.port = String(cutter.port);
    const database = await openPostgres(url.href, { limits: { statementTimeoutMs: 1_000 } });
    const heard: string[] = [];
    database.calls.listen((text) => heard.push(text));
    const untilHeard = (text: string): Promise<boolean> => {
      const isHeard = async (): Promise<boolean> => {
        await database.calls.send(text).catch(() => {});
        return heard.includes(text);
      };
      return until(text, isHeard);
    };
    await untilHeard('before');
    expect(cutter.cutAll('silence')).toBeGreaterThan(0);
    await untilHeard('after');
    await database.close();
    await cutter.stop();
  });
});

describe('a connection for notifications that is lost again and again', () => {
  const usual = EventEmitter.defaultMaxListeners;
  afterEach(() => {
    EventEmitter.defaultMaxListeners = usual;
  });

  it('leaves nothing behind that would collect until the service stops', async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error): unknown => warnings.push(warning);
    process.on('warning', onWarning);
    const cutter = await startSocketCutter('all');
    cutter.targetPort = Number(new URL(POSTGRES_URL).port || 5432);
    const url = new URL(schema.url);
    url.port = String(cutter.port);
    // Node.js warns about more listeners than this on one signal.
    EventEmitter.defaultMaxListeners = 2;
    const database = await openPostgres(url.href);
    database.calls.listen(() => {});
    EventEmitter.defaultMaxListeners = usual;
    for (let times = 1; times <= 3; times += 1) {
      await until('it listens', async () => database.calls.isUp());
      cutter.cutAll('end');
      await until('it is lost', async () => !database.calls.isUp());
    }
    await until('it listens again', async () => database.calls.isUp());
    await database.close();
    await cutter.stop();
    process.off('warning', onWarning);
    expect(warnings.filter(({ message }) => message.includes('abort listeners'))).toEqual([]);
  });
});

describe('a service whose PostgreSQL responds but refuses a write', () => {
  let service: TestService;
  let alice: Actor;
  let session: string;
  let client: pg.Client;
  beforeEach(async () => {
    const databaseLimits = { lockTimeoutMs: 300, statementTimeoutMs: 3_000 };
    service = await startTestService({ databaseUrl: schema.url, databaseLimits, areLimitsOn: false, log });
    alice = await service.createAgent('alice');
    session = await alice.mustCreate();
    client = new pg.Client({ connectionString: schema.url });
    await client.connect();
    await client.query(`SET search_path = ${new URL(schema.url).searchParams.get('search_path')}`);
  });
  afterEach(async () => {
    await client.end();
    await service.stop();
  });

  /** The status of a write, and of the same write with the same key once nothing is in its way. */
  const writeTwice = async (clear: () => Promise<unknown>): Promise<readonly number[]> => {
    const send = (): Promise<Answer> => alice.post(`/sessions/${session}/messages`, { content: 'x' }, { key: 'k' });
    const refused = await send();
    if (refused.status === 503) expect(Number(refused.headers['retry-after'])).toBeGreaterThanOrEqual(1);
    expect(field(refused.json, 'error.code')).toBe('INTERNAL_ERROR');
    await clear();
    return [refused.status, (await send()).status];
  };
  const countMessages = async (): Promise<number> => {
    const { rows } = await client.query(`SELECT COUNT(*)::int AS count FROM event WHERE type = 'session.message'`);
    return rows[0]?.count;
  };

  it('answers with 503 and writes nothing while someone else holds a lock', async () => {
    // Only the message needs it. A whole table could also keep inboxes and heartbeats waiting, which say so, too.
    await client.query('BEGIN; SELECT 1 FROM session FOR UPDATE');
    expect(await writeTwice(() => client.query('ROLLBACK'))).toEqual([503, 201]);
    expect(await countMessages()).toBe(1);
    expect(lines.filter((line) => line.startsWith('database_failed '))).toHaveLength(1);
  });

  it.each(['40001', '40P01', '55P03', '57014', '53100', '53200', '53300', '57P01', '57P02', '57P03', '58030'])(
    'answers with 503 to a write that fails with %s, and the same write succeeds afterwards',
    async (code) => {
      await client.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '${code}'; END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION refuse()`);
      expect(await writeTwice(() => client.query('DROP FUNCTION refuse CASCADE'))).toEqual([503, 201]);
      expect(await countMessages()).toBe(1);
    },
  );
});

describe('a role with few connections', () => {
  it('makes calls wait if it has fewer connections than the service opens', async () => {
    const role = `asp_few_${randomBytes(6).toString('hex')}`;
    const admin = new pg.Client({ connectionString: POSTGRES_URL });
    await admin.connect();
    const { rows } = await admin.query<{ name: string }>('SELECT current_database() AS name');
    const database = rows[0]?.name;
    await admin.query(
      `CREATE ROLE ${role} LOGIN CONNECTION LIMIT 8; GRANT CREATE ON DATABASE "${database}" TO ${role}`,
    );
    const url = new URL(schema.url);
    url.username = role;
    try {
      const service = await startTestService({ databaseUrl: url.href, areLimitsOn: false });
      try {
        const alice = await service.createAgent('alice');
        const session = await alice.mustCreate();
        // More requests than connections, but few enough for a busy machine to answer in time.
        const answers = await Promise.all(Array.from({ length: 40 }, () => alice.get(`/sessions/${session}/events`)));
        expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
      } finally {
        await service.stop();
      }
    } finally {
      await schema.drop();
      await admin.query(`REVOKE CREATE ON DATABASE "${database}" FROM ${role}; DROP ROLE ${role}`);
      await admin.end();
    }
  });
});

describe('a service on a machine with a wrong clock', () => {
  let home: Home;
  afterEach(() => home?.dispose());

  it('says that it is five minutes ahead of its database, and is not ready', async () => {
    home = createHome();
    const hook = join(home.directory, 'ahead.cjs');
    writeFileSync(hook, 'const now = Date.now; Date.now = () => now() + 300_000;');
    const words = ['serve', '--port', '0', '--data', join(home.directory, 'data'), '--metrics-port', '0'];
    const environment = { ASP_DATABASE: schema.url, NODE_OPTIONS: `--require ${hook}` };
    const running = home.start(words, { environment });
    const [, url = ''] = await running.until('stdout', /^(http:\S+)$/m);
    const [, metrics = ''] = await running.until('stderr', /Metrics are at (\S+)\.$/m);
    await running.until('stderr', /clock/);
    const answer = await request(`${new URL(url).origin}/ready`);
    expect([answer.status, field(answer.json, 'error.code')]).toEqual([503, 'INTERNAL_ERROR']);
    const text = (await request(metrics)).text;
    expect(Number(/^asp_clock_offset_seconds (\S+)/m.exec(text)?.[1])).toBeGreaterThan(290);
    expect(text).toMatch(/^asp_ready 0$/m);
  });
});

describe('a service that does not index messages', () => {
  it('says at its start that they are not found later either', async () => {
    const home = createHome();
    try {
      const words = ['serve', '--port', '0', '--data', join(home.directory, 'data'), '--search', 'off'];
      const running = home.start(words, { environment: { ASP_DATABASE: schema.url } });
      const [note] = await running.until('stderr', /^Messages sent while .*$/m);
      expect(note).toBe('Messages sent while search is off are not found later, after it is on again.');
    } finally {
      await home.dispose();
    }
  });
});

describe('chores', () => {
  it('are each done by one of two services on one database', async () => {
    const name = new URL(schema.url).searchParams.get('search_path') ?? '';
    const cluster = await startCluster({ count: 2, databaseUrl: schema.url, name });
    const client = new pg.Client({ connectionString: POSTGRES_URL });
    await client.connect();
    const turns = async () =>
      (await client.query<{ name: string; taken_at: string }>(`SELECT name, taken_at FROM ${name}.chore`)).rows;
    const before = await turns();
    expect(before.map((row) => row.name)).toContain('forget_old_keys');
    const [one, two] = cluster.nodes;
    if (one === undefined || two === undefined) throw new Error('no nodes');
    two.running.kill('SIGTERM');
    await two.running.ended;
    await cluster.startAgain(two);
    // A newly started service checks at once whether chores are due, and they are not.
    expect(await turns()).toEqual(before);
    expect((await callApi(two.baseUrl, undefined, 'GET', '/agents/me')).status).toBe(401);
    await client.end();
    await cluster.stop();
  });
});
