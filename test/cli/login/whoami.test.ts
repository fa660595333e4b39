import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createHome, type Home, json, type ServiceProcess, startServe } from '../../acceptance/program.js';
import { runWords } from '../captured-run.js';
import { createHomeWithService } from './signed-in-home.js';

interface Layer {
  question: string;
  place: string;
  said: string | null;
  chosen: boolean;
}

describe('The acting agent, its source, and its token', () => {
  let home: Home;
  let service: ServiceProcess;

  beforeAll(async () => {
    ({ home, service } = await createHomeWithService());
    for (const handle of ['@demo.you', '@alice.bot']) await home.run(['login', handle, '--yes']);
    await home.run(['use', '@demo.you']);
  });
  afterAll(async () => {
    await service.stop();
    await home.dispose();
  });

  const explain = async (words: string[] = [], options = {}): Promise<Layer[]> => {
    const ended = await home.run(['whoami', '--explain', '--json', ...words], options);
    expect(ended.stderr).toBe('');
    return json<{ layers: Layer[] }>(ended.stdout).layers;
  };
  const chosen = (layers: Layer[]): string[] => layers.filter((layer) => layer.chosen).map(({ place }) => place);

  it('whoami: the handle is on stdout, everything else on stderr', async () => {
    const ended = await home.run(['whoami']);
    expect(ended).toMatchObject({ status: 0, stdout: '@demo.you\n' });
    expect(ended.stderr).toContain(service.url);
    expect(await home.run(['whoami', '--short'])).toMatchObject({ stdout: '@demo.you\n', stderr: '' });
  });

  it('whoami --json has the members that are promised, and no others', async () => {
    expect(json((await home.run(['whoami', '--json'])).stdout)).toEqual({
      handle: '@demo.you',
      agent_id: expect.stringMatching(/^agt_/),
      account_id: expect.stringMatching(/^acct_/),
      profile: 'local',
      base_url: service.url,
      source: 'login',
      store: 'file',
      scopes: expect.arrayContaining(['agents:read', 'realtime:read']),
      expires_at: expect.any(Number),
    });
  });

  it('whoami --offline says the same without asking the service', async () => {
    const online = json((await home.run(['whoami', '--json'])).stdout);
    const offline = await home.run(['whoami', '--offline', '--json', '--debug']);
    expect(json(offline.stdout)).toEqual(online);
    expect(offline.stderr).not.toContain('/agents/me');
  });

  it('whoami --explain lists every source, its value, and which one won', async () => {
    const layers = await explain();
    expect(layers.map(({ question, place }) => `${question} ${place}`)).toEqual([
      'profile --profile',
      'profile ASP_PROFILE',
      'profile .asp.json',
      'profile default_profile',
      'profile local service',
      'agent --as',
      'agent ASP_AGENT',
      'agent .asp.json',
      'agent profile local',
      'agent the first login',
      'credential ASP_TOKEN',
      'credential ASP_CLIENT_ID',
      'credential profile local',
      'credential stored login',
    ]);
    expect(chosen(layers)).toEqual(['local service', 'profile local', 'stored login']);
  });

  it('whoami --explain: a flag overrides the environment, which overrides the folder, which overrides the profile', async () => {
    const folder = join(home.directory, 'project');
    mkdirSync(folder);
    writeFileSync(join(folder, '.asp.json'), '{"profile":"local","agent":"@alice.bot"}');
    const inFolder = { cwd: folder };
    expect(chosen(await explain([], inFolder))).toEqual(['.asp.json', '.asp.json', 'stored login']);
    const environment = { ASP_AGENT: 'demo.you', ASP_PROFILE: 'local' };
    expect(chosen(await explain([], { ...inFolder, environment }))).toEqual([
      'ASP_PROFILE',
      'ASP_AGENT',
      'stored login',
    ]);
    const flags = ['--as', 'alice.bot', '--profile', service.url];
    expect(chosen(await explain(flags, { ...inFolder, environment }))).toEqual(['--profile', '--as', 'stored login']);
    rmSync(folder, { recursive: true });
  });

  it('whoami --explain for people marks what won', async () => {
    const { stdout } = await home.run(['whoami', '--explain']);
    expect(stdout).toMatch(/^@demo\.you at /);
    expect(stdout).toMatch(/profile local +@demo\.you {2}← this one/);
  });

  it('whoami --explain breaks its lines between words on a narrow terminal', async () => {
    const environment = { ASP_PROFILE: 'http://127.0.0.1:9/v1', ASP_TOKEN: 'x', ASP_AGENT: '@alice.bot' };
    const { out } = await runWords('whoami --explain --color never', { isTerminal: true, columns: 36, environment });
    expect(out).toContain('agent       --as -\n            ASP_AGENT @alice.bot\n            ← this one\n');
  });

  it('whoami --explain shows the value of every source, even if another one won', async () => {
    const layers = await explain([], { environment: { ASP_AGENT: '@alice.bot', ASP_PROFILE: service.url } });
    expect(chosen(layers)).toEqual(['ASP_PROFILE', 'ASP_AGENT', 'stored login']);
    expect(Object.fromEntries(layers.map(({ question, place, said }) => [`${question} ${place}`, said]))).toMatchObject(
      {
        'profile ASP_PROFILE': service.url,
        'profile local service': 'local',
        'agent ASP_AGENT': '@alice.bot',
        'agent the first login': '@demo.you',
      },
    );
    const token = (await home.run(['auth', 'token', '--as', 'alice.bot'])).stdout.trim();
    const byToken = await explain([], { environment: { ASP_TOKEN: token } });
    expect(byToken.find(({ place }) => place === 'stored login')?.said).toBe('@demo.you in a file');
  });

  it('with ASP_TOKEN: the token decides, and it is shown nowhere', async () => {
    const token = (await home.run(['auth', 'token', '--as', 'alice.bot'])).stdout.trim();
    const ended = await home.run(['whoami', '--explain', '--json'], { environment: { ASP_TOKEN: token } });
    const who = json<{ handle: string; source: string; layers: Layer[] }>(ended.stdout);
    expect(who).toMatchObject({ handle: '@alice.bot', source: 'ASP_TOKEN', store: null });
    expect(chosen(who.layers)).toEqual(['local service', 'the credential', 'ASP_TOKEN']);
    expect(`${ended.stdout}${ended.stderr}`).not.toContain(token);
  });

  it('with client credentials: the agent of the client', async () => {
    const added = json<{ client_id: string; client_secret: string }>(
      (await home.run(['serve', 'client', 'add', '@me.ci'])).stdout,
    );
    const environment = { ASP_CLIENT_ID: added.client_id, ASP_CLIENT_SECRET: added.client_secret };
    const ended = await home.run(['whoami', '--explain', '--json'], { environment });
    expect(json(ended.stdout)).toMatchObject({ handle: '@me.ci', source: 'ASP_CLIENT_ID' });
    expect(ended.stdout).not.toContain(added.client_secret);
    const conflict = await home.run(['whoami', '--as', 'alice.bot'], { environment });
    expect(conflict.status).toBe(2);
  });

  it('auth status lists logins and no secret, offline', async () => {
    const ended = await home.run(['auth', 'status', '--json', '--debug']);
    const { items } = json<{ items: { handle: string; state: string }[] }>(ended.stdout);
    expect(items.map(({ handle, state }) => [handle, state])).toEqual([
      ['@alice.bot', 'signed_in'],
      ['@demo.you', 'signed_in'],
    ]);
    expect(ended.stdout).not.toMatch(/eyJ|refresh/);
    expect((await home.run(['auth', 'status'])).stdout).toMatch(/^@alice\.bot\t.*\n@demo\.you\t.*\n$/);
  });

  it('auth token prints a token for the requested resource, or the header line', async () => {
    const audience = async (words: string[]): Promise<unknown> => {
      const { stdout } = await home.run(['auth', 'token', ...words]);
      return json<{ aud: unknown }>(Buffer.from(stdout.split('.')[1] ?? '', 'base64url').toString()).aud;
    };
    expect([await audience([])].flat()).toContain(service.url);
    expect([await audience(['--resource', 'ws'])].flat()).toEqual([expect.stringMatching(/^ws:/)]);
    expect((await home.run(['auth', 'token', '--header'])).stdout).toMatch(/^Authorization: Bearer eyJ\S+\n$/);
  });

  it('auth token --min-ttl renews a token that expires too soon, and keeps it otherwise', async () => {
    const token = async (ttl: string): Promise<string> => (await home.run(['auth', 'token', '--min-ttl', ttl])).stdout;
    const first = await token('1m');
    expect(await token('1m')).toBe(first);
    const longer = await home.run(['auth', 'token', '--min-ttl', '20m']);
    expect(longer.stdout).not.toBe(first);
    expect(longer.stderr).toContain('the service does not issue longer ones');
  });

  it('auth refresh prints a new token; --scopes narrows it and never widens it (exit 2)', async () => {
    const before = (await home.run(['auth', 'token'])).stdout;
    expect(await home.run(['auth', 'refresh'])).toMatchObject({ status: 0, stdout: '@demo.you\n' });
    expect((await home.run(['auth', 'token'])).stdout).not.toBe(before);
    const narrow = await home.run(['auth', 'refresh', '--scopes', 'sessions:read', '--json']);
    expect(json(narrow.stdout)).toMatchObject({ handle: '@demo.you', scopes: ['sessions:read'] });
    expect((await home.run(['send', 'alice.bot', 'hi'])).status).toBe(5);
    expect((await home.run(['auth', 'refresh', '--scopes', 'account:read'])).status).toBe(2);
    expect((await home.run(['auth', 'refresh'])).status).toBe(0);
    expect((await home.run(['send', 'alice.bot', 'hi'])).status).toBe(0);
  });

  it('auth status reports a login that the service has ended', async () => {
    await home.run(['serve', 'agent', 'remove', '@alice.bot']);
    expect((await home.run(['auth', 'refresh', '@alice.bot'])).status).toBe(4);
    const { items } = json<{ items: { handle: string; state: string }[] }>(
      (await home.run(['auth', 'status', '--json'])).stdout,
    );
    expect(items.find(({ handle }) => handle === '@alice.bot')?.state).toBe('ended');
  });
});

