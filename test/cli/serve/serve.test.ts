import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../../src/kit/clock.js';
import {
  createHome,
  type Home,
  json,
  type Running,
  type ServiceProcess,
  startServe,
} from '../../acceptance/program.js';
import { captureStreams } from '../../support/captured-streams.js';
import { request } from '../../support/http.js';
import { until } from '../../support/until.js';
import { runWords } from '../captured-run.js';

const HOUR_MS = 3_600_000;

interface Failure {
  error: { code: string; message: string; next?: string[] };
}
const failureOf = (stderr: string): Failure['error'] => json<Failure>(stderr.trim().split('\n').at(-1) ?? '').error;
const recordFile = (home: Home): string => join(home.directory, 'run/asp-cli/serve/default.json');
/** Whether a process is running. A zombie has ended, even if its exit code has not been read. */
const isAlive = (pid: number): boolean => {
  const { status, stdout } = spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' });
  return status === 0 && !stdout.startsWith('Z');
};

describe('asp serve starts', () => {
  let home: Home;
  const started: Running[] = [];
  beforeEach(() => {
    home = createHome();
  });
  afterEach(async () => {
    for (const one of started.splice(0)) {
      one.kill('SIGKILL');
      await one.ended;
    }
    await home.dispose();
  });
  const serve = (...words: string[]): Running => {
    const one = home.start(['serve', '--port', '0', '--data', 'memory', ...words]);
    started.push(one);
    return one;
  };

  it('prints its base URL, and nothing else on stdout, once it accepts requests', async () => {
    const running = serve();
    const [, url = ''] = await running.until('stdout', /^(http:\S+)$/m);
    expect((await request(`${new URL(url).origin}/health`)).status).toBe(200);
    expect(running.stdout()).toBe(`${url}\n`);
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/v1$/);
  });

  it.skipIf(process.platform !== 'linux').each([
    ['a file', (directory: string) => join(directory, 'notes.txt'), /is a file/],
    ['below a file', (directory: string) => join(directory, 'notes.txt/data'), /is a file/],
    ['in /proc', () => '/proc/asp/data', /cannot be created/],
    ['in /sys', () => '/sys/asp-data', /does not allow|no access|read-only/],
  ])('refuses a data folder that is %s with exit 2, at once', async (_, pathIn, why) => {
    writeFileSync(join(home.directory, 'notes.txt'), 'mine');
    const words = ['serve', '--port', '0', '--json', '--data', pathIn(home.directory)];
    const running = home.start(words);
    const { status, stderr } = await running.ended;
    expect(failureOf(stderr)).toMatchObject({ code: 'ASP_CONFIG', message: expect.stringContaining('data folder') });
    expect({ status, hint: json<{ error: { hint: string } }>(stderr).error.hint }).toEqual({
      status: 2,
      hint: expect.stringMatching(why),
    });
    expect(readFileSync(join(home.directory, 'notes.txt'), 'utf8')).toBe('mine');
  });

  it('refuses a security log that is a folder, and says why', async () => {
    const { status, stderr } = await serve('--json', '--security-log', home.directory).ended;
    expect({ status, error: json<{ error: object }>(stderr).error }).toMatchObject({
      status: 2,
      error: { message: `Cannot open the security log ${home.directory}.`, hint: 'it is a folder (EISDIR).' },
    });
  });

  it('refuses metrics on its own port, and says so', async () => {
    const running = serve();
    const [, url = ''] = await running.until('stdout', /^(http:\S+)$/m);
    running.kill('SIGTERM');
    await running.ended;
    const { port } = new URL(url);
    const { status, stderr } = await serve('--json', '--port', port, '--metrics-port', port).ended;
    expect({ status, error: json<{ error: object }>(stderr).error }).toMatchObject({
      status: 2,
      error: { code: 'ASP_USAGE', message: `--port and --metrics-port are both ${port}.` },
    });
  });

  it('--json prints one document with every address, the pid and the version, and no secret', async () => {
    const running = serve('--json');
    await running.until('stdout', /\n/);
    const document = json(running.stdout());
    expect(Object.keys(document).sort()).toEqual(['auth_url', 'pid', 'url', 'version', 'web_url', 'ws_url']);
    expect(document).toMatchObject({ pid: running.pid, ws_url: expect.stringMatching(/^ws:/) });
  });

  it('--ready-file appears once it accepts requests, and is removed at the end; a stale one does not count', async () => {
    const path = join(home.directory, 'ready');
    writeFileSync(path, 'http://127.0.0.1:1/v1\n');
    const running = serve('--ready-file', path);
    const url = await until('the ready file', async () => {
      const text = existsSync(path) ? readFileSync(path, 'utf8').trim() : undefined;
      return text !== 'http://127.0.0.1:1/v1' && text;
    });
    expect((await request(`${new URL(url).origin}/health`)).status).toBe(200);
    await running.until('stdout', /\n/);
    const second = await home.asp(['serve', '--data', 'memory', '--port', new URL(url).port, '--ready-file', path]);
    expect([second.status, readFileSync(path, 'utf8').trim()]).toEqual([6, url]);
    running.kill('SIGTERM');
    await running.ended;
    expect(existsSync(path)).toBe(false);
  });

  it('writes a record that only its user can read, and removes it at the end', async () => {
    const running = serve();
    await running.until('stdout', /\n/);
    expect(statSync(recordFile(home)).mode & 0o777).toBe(0o600);
    expect(statSync(join(recordFile(home), '..')).mode & 0o077).toBe(0);
    expect(json(readFileSync(recordFile(home), 'utf8'))).toMatchObject({
      pid: running.pid,
      secret: expect.any(String),
    });
    running.kill('SIGTERM');
    await running.ended;
    expect(existsSync(recordFile(home))).toBe(false);
  });

  it('never shows the secret of its record', async () => {
    const running = serve('--debug');
    await running.until('stdout', /\n/);
    const { secret } = json<{ secret: string }>(readFileSync(recordFile(home), 'utf8'));
    const status = await home.run(['serve', 'status', '--json', '--debug']);
    expect(`${running.stdout()}${running.stderr()}${status.stdout}${status.stderr}`).not.toContain(secret);
  });

  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    it(`ends with 0 on ${signal}, within two seconds, and its port is free again`, async () => {
      const running = serve();
      const [, url = ''] = await running.until('stdout', /^(http:\S+)$/m);
      const begun = performance.now();
      running.kill(signal);
      expect(await running.ended).toMatchObject({ status: 0, signal: null });
      expect(performance.now() - begun).toBeLessThan(2000);
      const again = home.start(['serve', '--port', new URL(url).port, '--data', 'memory']);
      started.push(again);
      expect((await again.until('stdout', /^(http:\S+)$/m))[1]).toBe(url);
    });

  it('--drain-delay: fails readiness on a signal and keeps serving; a second signal skips the wait', async () => {
    const running = serve('--drain-delay', '1h', '--ready-file', join(home.directory, 'ready'));
    const [, url = ''] = await running.until('stdout', /^(http:\S+)$/m);
    const { origin } = new URL(url);
    await until('the ready file', async () => existsSync(join(home.directory, 'ready')));
    running.kill('SIGTERM');
    await running.until('stderr', /No longer ready; stopping in 1h\./);
    expect((await request(`${origin}/ready`)).status).toBe(503);
    expect((await request(`${origin}/health`)).status).toBe(200);
    expect(existsSync(join(home.directory, 'ready'))).toBe(false);
    const begun = performance.now();
    running.kill('SIGTERM');
    expect(await running.ended).toMatchObject({ status: 0, signal: null });
    expect(performance.now() - begun).toBeLessThan(2000);
  });

  it('--drain-delay: stops on its own once the time is over', async () => {
    const running = serve('--drain-delay', '1s');
    await running.until('stdout', /^http:\S+$/m);
    const begun = performance.now();
    running.kill('SIGTERM');
    expect(await running.ended).toMatchObject({ status: 0, signal: null });
    expect(performance.now() - begun).toBeGreaterThan(990);
  });

  it('ends with 6 if the port is taken, and keeps the record of the service that uses it', async () => {
    const running = serve();
    const [, url = ''] = await running.until('stdout', /^(http:\S+)$/m);
    const before = readFileSync(recordFile(home), 'utf8');
    const second = await home.asp(['serve', '--port', new URL(url).port, '--data', 'memory', '--json']);
    expect(second).toMatchObject({ status: 6, stdout: '' });
    expect(failureOf(second.stderr)).toMatchObject({ code: 'ASP_PORT_IN_USE', next: ['asp', 'serve', 'status'] });
    expect(readFileSync(recordFile(home), 'utf8')).toBe(before);
  });

  it('ends with 6 when another service uses the data', async () => {
    const first = await startServe(home);
    const second = await home.asp(['serve', '--port', '0', '--data', first.data]);
    expect(second).toMatchObject({ status: 6, stdout: '' });
    await first.stop();
  });

  it.each([
    ['ends', 'SIGINT'],
    ['is killed', 'SIGKILL'],
  ] as const)(
    'a second service is "local" until it %s, and in the meantime the first one is still found by its address',
    async (_, signal) => {
      const first = serve('--seed', 'a.one');
      const [, url = ''] = await first.until('stdout', /^(http:\S+)$/m);
      expect(await home.run(['login', '@a.one', '--yes'])).toMatchObject({ status: 0 });
      const second = serve();
      const [, other] = await second.until('stdout', /^(http:\S+)$/m);
      const current = async () => json<{ url: string }>((await home.run(['serve', 'status', '--json'])).stdout).url;
      expect(await current()).toBe(other);
      expect(await home.run(['-p', url, 'session', 'list'])).toMatchObject({ status: 0, stderr: 'No sessions.\n' });
      expect(await home.run(['-p', url, 'login', '@a.one', '--yes'])).toMatchObject({ status: 0 });
      const third = await home.asp(['serve', '--port', new URL(url).port, '--data', 'memory']);
      expect(third.stderr).toContain(`The local service is already running at ${url} `);
      second.kill(signal);
      await second.ended;
      expect(await current()).toBe(url);
      expect(await home.run(['session', 'list'])).toMatchObject({ status: 0, stderr: 'No sessions.\n' });
    },
  );

  it('its record comes back after a cleaner of temporary folders has removed it', async () => {
    const renewals: (() => void)[] = [];
    const clock: Clock = {
      ...systemClock,
      schedule(delayMs, action, isBackground) {
        if (delayMs !== 6 * HOUR_MS) return systemClock.schedule(delayMs, action, isBackground);
        renewals.push(action);
        return () => {};
      },
    };
    // Loaded now: that is slow if no other test has done it.
    await import('../../../src/service/service.js');
    const streams = captureStreams();
    const stop = new AbortController();
    const machine = { homeDirectory: home.directory };
    const words = ['serve', '--port', '0', '--data', 'memory'];
    const ended = runWords(words, { clock, streams, machine, signal: stop.signal });
    await until('the service runs', async () => streams.err().includes('Ready.'));
    const record = readFileSync(recordFile(home), 'utf8');
    rmSync(join(home.directory, 'run'), { recursive: true });
    renewals.shift()?.();
    await until('the record', async () => existsSync(recordFile(home)));
    expect(readFileSync(recordFile(home), 'utf8')).toBe(record);
    await until('the next renewal', async () => renewals.length > 0);
    stop.abort(new Error('stopped by SIGINT'));
    await ended;
    expect(existsSync(recordFile(home))).toBe(false);
  });

  it('a record that others can read is not trusted', async () => {
    const running = serve();
    await running.until('stdout', /\n/);
    const text = readFileSync(recordFile(home), 'utf8');
    const other = createHome();
    mkdirSync(join(recordFile(other), '..'), { recursive: true, mode: 0o700 });
    writeFileSync(recordFile(other), text, { mode: 0o644 });
    expect((await other.run(['serve', 'status'])).status).toBe(9);
    await other.dispose();
  });

  it('a service that died without removing its record is not running', async () => {
    const running = serve();
    await running.until('stdout', /\n/);
    running.kill('SIGKILL');
    await running.ended;
    expect(existsSync(recordFile(home))).toBe(true);
    expect((await home.run(['serve', 'status'])).status).toBe(9);
  });

  for (const [words, why] of [
    [['--host', '0.0.0.0'], 'beyond this machine without encryption'],
    [['--public-url', 'http://asp.example.org', '--host', '0.0.0.0'], 'with a public address that is not https'],
    [['--public-url', 'nonsense'], 'with an invalid public address'],
    [['--seed', 'Not.Valid'], 'with a seed that is no handle'],
  ] as const)
    it(`refuses to run ${why} (exit 2)`, async () => {
      const ended = await home.asp(['serve', '--port', '0', '--data', 'memory', ...words]);
      expect(ended).toMatchObject({ status: 2, stdout: '' });
    });

  it('--detach returns once it accepts requests; serve stop ends it and waits until it is gone', async () => {
    const words = ['serve', '--port', '0', '--data', 'memory', '--detach'];
    const detached = await home.asp(words);
    expect(detached.status).toBe(0);
    const url = detached.stdout.trim();
    expect((await request(`${new URL(url).origin}/health`)).status).toBe(200);
    const { pid } = json<{ pid: number }>((await home.run(['serve', 'status', '--json'])).stdout);
    expect(await home.asp(['serve', 'stop'])).toMatchObject({ status: 0, stdout: `${url}\n` });
    expect(isAlive(pid)).toBe(false);
    expect(existsSync(recordFile(home))).toBe(false);
  });

  it('serve stop stops only the service of its own home directory, and one of several only by its URL', async () => {
    const neighbor = createHome({ XDG_RUNTIME_DIR: join(home.directory, 'run') });
    const begin = async (where: Home): Promise<{ url: string; pid: number }> => {
      const running = where.start(['serve', '--port', '0', '--data', 'memory']);
      const [, url = ''] = await running.until('stdout', /^(http:\S+)$/m);
      return { url, pid: running.pid };
    };
    const first = await begin(home);
    const other = await begin(neighbor);
    const stop = (...words: string[]) => home.asp(['serve', 'stop', ...words]);
    expect(await stop()).toMatchObject({ status: 0, stdout: `${first.url}\n` });

    const again = await stop('--json');
    expect(again.status).toBe(9);
    expect(failureOf(again.stderr)).toMatchObject({
      code: 'ASP_LOCAL_NOT_RUNNING',
      message: 'No local service from this home directory is running.',
      hint: `others are, and were left alone: ${other.url} (process ${other.pid}, data memory).`,
    });

    const own = [await begin(home), await begin(home)];
    const unclear = await stop('--json');
    expect(unclear.status).toBe(2);
    expect(failureOf(unclear.stderr)).toMatchObject({
      code: 'ASP_USAGE',
      message: 'Several local services are running: name the one to stop.',
    });
    for (const { url } of own) expect(unclear.stderr).toContain(url);
    const [one = other] = own;
    expect(await stop(one.url)).toMatchObject({ status: 0, stdout: `${one.url}\n` });
    expect((await stop(one.url)).status).toBe(9);
    expect((await stop('nonsense')).stderr).toContain("'nonsense' is not a URL");
    expect(isAlive(other.pid)).toBe(true);
    // The rest of this home is one service, so it is clear again.
    expect((await stop()).status).toBe(0);
    expect(isAlive(other.pid)).toBe(true);
    await neighbor.dispose();
  });

  it('--detach says why it did not start, with the exit code of the service', async () => {
    const running = serve();
    const [, url = ''] = await running.until('stdout', /^(http:\S+)$/m);
    const detached = await home.asp(['serve', '--port', new URL(url).port, '--data', 'memory', '--detach']);
    expect(detached).toMatchObject({ status: 6, stdout: '' });
    expect(detached.stderr).toContain(new URL(url).port);
  });
});

