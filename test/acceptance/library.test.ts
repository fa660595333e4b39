import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, transform } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newWebhookSecret, readWebhookSecret, signWebhook } from '../../src/kit/webhook.js';
import { installPacked, typeCheck } from '../support/packed.js';
import { createHome, type Home, json, type ServiceProcess, startServe } from './program.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const EXAMPLES = join(ROOT, 'examples');

/** `.ci/run` installs Jest along with the coding agents, because it brings 278 packages. */
const JEST = join(process.env['ASP_TEST_AGENTS'] ?? 'nowhere', 'jest/bin/jest.js');

/** The runtimes besides Node.js, and the commands with which they run a program. */
const RUNTIMES = { Bun: ['bun', 'run'], Deno: ['deno', 'run', '--allow-all', '--node-modules-dir=manual'] };

function findOnPath(name: string): string | undefined {
  const paths = (process.env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, name));
  return paths.find((path) => existsSync(path));
}

/** Someone else's program, with the packed package installed in it. */
describe('The examples, with the published package,', () => {
  let home: Home;
  let service: ServiceProcess;
  let project: string;
  beforeAll(async () => {
    home = createHome();
    project = join(home.directory, 'project');
    mkdirSync(project);
    writeFileSync(join(project, 'package.json'), '{"name":"somebodys-program","private":true,"type":"module"}');
    installPacked(project);
    cpSync(EXAMPLES, join(project, 'examples'), { recursive: true });
    service = await startServe(home, ['--seed', 'me.echo,me.asker,me.silent,me.hook', '--webhooks', 'any']);
  });
  afterAll(async () => {
    await service.stop();
    await home.dispose();
  });

  const clientOf = async (handle: string): Promise<Record<string, string>> => {
    const { stdout } = await home.asp(['serve', 'client', 'add', handle]);
    const { client_id, client_secret } = json<{ client_id: string; client_secret: string }>(stdout);
    return { ASP_PROFILE: service.url, ASP_CLIENT_ID: client_id, ASP_CLIENT_SECRET: client_secret };
  };

  /** Writes the programs from the library's page and returns their names. */
  const writePrograms = (): string[] => {
    const page = readFileSync(join(ROOT, 'docs/library.md'), 'utf8');
    const programs = [...page.matchAll(/^```js\n\/\/ (\S+)\n(.*?)^```$/gms)];
    expect(programs).toHaveLength([...page.matchAll(/^```js$/gm)].length);
    return programs.map(([, name = '', text = '']) => {
      writeFileSync(join(project, name), text);
      return name;
    });
  };

  it('and the programs on the library’s page compile with the strictest settings', () => {
    const examples = ['echo-agent', 'ask', 'webhook-agent', 'testing/notify', 'testing/node-test.test'];
    const programs = [...examples.map((name) => `examples/${name}.mjs`), ...writePrograms()];
    typeCheck(project, programs, ['--allowJs', '--checkJs']);
  });

  it.for([
    ['the runner of Node.js', ['--test', 'examples/testing/node-test.test.mjs'], /^(#|ℹ) pass 3$/m],
    ['Vitest', ['node_modules/vitest/vitest.mjs', 'run', 'examples/testing/vitest.test.mjs'], /3 passed/],
    [
      'Jest',
      ['--experimental-vm-modules', JEST, '--testTimeout', '60000', '--testMatch', '**/jest.test.mjs'],
      /^Tests: +3 passed, 3 total$/m,
    ],
  ] as const)(
    'test a program with a private service, under %s, and leave nothing behind',
    { timeout: 180_000 },
    async ([runner, words, isPassed], { skip }) => {
      skip(runner === 'Jest' && !existsSync(JEST), 'Jest not installed');
      if (!existsSync(join(project, 'node_modules/vitest')))
        symlinkSync(join(ROOT, 'node_modules/vitest'), join(project, 'node_modules/vitest'));
      const temporary = mkdtempSync(join(home.directory, 'temporary-'));
      const environment = { TMPDIR: temporary, NO_COLOR: '1' };
      const ended = await home.spawn(process.execPath, words, { cwd: project, environment }).ended;
      expect(ended.stdout + ended.stderr).toMatch(isPassed);
      expect(ended.status).toBe(0);
      expect(readdirSync(temporary).filter((name) => name.startsWith('asp'))).toEqual([]);
    },
  );

  it('share their errors with the test kit, and a program that closes its service exits', async () => {
    const program = `
      import { RequestError } from 'asp-cli';
      import { startService } from 'asp-cli/testing';
      await using service = await startService({ agents: ['a.bot'] });
      service.inject({ kind: 503 });
      const client = service.client('@a.bot', { retries: 0 });
      const tail = client.tail()[Symbol.asyncIterator]();
      tail.next().catch(() => {});
      console.log(await client.call('getActingAgent', {}).catch((error) => error instanceof RequestError && error.code));`;
    const { code } = await transform(program, { target: 'node20.19', loader: 'ts', format: 'esm' });
    writeFileSync(join(project, 'kit.mjs'), code);
    const ended = await home.spawn(process.execPath, ['kit.mjs'], { cwd: project }).ended;
    expect(ended).toMatchObject({ status: 0, stdout: 'INTERNAL_ERROR\n', stderr: '' });
  });

  it('act in a child process with an agent’s variables, whatever else is in the environment', async () => {
    const program = `
      import { spawn } from 'node:child_process';
      import { startService } from 'asp-cli/testing';
      const service = await startService({ agents: ['a.bot'] });
      const env = { ...process.env, ASP_TOKEN: 'other', ...service.env('@a.bot') };
      const child = spawn('asp', ['whoami', '--json'], { env, stdio: 'inherit' });
      await new Promise((resolve) => child.on('close', resolve));
      await service.close();`;
    writeFileSync(join(project, 'child.mjs'), program);
    const ended = await home.spawn(process.execPath, ['child.mjs'], { cwd: project }).ended;
    expect(ended).toMatchObject({ status: 0, stderr: '' });
    expect(json(ended.stdout)).toMatchObject({ handle: '@a.bot', source: 'ASP_CLIENT_ID' });
  });

  it('work in a program that esbuild bundles into one CommonJS file, and their errors have names and lines', async () => {
    const program = `
      import { connect, createTokenCredential } from 'asp-cli';
      const service = { baseUrl: '${service.url}' };
      connect({ service, credential: createTokenCredential({ api: 'wrong' }) })
        .call('getActingAgent', {})
        .catch((error) => console.log(error.constructor.name, error.code, error.stack.split('\\n').every((line) => line.length < 300)));`;
    writeFileSync(join(project, 'program.mjs'), program);
    await build({
      entryPoints: [join(project, 'program.mjs')],
      outfile: join(project, 'program.cjs'),
      ...{ bundle: true, platform: 'node', format: 'cjs', logLevel: 'silent' },
    });
    for (const file of ['program.mjs', 'program.cjs'])
      expect(await home.spawn(process.execPath, [file], { cwd: project }).ended).toMatchObject({
        status: 0,
        stdout: 'RequestError UNAUTHORIZED true\n',
        stderr: '',
      });
  });

  it('talk to each other over a real service', async () => {
    const echo = home.spawn(process.execPath, ['examples/echo-agent.mjs'], {
      cwd: project,
      environment: await clientOf('@me.echo'),
    });
    await echo.until('stdout', /@me\.echo is listening/);
    const asker = await clientOf('@me.asker');
    const asked = await home.spawn(process.execPath, ['examples/ask.mjs', '@me.echo', 'are you there?'], {
      cwd: project,
      environment: asker,
    }).ended;
    expect(asked).toMatchObject({ status: 0, stderr: '' });
    const [, session = ''] = /^Asked @me\.echo in (sess_\w+)\nare you there\?\n$/.exec(asked.stdout) ?? [];
    echo.kill('SIGTERM');
    expect(await echo.ended).toMatchObject({ status: 0, stderr: '' });
    const { stdout } = await home.asp(['message', 'list', session, '--json'], { environment: asker });
    const said = json<{ items: { sender: string }[] }>(stdout).items.map(({ sender }) => sender);
    expect(said).toEqual(['@me.asker', '@me.echo']);
  });

  it('answer the calls of a webhook', async () => {
    const secret = newWebhookSecret();
    writeFileSync(join(home.directory, 'hook.secret'), secret, { mode: 0o600 });
    const hook = home.spawn(process.execPath, ['examples/webhook-agent.mjs'], {
      cwd: project,
      environment: { ...(await clientOf('@me.hook')), WEBHOOK_SECRET: secret, PORT: '0' },
    });
    const [url = ''] = await hook.until('stdout', /^http:\S+$/m);
    const environment = { ASP_PROFILE: service.url };
    await home.asp(['login', '--account', '--yes'], { environment });
    const words = [url, 'me.hook', '--signing-secret-file', join(home.directory, 'hook.secret')];
    expect(await home.asp(['webhook', 'set', ...words], { environment })).toMatchObject({ status: 0 });
    const asker = await clientOf('@me.asker');
    const asked = await home.asp(['send', '@me.hook', 'anyone there?', '--wait', '--timeout', '20s'], {
      environment: asker,
    });
    expect(asked.stdout).toBe('anyone there?\n');
    // A session that has ended must not keep other events away.
    const event_id = 'evt_01ARZ3NDEKTSV4RRFFQ69G5FAV';
    const gone = { event_id, type: 'session.invited', session_id: 'sess_01ARZ3NDEKTSV4RRFFQ69G5FAV', payload: {} };
    const body = JSON.stringify(gone);
    const key = readWebhookSecret(secret) ?? Buffer.of();
    const headers = signWebhook(key, event_id, Math.floor(Date.now() / 1000), body);
    expect((await fetch(url, { method: 'POST', headers, body })).status).toBe(204);
    hook.kill('SIGTERM');
    expect(await hook.ended).toMatchObject({ status: 0, stderr: '' });
  });

  it('on the library’s page are complete, working programs', async () => {
    const programs = writePrograms();
    const boss = await clientOf('@me.boss');
    const answering = home.spawn(process.execPath, ['answer.mjs'], {
      cwd: project,
      environment: await clientOf('@me.bot'),
    });
    await answering.until('stdout', /^ready$/m);
    const outputs: Record<string, string> = {};
    for (const name of programs.slice(1)) {
      const ended = await home.spawn(process.execPath, [name], { cwd: project, environment: boss }).ended;
      expect(ended, name).toMatchObject({ status: 0, stderr: '' });
      outputs[name] = ended.stdout;
    }
    answering.kill('SIGTERM');
    const { status, stdout, stderr } = await answering.ended;
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    // The asker ends its session once it has the answer, which may be before or after the agent knows that it was sent.
    const replied = '@me.boss: replied';
    expect(stdout).toMatch(/^ready\n(.+\n){6}@me\.boss: replied\n$/);
    const asked = Array.from({ length: 3 }, () => ['@me.boss ended a session', replied]).flat();
    expect(stdout.trim().split('\n').sort()).toEqual([...asked, replied, 'ready'].sort());
    expect(outputs).toEqual({
      'ask.mjs': 'You said "ready?". Messages so far: 1.\n',
      'ask-all.mjs': '@me.bot You said "ready?". Messages so far: 1.\n@me.silent ASP_TIMEOUT\n',
      'files.mjs': 'You said "Here is the table.". Messages so far: 1.\ntable.csv text/csv a,b\n1,2\n\n',
      'client.mjs':
        '@me.boss are you there?\n@me.bot You said "are you there?". Messages so far: 1.\nNOT_FOUND not_applied\n',
      'test.mjs': 'HELLO\nNEXT DAY\n[]\n',
    });
  });

  describe.each(Object.entries(RUNTIMES))('under %s', (_, [name = '', ...options]) => {
    const path = findOnPath(name);
    it.skipIf(path === undefined)(
      `answer, ask and follow a session${path === undefined ? ` (${name} not installed)` : ''}`,
      async () => {
        if (path === undefined) throw new Error(`no ${name}`);
        writePrograms();
        const boss = await clientOf('@me.boss');
        const run = (program: string, environment: Record<string, string>) =>
          home.spawn(path, [...options, program], { cwd: project, environment: { ...environment, NO_COLOR: '1' } });
        const answering = run('answer.mjs', await clientOf('@me.bot'));
        await answering.until('stdout', /^ready$/m);
        expect(await run('ask.mjs', boss).ended).toMatchObject({
          status: 0,
          stdout: 'You said "ready?". Messages so far: 1.\n',
        });
        expect(await run('client.mjs', boss).ended).toMatchObject({
          status: 0,
          stdout: expect.stringMatching(
            /@me\.bot You said "are you there\?"\. Messages so far: 1.*\nNOT_FOUND not_applied\n$/,
          ),
        });
        answering.kill('SIGTERM');
        expect(await answering.ended).toMatchObject({
          status: 0,
          stdout: expect.stringMatching(/^ready\n(.*\n)?@me\.boss: replied\n(.*\n)*@me\.boss: replied\n$/),
        });
      },
    );
  });

  it('can be required by a CommonJS program', async () => {
    writeFileSync(join(project, 'old.cjs'), "console.log(typeof require('asp-cli').createAgent)");
    const ended = await home.spawn(process.execPath, ['old.cjs'], { cwd: project }).ended;
    expect(ended).toMatchObject({ status: 0, stdout: 'function\n' });
  });

  it('answer each message once even if they never give the same answer twice, like a language model', async () => {
    const example = readFileSync(join(EXAMPLES, 'echo-agent.mjs'), 'utf8');
    const random = example.replace('return text;', 'return text + Math.random();');
    expect(random).not.toBe(example);
    writeFileSync(join(project, 'examples', 'random-agent.mjs'), random);
    const asker = await clientOf('@me.asker');
    const agent = await clientOf('@me.echo');
    const start = async () => {
      const running = home.spawn(process.execPath, ['examples/random-agent.mjs'], { cwd: project, environment: agent });
      await running.until('stdout', /is listening/);
      return running;
    };
    const first = await start();
    const { stdout } = await home.asp(['send', '@me.echo', 'one', '--wait', '--json'], { environment: asker });
    const sent = json<{ session_id: string; message_id: string; reply: { content: string }; reply_matched: boolean }>(
      stdout,
    );
    expect(sent).toMatchObject({ reply: { content: expect.stringMatching(/^one0\./) }, reply_matched: true });
    first.kill('SIGKILL');
    await first.ended;
    const second = await start();
    const { session_id } = sent;
    await home.asp(['send', session_id, 'two', '--wait'], { environment: asker });
    second.kill('SIGTERM');
    expect(await second.ended).toMatchObject({ status: 0, stderr: '' });
    const listed = await home.asp(['message', 'list', session_id, '--json'], { environment: asker });
    const said = json<{ items: { sender: string }[] }>(listed.stdout).items.map(({ sender }) => sender);
    expect(said).toEqual(['@me.asker', '@me.echo', '@me.asker', '@me.echo']);
  });
});
