import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
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
    const [, session = ''] = /^@me\.echo is asked in (sess_\w+)\nare you there\?\n$/.exec(asked.stdout) ?? [];
    echo.kill('SIGTERM');
    expect(await echo.ended).toMatchObject({ status: 0, stderr: '' });
    const { stdout } = await home.asp(['message', 'list', session, '--json'], { environment: asker });
    const said = json<{ items: { sender: string }[] }>(stdout).items.map(({ sender }) => sender);
    expect(said).toEqual(['@me.asker', '@me.echo']);
  });
});