describe('the agents and clients of a local service', () => {
  let home: Home;
  let service: ServiceProcess;
  beforeAll(async () => {
    home = createHome();
    service = await startServe(home, ['--seed', 'alice.bot']);
  });
  afterAll(async () => {
    await service.stop();
    await home.dispose();
  });
  const list = async () =>
    json<{ items: { handle: string; inbound_policy: string; paused: boolean }[] }>(
      (await home.run(['serve', 'agent', 'list', '--json'])).stdout,
    ).items;

  it('serve agent add prints the handles, and creates their accounts', async () => {
    const ended = await home.run(['serve', 'agent', 'add', 'bob.bot', 'carol.bot', '--policy', 'allowlist']);
    expect(ended).toMatchObject({ status: 0, stdout: '@bob.bot\n@carol.bot\n' });
    expect(await list()).toContainEqual(expect.objectContaining({ handle: '@bob.bot', inbound_policy: 'allowlist' }));
  });

  it('serve agent pause makes it unreachable, resume reachable again', async () => {
    await home.run(['login', '@alice.bot', '--yes']);
    await home.run(['serve', 'agent', 'add', 'dora.bot']);
    await home.run(['serve', 'agent', 'pause', 'dora.bot']);
    expect((await home.run(['send', '@dora.bot', 'hi'])).status).toBe(3);
    await home.run(['serve', 'agent', 'resume', 'dora.bot']);
    expect((await home.run(['send', '@dora.bot', 'hi'])).status).toBe(0);
  });

  it('serve agent remove deletes it, and its handle stays reserved (exit 6)', async () => {
    await home.run(['serve', 'agent', 'add', 'eve.bot']);
    expect(await home.run(['serve', 'agent', 'remove', 'eve.bot'])).toMatchObject({ status: 0, stdout: '@eve.bot\n' });
    expect((await list()).map(({ handle }) => handle)).not.toContain('@eve.bot');
    expect((await home.run(['serve', 'agent', 'add', 'eve.bot'])).status).toBe(6);
  });

  it('serve agent pause of a missing agent ends with 3', async () => {
    expect((await home.run(['serve', 'agent', 'pause', 'nobody.here'])).status).toBe(3);
  });

  it('serve account show of a missing account does not say that an agent may not see it', async () => {
    const { status, stderr } = await home.run(['serve', 'account', 'show', 'nobody']);
    expect({ status, stderr }).toMatchObject({ status: 3, stderr: expect.stringContaining('has no such account') });
    expect(stderr).not.toContain('may not see');
  });

  it('serve client add prints id and secret as JSON, once, and they work without a home', async () => {
    const ended = await home.run(['serve', 'client', 'add', '@me.ci', '--scopes', 'agents:read,sessions:read']);
    expect(ended.status).toBe(0);
    const client = json<{ client_id: string; client_secret: string; handle: string; scope: string }>(ended.stdout);
    expect(client).toMatchObject({ handle: '@me.ci', scope: 'agents:read sessions:read' });
    const environment = {
      ASP_CLIENT_ID: client.client_id,
      ASP_CLIENT_SECRET: client.client_secret,
      HOME: '/nonexistent',
    };
    expect(await home.run(['whoami', '--short'], { environment })).toMatchObject({ status: 0, stdout: '@me.ci\n' });
    expect((await home.run(['send', '@alice.bot', 'hi'], { environment })).status).toBe(5);
  });

  it('serve status shows what the service holds', async () => {
    const ended = await home.run(['serve', 'status', '--json']);
    expect(json(ended.stdout)).toMatchObject({
      url: service.url,
      pid: service.running.pid,
      agents: expect.any(Number),
      not_ready: null,
      sign_up: 'open',
      quota: { agents: 100, clients: 50, attachment_bytes: 2 * 1024 ** 3, sessions_per_hour: 300 },
    });
    const { stdout } = await home.run(['serve', 'status']);
    expect(stdout).toContain(`running at ${service.url}`);
    expect(stdout).toMatch(/^quota {4}100 agents, 50 clients, .* for each account$/m);
  });
});