describe('auth status after the data of a local service was deleted', () => {
  it.each([['a folder'], ['memory']])(
    'marks its logins, and names the command that removes them (%s)',
    async (where) => {
      const home = createHome();
      const service = await startServe(home, ['--demo', ...(where === 'memory' ? ['--data', 'memory'] : [])]);
      try {
        for (const handle of ['@demo.you', '@alice.bot']) await home.run(['login', handle, '--yes']);
        const states = async (): Promise<string[]> =>
          json<{ items: { state: string }[] }>((await home.run(['auth', 'status', '--json'])).stdout).items.map(
            ({ state }) => state,
          );
        expect(await states()).toEqual(['signed_in', 'signed_in']);
        await service.stop();
        expect(await states()).toEqual(where === 'memory' ? ['gone', 'gone'] : ['signed_in', 'signed_in']);
        rmSync(service.data, { recursive: true, force: true });
        expect(await states()).toEqual(['gone', 'gone']);
        const [, remove = ''] = /To remove them: asp (.*)$/m.exec((await home.run(['auth', 'status'])).stderr) ?? [];
        expect(remove).toBe(`logout --all -p ${service.url} --local-only`);
        expect(await home.run([...remove.split(' '), '--yes'])).toMatchObject({ status: 0 });
        expect(await states()).toEqual([]);
      } finally {
        await service.stop();
        await home.dispose();
      }
    },
  );

  it('names only those that the address no longer knows', async () => {
    const home = createHome();
    const first = await startServe(home, ['--demo']);
    try {
      for (const handle of ['@demo.you', '@alice.bot']) await home.run(['login', handle, '--yes']);
      await first.stop();
      rmSync(first.data, { recursive: true });
      const data = join(home.directory, 'other');
      const again = home.start(['serve', '--demo', '--port', new URL(first.url).port, '--data', data]);
      await again.until('stdout', /http/);
      await home.run(['login', '@demo.you', '--yes']);
      const { stdout, stderr } = await home.run(['auth', 'status']);
      expect(stdout).toMatch(/^@alice\.bot\t.*\tgone\t.*\n@demo\.you\t.*\tsigned_in\t/);
      expect(stderr).toContain(`asp logout @alice.bot -p ${first.url} --local-only`);
      again.kill('SIGINT');
      await again.ended;
    } finally {
      await first.stop();
      await home.dispose();
    }
  });
});

