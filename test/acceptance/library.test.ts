import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { installPacked, typeCheck } from '../support/packed.js';
import { createHome, type Home, json, type ServiceProcess, startServe } from './program.js';

const EXAMPLES = fileURLToPath(new URL('../../examples', import.meta.url));

/** A program of somebody else, with the packed package installed in it. */
describe('the examples, with the package as it is published', () => {
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
    service = await startServe(home, ['--seed', 'me.echo,me.asker']);
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

  it('compile as strictly as a program may', () => {
    typeCheck(project, ['examples/echo-agent.mjs', 'examples/ask.mjs'], ['--allowJs', '--checkJs']);
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

  it('answer each message once when they never say the same twice, as with a language model', async () => {
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
