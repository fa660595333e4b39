import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, describe, expect, it } from 'vitest';

import { openPostgres } from '../../../../src/service/store/postgres.js';
import { missing } from '../../../acceptance/program.js';
import { request } from '../../../support/http.js';
import { POSTGRES_URL } from '../../../support/postgres-server.js';
import { startTestService } from '../../../support/service.js';
import { createSchema, type Schema } from '../../../support/stores.js';
import { until } from '../../../support/until.js';

const reason = missing('pgbouncer');
const NOBODY = 'nobody';
const CONNECTIONS = 40;

let schema: Schema | undefined;
let stops: (() => void)[] = [];
afterEach(async () => {
  for (const stop of stops) stop();
  stops = [];
  await schema?.drop();
  schema = undefined;
});

type Settings = Readonly<Record<string, string | number>>;

interface Pooler {
  /** Leads through it to a separate schema. */
  readonly url: string;
  /** Kills it and starts it again with other settings. */
  restart(settings: Settings): Promise<void>;
  /** Keeps its connections. */
  reload(settings: Settings): void;
}

/** Starts a PgBouncer in front of the test database. */
async function startPooler(first: Settings): Promise<Pooler> {
  const folder = mkdtempSync(join(tmpdir(), 'asp-pooler-'));
  const server = new URL(POSTGRES_URL);
  const port = 20_000 + Math.floor(Math.random() * 10_000);
  const usual = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'any',
    default_pool_size: 30,
  };
  const database = `* = host=${server.hostname} port=${server.port || 5432} user=${server.username}`;
  const ini = join(folder, 'pgbouncer.ini');
  const isRoot = process.getuid?.() === 0;
  const uid = isRoot ? Number(execFileSync('id', ['-u', NOBODY], { encoding: 'utf8' })) : undefined;
  let child: ChildProcess | undefined;
  const configure = (settings: Settings): void => {
    const lines = Object.entries({ ...usual, ...settings }).map(([name, value]) => `${name} = ${value}`);
    writeFileSync(ini, `[databases]\n${database}\n[pgbouncer]\n${lines.join('\n')}\n`);
  };
  const start = async (settings: Settings): Promise<void> => {
    configure(settings);
    if (uid !== undefined) for (const path of [folder, ini]) chownSync(path, uid, uid);
    child = spawn('pgbouncer', ['-q', ini], { stdio: 'ignore', ...(uid === undefined ? {} : { uid }) });
    await until('the pooler listens', () => canConnect(port));
  };
  stops.push(() => {
    child?.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  await start(first);
  schema = createSchema();
  const url = new URL(schema.url);
  url.port = String(port);
  url.hostname = '127.0.0.1';
  return {
    url: url.href,
    async restart(settings) {
      const ended = child && once(child, 'exit');
      child?.kill('SIGKILL');
      await ended;
      await start(settings);
    },
    reload(settings) {
      configure(settings);
      child?.kill('SIGHUP');
    },
  };
}

function canConnect(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true));
    socket.once('error', () => resolve(false)).once('connect', () => socket.destroy());
  });
}

const tablesOf = async (name: string): Promise<number> => {
  const client = new pg.Client({ connectionString: POSTGRES_URL });
  await client.connect();
  const { rowCount } = await client.query('SELECT 1 FROM pg_tables WHERE schemaname = $1', [name]);
  await client.end();
  return rowCount ?? 0;
};