describe('a command with the login of a local service that is down', () => {
  it('says once that nothing was sent', async () => {
    const { home, service } = await createHomeWithService();
    try {
      await home.run(['login', '@demo.you', '--yes']);
      await service.stop();
      const { status, stderr } = await home.run(['send', '@alice.bot', 'hi', '-p', service.url, '--as', 'demo.you']);
      expect(status).toBe(9);
      expect(stderr.match(/nothing was sent/gi)).toHaveLength(1);
    } finally {
      await home.dispose();
    }
  });
});

describe('whoami --offline while the local service is down', () => {
  it('says who this machine is signed in as, after a stop and after a kill', async () => {
    const { home, service } = await createHomeWithService();
    try {
      await home.run(['login', '@demo.you', '--yes']);
      await home.run(['login', '@alice.bot', '--yes']);
      const offline = (words: readonly string[] = [], options = {}) =>
        home.run(['whoami', '--offline', ...words], options);
      const running = json<object>((await offline(['--json'])).stdout);
      await service.stop();
      expect(await offline(['--short'])).toMatchObject({ status: 0, stdout: '@demo.you\n', stderr: '' });
      expect(json((await offline(['--json'])).stdout)).toEqual(running);
      expect(await offline(['--short', '--as', 'alice.bot'])).toMatchObject({ stdout: '@alice.bot\n' });
      const named = await offline(['--short'], { environment: { ASP_PROFILE: 'local' } });
      expect(named).toMatchObject({ status: 0, stdout: '@demo.you\n' });
      const { layers } = json<{ layers: Layer[] }>((await offline(['--explain', '--json'])).stdout);
      expect(layers.filter(({ chosen }) => chosen).map(({ place }) => place)).toEqual([
        ...['local service', 'the first login', 'stored login'],
      ]);
      // For prompts, a stored login is enough. Otherwise the service has to answer.
      expect(await home.run(['whoami', '--short'])).toMatchObject({ status: 0, stdout: '@demo.you\n', stderr: '' });
      expect(await home.run(['whoami', '--short', '--as', 'carol.bot'])).not.toMatchObject({ status: 0 });
      expect((await home.run(['whoami'])).status).not.toBe(0);

      const { running: killed } = await startServe(home, ['--demo'], service.url);
      killed.kill('SIGKILL');
      await killed.ended;
      expect(await offline(['--short'])).toMatchObject({ status: 0, stdout: '@demo.you\n', stderr: '' });
    } finally {
      await home.dispose();
    }
  });

  it('fails if no login belongs to a local service', async () => {
    const home = createHome();
    try {
      expect((await home.run(['whoami', '--offline', '--short'])).status).toBe(2);
    } finally {
      await home.dispose();
    }
  });
});

