import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { readMachine } from '../../../src/cli/context/machine.js';
import { createHome, type Ended, type Home, json, startServe } from '../../acceptance/program.js';
import { PROGRAM_FILE } from '../../support/built-program-file.js';
import { freePort } from '../../support/free-port.js';

interface Failure {
  code: string;
  message: string;
  hint?: string;
  next?: string[];
}

const failureOf = ({ stderr }: Ended): Failure => json<{ error: Failure }>(stderr).error;

let home: Home;
beforeEach(() => {
  home = createHome();
});
afterEach(() => home.dispose());

/** The command that starts a demo service again. */
const startWords = ({ url, data }: { url: string; data: string }): string[] => {
  const { port } = new URL(url);
  return ['asp', 'serve', '--port', port, '--data', data, '--demo'];
};

/** A second demo service, in a separate folder. */
async function startBeside(at: Home): Promise<Awaited<ReturnType<typeof startServe>>> {
  const data = join(at.directory, 'be side');
  // The last value of an option counts.
  return { ...(await startServe(at, ['--data', data, '--demo'])), data };
}

const recordFile = (): string => join(home.directory, 'run/asp-cli/serve/default.json');
const QUESTIONS = [
  ['serve', 'status'],
  ['serve', 'agent', 'list'],
  ['whoami'],
  ['-p', 'local', 'whoami'],
  ['-p', 'local', 'session', 'list', '--retries', '0'],
];

describe.runIf(process.platform === 'linux')('A zombie process', () => {
  it('does not count as running', async () => {
    const parent = spawn('sh', ['-c', 'true & echo $!; exec sleep 60'], { stdio: ['ignore', 'pipe', 'ignore'] });
    const [line] = await once(parent.stdout, 'data');
    const { isProcessAlive } = readMachine(process);
    await expect.poll(() => isProcessAlive(Number(line))).toBe(false);
    expect(isProcessAlive(parent.pid ?? 0)).toBe(true);
    parent.kill('SIGKILL');
  });
});

describe('a local service that was killed', () => {
  it('is reported the same way by every command, with the command that starts it again with its options', async () => {
    writeFileSync(join(home.directory, 'serve.json'), JSON.stringify({ 'sign-up': 'off' }));
    const options = ['--demo', '--seed', 'a.one,a.two'];
    home.environment['ASP_SERVE_LIMITS'] = 'off';
    const service = await startServe(home, [...options, '--security-log', 'log', '--config', 'serve.json']);
    expect(await home.run(['login', '@demo.you', '--yes'])).toMatchObject({ status: 0 });
    service.running.kill('SIGKILL');
    await service.running.ended;
    const { port } = new URL(service.url);
    const absolute = [
      ['--security-log', join(home.directory, 'log')],
      ['--config', join(home.directory, 'serve.json')],
    ];
    const next = ['asp', 'serve', '--port', port, '--data', service.data];
    next.push('--seed', 'a.one,a.two', '--demo', ...absolute.flat());
    for (const words of QUESTIONS) {
      const ended = await home.asp([...words, '--json']);
      expect({ words, status: ended.status, ...failureOf(ended) }).toMatchObject({
        words,
        status: 9,
        code: 'ASP_LOCAL_NOT_RUNNING',
        message: 'The local service is not running: it ended unexpectedly.',
        hint: `it was process ${service.running.pid}, at ${service.url}. Other settings came from ASP_SERVE_LIMITS.`,
        next,
      });
    }
    const again = home.start(next.slice(1));
    await again.until('stdout', /^http:\S+$/m);
    expect(await home.asp(['whoami'])).toMatchObject({ status: 0, stdout: '@demo.you\n' });
    again.kill('SIGINT');
    await again.ended;
  });

  it('is reported the same way when another process has its number', async () => {
    const service = await startServe(home, ['--demo']);
    await home.run(['login', '@demo.you', '--yes']);
    service.running.kill('SIGKILL');
    await service.running.ended;
    const record = json<{ pid: number; process_start?: string }>(readFileSync(recordFile(), 'utf8'));
    expect(record.process_start).toMatch(/^\d+$/);
    // With the start time of the process, and without it, as on a system that does not report it.
    for (const start of [record.process_start, undefined]) {
      writeFileSync(recordFile(), JSON.stringify({ ...record, pid: process.pid, process_start: start }));
      for (const words of QUESTIONS)
        expect(failureOf(await home.asp([...words, '--json', '--retries', '0']))).toMatchObject({
          code: 'ASP_LOCAL_NOT_RUNNING',
          message: 'The local service is not running: it ended unexpectedly.',
        });
    }
  });

  it('is not mentioned after a service has stopped normally', async () => {
    await (await startServe(home)).stop();
    expect(failureOf(await home.asp(['serve', 'status', '--json']))).toMatchObject({
      code: 'ASP_LOCAL_NOT_RUNNING',
      message: 'The local service is not running.',
      next: ['asp', 'serve'],
    });
    expect(failureOf(await home.asp(['whoami', '--json']))).toMatchObject({ code: 'ASP_CONFIG' });
  });
});