describe.skipIf(reason !== undefined)(`behind PgBouncer ${reason ?? ''}`, () => {
  it('a service runs in the requested schema behind a pooler in session mode', async () => {
    const { url } = await startPooler({ pool_mode: 'session' });
    const one = await startTestService({ databaseUrl: url });
    const two = await startTestService({ databaseUrl: url, publicUrl: one.authUrl });
    const [alice, bob] = [await one.createAgent('alice'), await one.createAgent('bob')];
    const session = await alice.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(session);
    const socket = await bob.mustConnect(undefined, `ws://127.0.0.1:${two.port}/connect`);
    await alice.mustSend(session, 'hello');
    await socket.mustReceiveEvent('session.message', session);
    await socket.close();
    await two.stop();
    await one.stop();
    expect(await tablesOf(new URL(url).searchParams.get('search_path') ?? '')).toBeGreaterThan(20);
  });

  it.each(['transaction', 'statement'])('a pooler of %ss is refused, and says what it must do', async (mode) => {
    const { url } = await startPooler({ pool_mode: mode });
    await expect(openPostgres(url)).rejects.toThrow(/pool_mode = session/);
    expect(await tablesOf(new URL(url).searchParams.get('search_path') ?? '')).toBe(0);
  });

  it('a pooler that stops keeping sessions is noticed: calls get 503, the log says why, until it keeps them again', async () => {
    const { url, restart } = await startPooler({ pool_mode: 'session' });
    const faults: string[] = [];
    const log = {
      info: () => {},
      warn: () => {},
      error: (event: string, error: unknown) => faults.push(`${event}: ${error instanceof Error ? error.message : ''}`),
    };
    const service = await startTestService({ databaseUrl: url, areLimitsOn: false, log });
    const [alice, bob] = [await service.createAgent('alice'), await service.createAgent('bob')];
    const session = await alice.mustCreate({ invite: [bob.handle] });
    const callAll = async (): Promise<number[]> => {
      const calls = Array.from({ length: 10 }, (_, number) => [
        alice.post(`/sessions/${session}/messages`, { content: String(number) }),
        alice.get(`/sessions/${session}/events`),
        bob.get('/sessions'),
      ]);
      return (await Promise.all(calls.flat())).map(({ status }) => status);
    };
    const ready = async () => (await request(`http://127.0.0.1:${service.port}/ready`)).status;
    expect(await ready()).toBe(200);
    // Everyone has a token from now on.
    await callAll();
    await restart({ pool_mode: 'transaction' });
    const seen = new Set<number>();
    await until('it is noticed', async () => {
      const statuses = await callAll();
      for (const status of statuses) seen.add(status);
      return statuses.every((status) => status === 503);
    });
    expect(seen).not.toContain(500);
    expect(await ready()).toBe(503);
    for (let round = 0; round < 5; round += 1) expect(new Set(await callAll())).toEqual(new Set([503]));
    expect(faults).toContainEqual(expect.stringMatching(/^database_down: .*pooler.*pool_mode = session/));
    expect(faults).toContainEqual(expect.stringMatching(/^not_ready: .*pooler.*pool_mode = session/));
    await restart({ pool_mode: 'session' });
    await until('it is ready again', async () => (await ready()) === 200);
    expect((await callAll()).every((status) => status === 200 || status === 201)).toBe(true);
    await service.stop();
  });

  it('no connection from before a pooler kept sessions again is used: it could lead to another schema', async () => {
    const usual = { default_pool_size: 2 * CONNECTIONS };
    const { url, reload } = await startPooler({ ...usual, pool_mode: 'session' });
    const database = await openPostgres(url, { limits: { connections: CONNECTIONS } });
    const one = (): Promise<unknown> => database.read((query) => query.get('SELECT 1 AS one'));
    let count = 0;
    /** The schema on each connection. Every statement is new, so that none is missing there. */
    const schemas = (): Promise<(string | undefined)[]> =>
      Promise.all(
        Array.from({ length: CONNECTIONS }, () =>
          database.read(async (query) => {
            count += 1;
            const sql = `SELECT current_schema()::text AS schema, pg_sleep(0.05)::text, ${count} AS number`;
            return (await query.get<{ schema: string }>(sql))?.schema;
          }),
        ),
      );
    const expected = new Set([new URL(url).searchParams.get('search_path')]);
    expect(new Set(await schemas())).toEqual(expected);
    await Promise.all(Array.from({ length: CONNECTIONS }, one));
    reload({ ...usual, pool_mode: 'transaction', server_reset_query_always: 1 });
    await until('connections are mixed up', async () => (await schemas()).includes('public'));
    await until('it is noticed', () =>
      one().then(
        () => false,
        (error) => /pool_mode = session/.test(String(error)),
      ),
    );
    reload({ ...usual, pool_mode: 'session' });
    const found = await until('calls are answered again', () => schemas().catch(() => undefined));
    expect(new Set(found)).toEqual(expected);
    await database.close();
  });

  it('a pooler that stops keeping sessions but knows all prepared statements is noticed by missing tables or by a new connection', async () => {
    const { url, reload } = await startPooler({ pool_mode: 'session' });
    const database = await openPostgres(url);
    let count = 0;
    // Every statement is new, so that none is missing on another connection. Each takes a while, so that they need several.
    const read = (): Promise<unknown> => {
      count += 1;
      return database.read((query) => query.all(`SELECT pg_sleep(0.05), ${count} AS number, count(*) FROM session`));
    };
    await read();
    reload({ pool_mode: 'transaction', server_reset_query_always: 1 });
    await until('it is noticed', () =>
      Promise.all(Array.from({ length: 8 }, read)).then(
        () => false,
        // If no statement runs before the first one fails, all that follow fail while they connect.
        (error) => /pool_mode = session|Does a pooler ignore this setting/.test(String(error)),
      ),
    );
    await database.close();
  });

  it('a pooler with too few connections is refused, and says how many are needed', async () => {
    const { url } = await startPooler({ pool_mode: 'session', default_pool_size: 2 });
    await expect(openPostgres(url)).rejects.toThrow(/A service needs 14/);
  });
});