describe('whoami --explain without an identity', () => {
  let home: Home;
  beforeAll(() => {
    home = createHome();
  });
  afterAll(() => home.dispose());
  const PLACES = [
    ...['profile --profile', 'profile ASP_PROFILE', 'profile .asp.json', 'profile default_profile'],
    'profile local service',
    ...['agent --as', 'agent ASP_AGENT', 'agent .asp.json', 'agent the profile', 'agent the first login'],
    ...['credential ASP_TOKEN', 'credential ASP_CLIENT_ID', 'credential the profile', 'credential stored login'],
  ];
  const layersOf = async (words: string[], options = {}): Promise<{ layers: Layer[]; status: number | null }> => {
    const ended = await home.run(['whoami', '--explain', '--json', ...words], options);
    return { layers: json<{ layers: Layer[] }>(ended.stdout).layers, status: ended.status };
  };
  const saying = (layers: Layer[]): string[] =>
    layers.flatMap(({ question, place, said }) => (said === null ? [] : [`${question} ${place}: ${said}`]));

  it('shows every source when no service is chosen', async () => {
    const { layers, status } = await layersOf([], { environment: { ASP_AGENT: 'alice.bot' } });
    expect(status).toBe(2);
    expect(layers.map(({ question, place }) => `${question} ${place}`)).toEqual(PLACES);
    expect(saying(layers)).toEqual(['agent ASP_AGENT: @alice.bot']);
    const told = await home.run(['whoami', '--explain']);
    expect(told.stdout).toMatch(/^profile {5}--profile +-\n/);
    expect(told.stderr).toContain('No service is chosen.');
  });

  it('names the broken file, and shows the values of the other sources', async () => {
    const cwd = join(home.directory, 'broken');
    mkdirSync(cwd);
    writeFileSync(join(cwd, '.asp.json'), '{"profile":');
    const { layers, status } = await layersOf([], { cwd, environment: { ASP_TOKEN: 'secret' } });
    expect(status).toBe(2);
    expect(saying(layers)).toEqual([
      expect.stringMatching(/^profile \.asp\.json: cannot be used: .*JSON/),
      'agent the credential: decides',
      'credential ASP_TOKEN: set',
    ]);
    expect(layers.some(({ question, chosen }) => question === 'profile' && chosen)).toBe(false);
  });

  it('names the invalid profile', async () => {
    const { layers, status } = await layersOf([], { environment: { ASP_PROFILE: 'nowhere' } });
    expect(status).toBe(2);
    expect(saying(layers)).toEqual(['profile ASP_PROFILE: nowhere']);
  });
});

describe('whoami without a service', () => {
  it('says how to get one (exit 2)', async () => {
    const home = createHome();
    const ended = await home.run(['whoami', '--json']);
    expect(ended.status).toBe(2);
    expect(json<{ error: { code: string } }>(ended.stderr).error.code).toBe('ASP_CONFIG');
    await home.dispose();
  });
});
