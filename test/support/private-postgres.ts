import { type SpawnOptions, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { POSTGRES_URL } from './postgres-server.js';

const VERSIONS = '/usr/lib/postgresql';
const TRIES = 5;
/** Below the ports that systems use for outgoing connections. */
const [PORT_MIN, PORTS] = [20_000, 10_000];

/** A PostgreSQL server for one test, which may crash it. */
export interface PrivatePostgres {
  readonly url: string;
  readonly port: number;
  /** Kills the server, as a crash would, and starts it again. It recovers all acknowledged writes. */
  restartImmediately(): Promise<void>;
  /** Kills the server. It stays down. */
  crash(): Promise<void>;
  /** Creates a standby that streams from this server and is read-only until promoted. */
  createStandby(): Promise<PrivatePostgres>;
  promote(): Promise<void>;
  stop(): Promise<void>;
}

/** Returns why a server cannot be started, or undefined. A test that skips must print the reason. */
export function whyNoPrivatePostgres(): string | undefined {
  if (POSTGRES_URL === '') return 'ASP_TEST_POSTGRES is empty';
  if (binFolder() === undefined) return `no initdb below ${VERSIONS}`;
  return process.getuid?.() === 0 && userIds() === undefined ? 'it does not run as root' : undefined;
}

/** Returns why the tests do not start a server that all of them share, or undefined. */
export const whyNotOurs = (): string | undefined =>
  process.env['ASP_TEST_POSTGRES'] === undefined ? whyNoPrivatePostgres() : 'ASP_TEST_POSTGRES names one';

function binFolder(): string | undefined {
  if (!existsSync(VERSIONS)) return undefined;
  const folders = readdirSync(VERSIONS).map((version) => join(VERSIONS, version, 'bin'));
  return folders.toSorted().findLast((folder) => existsSync(join(folder, 'initdb')));
}

/** Returns the user that runs PostgreSQL when the tests run as root, which PostgreSQL refuses to run as. */
function userIds(): { readonly uid: number; readonly gid: number } | undefined {
  const ids = ['-u', '-g'].map((flag) => spawnSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  const [uid, gid] = ids.map(({ status, stdout }) => (status === 0 ? Number(stdout) : undefined));
  return uid === undefined || gid === undefined ? undefined : { uid, gid };
}

export async function startPrivatePostgres(): Promise<PrivatePostgres> {
  return startIn(async (run, data) => {
    if (!(await run('initdb', '-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-sync')))
      throw new Error(`initdb failed for ${data}`);
  });
}

type Run = (program: string, ...words: string[]) => Promise<boolean>;

/** Starts a server on the data that `create` makes. */
async function startIn(create: (run: Run, data: string) => Promise<void>): Promise<PrivatePostgres> {
  const folder = mkdtempSync(join(tmpdir(), 'asp-postgres-'));
  const user = process.getuid?.() === 0 ? userIds() : undefined;
  if (user !== undefined) chownSync(folder, user.uid, user.gid);
  const data = join(folder, 'data');
  // Discard the output: a server that inherits a pipe would keep its reader waiting.
  const options: SpawnOptions = { cwd: folder, stdio: 'ignore', ...user };
  const run: Run = async (program, ...words) => {
    const [status] = await once(spawn(join(binFolder() ?? '', program), words, options), 'exit');
    return status === 0;
  };
  const control = (...words: string[]): Promise<boolean> =>
    run('pg_ctl', '-D', data, '-l', join(folder, 'log'), '-w', '-t', '60', ...words);
  const must = async (isDone: Promise<boolean>, what: string): Promise<void> => {
    if (!(await isDone)) throw new Error(`the server in ${folder} did not ${what}`);
  };

  await create(run, data);
  let port = 0;
  let isUp = false;
  for (let tries = 0; tries < TRIES && !isUp; tries += 1) {
    port = PORT_MIN + Math.floor(Math.random() * PORTS);
    isUp = await control('start', '-o', `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''`);
  }
  if (!isUp) throw new Error(`no server starts in ${folder}`);
  // Stops the server and removes its data when this process has ended, however it did.
  const end = 'read -r _; "$0" -D "$1" stop -m immediate; rm -rf "$1"';
  const guardOptions: SpawnOptions = { ...options, stdio: ['pipe', 'ignore', 'ignore'], detached: true };
  const guard = spawn('sh', ['-c', end, join(binFolder() ?? '', 'pg_ctl'), data], guardOptions);
  guard.unref();
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    port,
    restartImmediately: () => must(control('restart', '-m', 'immediate'), 'come back'),
    crash: () => must(control('stop', '-m', 'immediate'), 'end'),
    createStandby: () =>
      startIn(async (runThere, copy) => {
        const from = `postgres://postgres@127.0.0.1:${port}/postgres`;
        if (!(await runThere('pg_basebackup', '-d', from, '-D', copy, '-R', '-c', 'fast', '-X', 'stream')))
          throw new Error(`no base backup in ${copy}`);
      }),
    promote: () => must(control('promote'), 'become the primary'),
    async stop() {
      guard.kill();
      await control('stop', '-m', 'immediate');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