/** Runs a program as sandboxes do: it sees only its own processes, and with `-n` no network. */
const SANDBOX = ['unshare', '--map-root-user', '--pid', '--fork', '--mount-proc'];
const canUnshare = spawnSync('unshare', [...SANDBOX.slice(1), '--net', 'true']).status === 0;

describe.skipIf(!canUnshare)(`from a sandbox ${canUnshare ? '' : 'unshare is not allowed'}`, () => {
  it('a local service is used although its process cannot be seen, and a failure does not say that it ended', async () => {
    const service = await startServe(home, ['--demo']);
    await home.run(['login', '@demo.you', '--yes']);
    const inside = (more: string[], words: string[]) => {
      const [program = '', ...rest] = [...SANDBOX, ...more, process.execPath, PROGRAM_FILE, ...words];
      return home.spawn(program, rest).ended;
    };
    expect(await inside([], ['whoami'])).toMatchObject({ status: 0, stdout: '@demo.you\n' });
    const words = ['session', 'list', '--json', '--retries', '0'];
    const alone = await inside(['--net'], words);
    expect({ status: alone.status, ...failureOf(alone) }).toMatchObject({
      ...{ status: 9, code: 'ASP_UNREACHABLE', next: ['asp', 'doctor'] },
      hint: 'there is no network here. In a sandbox or a container, allow asp to use the network.',
    });
    service.running.kill('SIGKILL');
    await service.running.ended;
    for (const refused of [words, ['serve', 'status', '--json']]) {
      const ended = await inside([], refused);
      expect({ status: ended.status, ...failureOf(ended) }).toMatchObject({
        ...{ status: 9, code: 'ASP_UNREACHABLE', next: ['asp', 'doctor'] },
        message: `Could not reach the local service at ${service.url} from here.`,
        hint: 'asp and the service are not in the same sandbox or container. Either asp may not use the network here, or the service has ended.',
      });
    }
  });

  it('serve stop returns once the service is gone, not before', async () => {
    const service = await startServe(home, ['--drain-delay', '2s']);
    const [program = '', ...rest] = [...SANDBOX, process.execPath, PROGRAM_FILE, 'serve', 'stop'];
    expect(await home.spawn(program, rest).ended).toMatchObject({ status: 0 });
    expect(existsSync(recordFile())).toBe(false);
    expect(await service.running.ended).toMatchObject({ status: 0 });
  });
});

describe('a local service that was stopped', () => {
  it('is the one that is not running for those who signed in there, and their agents wait for it', async () => {
    const service = await startServe(home, ['--demo']);
    await home.run(['login', '@demo.you', '--yes']);
    await service.stop();
    const ended = await home.asp(['session', 'list', '--json']);
    expect({ status: ended.status, ...failureOf(ended) }).toMatchObject({
      status: 9,
      code: 'ASP_LOCAL_NOT_RUNNING',
      message: 'The local service is not running.',
      next: startWords(service),
    });
    const agent = home.start(['run', '--exec', 'cat']);
    await agent.until('stderr', /not running\. Waiting until it runs\./);
    const again = await startServe(home, ['--demo'], service.url);
    await agent.until('stderr', /Answering as @demo\.you\./);
    agent.kill('SIGINT');
    await agent.ended;
    await again.stop();
  });

  it('is started again with its own address and folder, by the command that every error names', async () => {
    const first = await startServe(home, ['--demo']);
    const second = await startBeside(home);
    for (const { url } of [first, second]) await home.run(['login', '@demo.you', '--yes', '-p', url]);
    await home.run(['profile', 'add', 'two', '--base-url', second.url]);
    await second.stop();
    for (const words of [
      ['send', '@demo.you', 'hi'],
      ['whoami'],
      ['auth', 'refresh', '@demo.you'],
      ['login', '@demo.you', '--yes'],
      ['login', '@demo.you', '--no-browser'],
    ]) {
      const ended = await home.run([...words, '-p', 'two', '--json', '--retries', '0']);
      expect({ words, ...failureOf(ended) }).toMatchObject({
        words,
        code: 'ASP_LOCAL_NOT_RUNNING',
        next: startWords(second),
      });
    }
    const told = await home.run(['doctor', '-p', 'two', '--json']);
    expect(json<{ items: { check: string }[] }>(told.stdout).items).toContainEqual(
      expect.objectContaining({ check: 'service', state: 'problem', fix: startWords(second) }),
    );
    const shown = (await home.run(['doctor', '-p', 'two'])).stdout;
    expect(shown).toContain(`\tasp serve --port ${new URL(second.url).port} --data '${second.data}' --demo\n`);
    await first.stop();
  });
});

