import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, describe, expect, it } from 'vitest';

import { openPostgres } from '../../../../src/service/store/postgres.js';
import { missing } from '../../../acceptance/program.js';
import { POSTGRES_URL } from '../../../support/postgres-server.js';
import { startTestService } from '../../../support/service.js';
import { createSchema, type Schema } from '../../../support/stores.js';
import { until } from '../../../support/until.js';

const reason = missing('pgbouncer');
const NOBODY = 'nobody';

let schema: Schema | undefined;
let stops: (() => void)[] = [];
afterEach(async () => {
  for (const stop of stops) stop();
  stops = [];
  await schema?.drop();
  schema = undefined;
});

/** Starts a PgBouncer in front of the test database. Returns a URL through it to a separate schema. */
async function startPooler(settings: Readonly<Record<string, string | number>>): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'asp-pooler-'));
  const server = new URL(POSTGRES_URL);
  const port = 20_000 + Math.floor(Math.random() * 10_000);
  const lines = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'any',
    default_pool_size: 30,
    ...settings,
  };
  const database = `* = host=${server.hostname} port=${server.port || 5432} user=${server.username}`;
  const ini = join(folder, 'pgbouncer.ini');
  writeFileSync(
    ini,
    `[databases]\n${database}\n[pgbouncer]\n${Object.entries(lines)
      .map(([name, value]) => `${name} = ${value}`)
      .join('\n')}\n`,
  );
  const isRoot = process.getuid?.() === 0;
  const uid = isRoot ? Number(execFileSync('id', ['-u', NOBODY], { encoding: 'utf8' })) : undefined;
  if (uid !== undefined) for (const path of [folder, ini]) chownSync(path, uid, uid);
  const child: ChildProcess = spawn('pgbouncer', ['-q', ini], {
    stdio: 'ignore',
    ...(uid === undefined ? {} : { uid }),
  });
  stops.push(() => {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  await until('the pooler listens', () => canConnect(port));
  schema = createSchema();
  const url = new URL(schema.url);
  url.port = String(port);
  url.hostname = '127.0.0.1';
  return url.href;
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
    const url = await startPooler({ pool_mode: 'session' });
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
    const url = await startPooler({ pool_mode: mode });
    await expect(openPostgres(url)).rejects.toThrow(/pool_mode = session/);
    expect(await tablesOf(new URL(url).searchParams.get('search_path') ?? '')).toBe(0);
  });

  it('a pooler with too few connections is refused, and says how many are needed', async () => {
    const url = await startPooler({ pool_mode: 'session', default_pool_size: 2 });
    await expect(openPostgres(url)).rejects.toThrow(/A service needs 14/);
  });
});