describe('with several local services', () => {
  it('operator commands act at the one that --profile or the default profile names', async () => {
    const first = await startServe(home, ['--demo']);
    const second = await startBeside(home);
    await home.run(['profile', 'add', 'one', '--base-url', first.url]);
    await home.run(['profile', 'use', 'local']);
    const urlOf = async (...words: string[]): Promise<unknown> =>
      json((await home.run(['serve', 'status', '--json', ...words])).stdout)['url'];
    expect(await urlOf()).toBe(second.url);
    expect(await urlOf('-p', first.url)).toBe(first.url);
    await home.run(['profile', 'use', 'one']);
    expect(await urlOf()).toBe(first.url);
    expect(await urlOf('-p', 'local')).toBe(second.url);
    await home.run(['serve', 'agent', 'add', '@only.first']);
    expect((await home.run(['serve', 'agent', 'list', '-p', second.url])).stdout).not.toContain('@only.first');
    expect((await home.run(['serve', 'agent', 'list', '-p', 'one'])).stdout).toContain('@only.first');
    const elsewhere = await home.run(['serve', 'status', '--json', '-p', 'http://127.0.0.1:1/v1']);
    expect(failureOf(elsewhere)).toMatchObject({
      code: 'ASP_LOCAL_NOT_RUNNING',
      message: 'No local service of yours is running at http://127.0.0.1:1/v1.',
    });
    expect((await home.asp(['serve', 'stop', '-p', 'one'])).stdout).toBe(`${first.url}\n`);
    await second.stop();
  });

  it('a connected coding agent stays at the one it was connected to', async () => {
    const first = await startServe(home, ['--demo']);
    await home.run(['login', '@demo.you', '--yes']);
    expect(await home.run(['connect', 'gemini'])).toMatchObject({ status: 0 });
    const written = readFileSync(join(home.directory, '.gemini/settings.json'), 'utf8');
    const { args } = json<{ mcpServers: { asp: { args: string[] } } }>(written).mcpServers.asp;
    const second = await startBeside(home);
    const launch = args.slice(args.indexOf('mcp') + 1);
    const seen = json(await home.run(['whoami', '--json', ...launch]).then(({ stdout }) => stdout));
    expect(seen).toMatchObject({ base_url: first.url, handle: '@demo.you' });
    await Promise.all([first.stop(), second.stop()]);
  });

  it('hints name the one they are about', async () => {
    const first = await startServe(home, ['--demo']);
    const words = ['serve', '--port', '0', '--data', join(home.directory, 'beside')];
    const detached = await home.asp([...words, '--detach']);
    const url = detached.stdout.trim();
    expect(detached.stderr).toBe(
      `Another service is running at ${first.url}: until this one ends, "local" means this one.\n` +
        `Running in the background. Logs: asp serve logs -p ${url}. Stop: asp serve stop ${url}\n`,
    );
    const taken = failureOf(await home.asp(['serve', '--port', new URL(first.url).port, '--json']));
    expect(taken).toMatchObject({
      hint: `use it, stop it with asp serve stop ${first.url}, or run another one: asp serve --port 0 --data <folder>.`,
      next: ['asp', 'serve', 'status', '-p', first.url],
    });
    expect((await home.run(taken.next?.slice(1) ?? [])).stdout).toContain(`running at ${first.url}`);
    expect((await home.run(['serve', 'logs', '-p', url])).stdout).toContain('Ready');
    expect((await home.asp(['serve', 'stop', url])).stdout).toBe(`${url}\n`);
    // Also after it has ended, when its log says why.
    expect((await home.run(['serve', 'logs', '-p', url])).stdout).toContain('Ready');
    expect(await home.run(['serve', 'logs', '-p', first.url])).toMatchObject({ status: 2 });
    await first.stop();
  });
});

describe('a second asp serve', () => {
  it('reports that the service is already running, where, how to stop it, and how to run another one', async () => {
    const service = await startServe(home, ['--demo']);
    const { port } = new URL(service.url);
    const others = [
      ['serve', '--port', port],
      ['serve', '--port', port, '--data', 'memory', '--detach'],
      ['serve', '--port', '0', '--data', service.data],
    ];
    for (const words of others) {
      const ended = await home.asp([...words, '--json']);
      expect(ended.status).toBe(6);
      expect(failureOf(ended)).toMatchObject({
        code: 'ASP_PORT_IN_USE',
        message: `The local service is already running at ${service.url} (process ${service.running.pid}).`,
        hint: 'use it, stop it with asp serve stop, or run another one: asp serve --port 0 --data <folder>.',
        next: ['asp', 'serve', 'status'],
      });
    }
    const told = await home.asp(['serve', '--port', port, '--detach']);
    expect(told.stderr).toMatch(/already running.*\n.*\n {2}try: {2}asp serve status\n/);
    const second = home.start(['serve', '--port', '0', '--data', 'beside']);
    await second.until('stdout', /^http:\S+$/m);
    second.kill('SIGINT');
    await second.ended;
    await service.stop();
  });

  it('reports the same behind a proxy, where the addresses of the service have another port or none', async () => {
    const port = await freePort();
    const proxied = ['--port', String(port), '--public-url', 'https://asp.test', '--behind-proxy'];
    const first = home.start(['serve', '--data', 'memory', ...proxied]);
    await first.until('stdout', /^https:\S+$/m);
    const { operator_url } = json<{ operator_url: string }>(readFileSync(recordFile(), 'utf8'));
    const message = `The local service is already running at https://asp.test/v1 (process ${first.pid}).`;
    for (const taken of [String(port), new URL(operator_url).port]) {
      const ended = await home.asp(['serve', '--data', 'memory', '--port', taken, '--json']);
      expect({ taken, ...failureOf(ended) }).toMatchObject({ taken, code: 'ASP_PORT_IN_USE', message });
    }
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port: foreign } = other.address() as AddressInfo;
    const ended = await home.asp(['serve', '--data', 'memory', '--port', String(foreign), '--json']);
    other.close();
    expect(failureOf(ended).message).toBe(`Port ${foreign} on 127.0.0.1 is in use by another program.`);
    first.kill('SIGKILL');
    await first.ended;
    expect(failureOf(await home.asp(['serve', 'status', '--json'])).next).toEqual([
      'asp',
      'serve',
      '--port',
      String(port),
      '--data',
      'memory',
      ...proxied.slice(2),
    ]);
  });

  it('that starts or stops at the same moment as others does not lose their records', async () => {
    const starting = Array.from({ length: 6 }, () => home.start(['serve', '--port', '0', '--data', 'memory']));
    await Promise.all(starting.map((running) => running.until('stdout', /^http:\S+$/m)));
    const { earlier, ...latest } = json<{ pid: number; earlier: { pid: number }[] }>(
      readFileSync(recordFile(), 'utf8'),
    );
    const recorded = [latest, ...earlier].map(({ pid }) => pid);
    expect(recorded.toSorted()).toEqual(starting.map(({ pid }) => pid).toSorted());
    for (const running of starting) running.kill('SIGINT');
    await Promise.all(starting.map(({ ended }) => ended));
    expect(existsSync(recordFile())).toBe(false);
  });
});

describe('a local service whose record cannot be removed', () => {
  it('stops as usual, and says so', async () => {
    const ready = join(home.directory, 'ready');
    const service = await startServe(home, ['--ready-file', ready]);
    rmSync(recordFile());
    mkdirSync(recordFile());
    service.running.kill('SIGTERM');
    const { status, stderr } = await service.running.ended;
    expect({ status, isReady: existsSync(ready) }).toEqual({ status: 0, isReady: false });
    expect(stderr).toContain(`Could not remove this service from ${recordFile()}: `);
    expect(readdirSync(service.data)).not.toContain('asp.lock-journal');
  });
});
