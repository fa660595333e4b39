import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadCommands } from '../../src/cli/command.js';
import { COMMAND_OUTPUT } from '../../src/cli/commands/schema/output-shapes.js';
import { OWN_ERROR } from '../../src/cli/errors.js';
import { OVERVIEW } from '../../src/cli/help.js';
import { PROGRAM } from '../../src/cli/program.js';
import { systemClock } from '../../src/kit/clock.js';
import { ERROR } from '../../src/wire/error.js';
import { EVENT_TYPES } from '../../src/wire/event.js';
import { documentOf, localHome, type Stage, startStage } from './acting.js';
import { freshHome, type RunOptions, runWords } from './captured-run.js';

const { commands: COMMANDS } = await loadCommands(PROGRAM);

const inHome = (directory: string, words: string | string[], options: RunOptions = {}) =>
  runWords(words, {
    ...options,
    machine: { homeDirectory: directory, workingDirectory: directory, ...options.machine },
  });

describe('asp commands', () => {
  it('lists one command, or those below a word', async () => {
    const wordsOf = async (line: string) =>
      (JSON.parse((await runWords(line)).out) as { items: { words: string[] }[] }).items.map(({ words }) =>
        words.join(' '),
      );
    expect(await wordsOf('commands send --json')).toEqual(['message send']);
    expect(await wordsOf('commands serve agent --fields words')).toContain('serve agent add');
    expect((await wordsOf('commands session --json')).every((words) => words.startsWith('session '))).toBe(true);
    expect((await runWords('commands nosuch')).code).toBe(2);
  });
});

describe('the overview', () => {
  it('names only what exists', async () => {
    const { out } = await runWords('');
    for (const { commands } of OVERVIEW)
      for (const name of commands) {
        const exists = COMMANDS.some(
          ({ path, aliases }) => path === name || aliases.includes(name) || path.startsWith(`${name} `),
        );
        expect(exists, name).toBe(true);
        expect(out).toContain(`  ${name}`);
      }
  });
});

describe('commands', () => {
  it('include with --json every command, its options and what it changes', async () => {
    const { items } = documentOf(await runWords('commands --json')) as { items: Record<string, unknown>[] };
    expect(items).toHaveLength(COMMANDS.length);
    expect(items.find(({ words }) => String(words) === 'message,send')).toMatchObject({
      aliases: [['send']],
      effect: 'write',
      arguments: [
        { name: 'to', required: true },
        { name: 'message', required: false },
      ],
    });
    for (const { effect } of items) expect(['none', 'local', 'read', 'write', 'destructive']).toContain(effect);
  });

  it('have their own options; those that all have are listed once', async () => {
    const { items, global_options: globals } = documentOf(await runWords('commands --json')) as {
      items: { options: { name: string }[] }[];
      global_options: { name: string }[];
    };
    const names = globals.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['--as', '--profile', '--json', '--timeout', '--help']));
    expect(items.flatMap(({ options }) => options.filter(({ name }) => names.includes(name)))).toEqual([]);
  });

  it('are destructive if they delete or end something, so that allowing local commands deletes nothing', async () => {
    const { items } = documentOf(await runWords('commands --json')) as { items: { words: string[]; effect: string }[] };
    const destructive = items.flatMap(({ words, effect }) => (effect === 'destructive' ? [words.join(' ')] : []));
    const isUndone = [
      'alias remove',
      'allowlist remove',
      'block remove',
      'profile remove',
      'serve account reset-password',
    ];
    const takesAway = COMMANDS.flatMap(({ path }) =>
      /(^| )(remove|reset|reset-password|revoke|leave|end|logout|delete)$/.test(path) ? [path] : [],
    );
    // `api` sends any request, and blocking an agent permanently ends its participation in the sessions.
    expect(destructive.sort()).toEqual(
      [...takesAway.filter((path) => !isUndone.includes(path)), 'api', 'block add'].sort(),
    );
  });

  it('fit for a language model into less than 8 KB', async () => {
    expect(Buffer.byteLength((await runWords('commands')).out)).toBeLessThan(8192);
  });
});

describe('explain', () => {
  it('knows every code of the service and of asp', async () => {
    for (const code of [...Object.keys(ERROR), ...Object.keys(OWN_ERROR)]) {
      const document = documentOf(await runWords(`explain ${code} --json`));
      expect(document, code).toMatchObject({ code, means: expect.stringMatching(/.{10}/), helps: expect.any(String) });
    }
    expect((await runWords('explain not_found')).out).toContain('exit 3, HTTP 404');
  });

  it('an unknown code is exit 2, and the nearest one is named', async () => {
    const { code, err } = await runWords('explain NOT_FUOND');
    expect(code).toBe(2);
    expect(err).toContain('NOT_FOUND');
  });
});

describe('schema', () => {
  it('has every command that prints its own document', () => {
    const missing = COMMANDS.filter(({ path }) => path !== 'api')
      .filter(({ path }) => !Object.hasOwn(COMMAND_OUTPUT, path))
      .map(({ path }) => path);
    expect(missing).toEqual([]);
  });

  it('has every event, and gives each as JSON Schema', async () => {
    const { items } = documentOf(await runWords('schema --json')) as { items: { name: string }[] };
    const names = items.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining([...EVENT_TYPES, 'error', 'message send']));
    for (const name of names) {
      const schema = documentOf(await runWords(['schema', ...name.split(' '), '--json']));
      expect(schema, name).toMatchObject({ $schema: expect.stringContaining('2020-12'), type: 'object' });
    }
  });

  it('knows a command by its alias; an unknown name is exit 2', async () => {
    expect(documentOf(await runWords('schema send --json'))).toMatchObject({ title: 'asp command message send' });
    expect(await runWords('schema sesion list')).toMatchObject({ code: 2, out: '' });
  });
});

describe('The output of commands', () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await startStage();
  });
  afterAll(() => stage.stop());

  it('matches their schemas', async () => {
    const { alice, bob } = stage;
    const check = async (name: keyof typeof COMMAND_OUTPUT, words: string, stdin?: string): Promise<unknown> => {
      const ran = await stage.as(alice, `${words} --json`, stdin === undefined ? {} : { stdin });
      const result = COMMAND_OUTPUT[name].safeParse(documentOf(ran));
      expect(result.error, words).toBeUndefined();
      return result.data;
    };
    const sent = (await check('message send', `send ${bob.handle} hello`)) as { session_id: string };
    const id = sent.session_id;
    await stage.as(bob, `session join ${id}`);
    const uploaded = await check('attachment upload', 'attachment upload - --filename a.txt', 'text');
    const [{ id: attachment = '' } = {}] = (uploaded as { items: { id: string }[] }).items;
    await check('message send', `send ${id} see --attach ${attachment}`);
    await check('session create', `session create ${bob.handle}`);
    await check('session list', 'session list');
    await check('session show', `session show ${id}`);
    await check('session invite', `session invite ${id} no.body`);
    await check('session wait', `session wait ${id} --for joined`);
    await check('message list', `message list ${id}`);
    await check('message search', 'message search hello');
    await check('attachment show', `attachment show ${attachment}`);
    await check('attachment list', `attachment list ${id}`);
    await check('attachment download', `attachment download ${attachment}`);
    await check('session export', `session export ${id} -o out/`);
    await check('agent show', 'agent show');
    await check('agent card', `agent card ${bob.handle}`);
    await check('agent list', 'agent list');
    await check('agent search', 'agent search bob');
    await check('agent update', 'agent update --description x');
    await check('allowlist list', 'allowlist list');
    await check('allowlist add', 'allowlist add x.y');
    await check('allowlist apply', 'allowlist apply -', 'z.y');
    await check('allowlist check', 'allowlist check x.y');
    await check('allowlist remove', 'allowlist remove x.y');
    await check('knock list', 'knock list');
    await check('block add', 'block add x.y');
    await check('block list', 'block list');
    await check('block remove', 'block remove x.y');
    await check('auth whoami', 'whoami --explain');
    await check('auth token', 'auth token');
    for (const system of ['github', 'gitlab', 'generic']) await check('auth ci', `auth ci ${system}`);
    await check('status', 'status');
    await check('config path', 'config path');
    await check('commands', 'commands');
    await check('explain', 'explain NOT_FOUND');
    await check('schema', 'schema');
    await check('version', 'version');
    await check('session end', `session end ${id}`);
    await check('session reopen', `session reopen ${id}`);
    await check('session leave', `session leave ${id}`);
  });
});

describe('config', () => {
  it('sets, gets, lists with origin, unsets', async () => {
    const home = freshHome();
    const ran = (words: string) => inHome(home, words);
    expect(await ran('config set profiles.work.base_url https://api.example/v1')).toMatchObject({ code: 0 });
    expect((await ran('config set default_profile work')).out).toBe('work\n');
    expect((await ran('config set profiles.work.agent a.b')).code).toBe(0);
    expect((await ran('config get profiles.work.agent')).out).toBe('@a.b\n');
    const path = (await ran('config path')).out.trim();
    expect(JSON.parse(readFileSync(path, 'utf8'))).toMatchObject({ default_profile: 'work' });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const listed = await inHome(home, 'config list --origin --json', { environment: { ASP_TIMEOUT: '5s' } });
    expect(JSON.parse(listed.out).items).toEqual(
      expect.arrayContaining([
        { key: 'default_profile', value: 'work', origin: path },
        { key: 'ASP_TIMEOUT', value: '5s', origin: 'environment' },
      ]),
    );
    expect((await ran('config unset profiles.work.agent')).code).toBe(0);
    expect(await ran('config get profiles.work.agent')).toMatchObject({ code: 3, out: '' });
  });

  it.each([
    ['config set colour red', /Unknown setting/],
    ['config set profiles.work.agent a.b', /no profile work/],
    ['config set profiles.work.base_url http://example.com', /encrypted/],
    ['config set profiles.work.base_url ftp://x', /Invalid value/],
    ['config set profiles.__proto__.base_url https://x.example', /Unknown setting/],
  ])('asp %s is refused with exit 2 and changes nothing', async (line, said) => {
    const home = freshHome();
    const { code, err } = await inHome(home, line);
    expect(err).toMatch(said);
    expect(code).toBe(2);
    expect(existsSync(join(home, '.config', 'asp-cli', 'config.json'))).toBe(false);
  });

  it('never shows a secret of the environment', async () => {
    const environment = { ASP_TOKEN: 'canary-1', ASP_CLIENT_SECRET: 'canary-2', ASP_STORE_PASSPHRASE: 'canary-3' };
    for (const words of ['config list --origin --json', 'status --offline --json', 'doctor --json']) {
      const { out, err } = await runWords(words, { environment });
      expect(out + err).not.toContain('canary');
    }
  });
});

describe('status', () => {
  it('exits 0 whatever it finds: no settings, no login, a dead service', async () => {
    const empty = documentOf(await runWords('status --json'));
    expect(empty).toMatchObject({ profile: null, agent: null, reachable: null, problem: expect.any(String) });
    const environment = { ASP_PROFILE: 'http://127.0.0.1:9/v1', ASP_TOKEN: 'x' };
    expect(documentOf(await runWords('status --json', { environment }))).toMatchObject({
      base_url: 'http://127.0.0.1:9/v1',
      source: 'ASP_TOKEN',
      reachable: false,
    });
    expect((await runWords('status', { environment: { ASP_PROFILE: 'nonsense' } })).code).toBe(0);
  });

  it('takes no longer than a second when the service is silent', async () => {
    const { createServer } = await import('node:net');
    const silent = createServer((socket) => socket.on('error', () => {}));
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const address = silent.address();
    const port = typeof address === 'object' ? address?.port : 0;
    const environment = { ASP_PROFILE: `http://127.0.0.1:${port}/v1`, ASP_TOKEN: 'x' };
    const before = performance.now();
    const { out } = await runWords('status --json', { environment });
    expect(performance.now() - before).toBeLessThan(1000);
    expect(JSON.parse(out)).toMatchObject({ reachable: false });
    silent.close();
  });
});

describe('doctor', () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await startStage();
  });
  afterAll(() => stage.stop());

  it('finds no problem with a working service and a file store', async () => {
    const { run } = localHome(stage.service);
    const { code, out } = await run('doctor --json');
    const { items } = JSON.parse(out) as { items: { check: string; state: string }[] };
    expect(items.filter(({ state }) => state === 'problem')).toEqual([]);
    expect(code).toBe(0);
    expect(items.map(({ check }) => check)).toEqual(
      expect.arrayContaining(['program', 'settings', 'files', 'profile', 'service', 'clock', 'store']),
    );
    expect(COMMAND_OUTPUT.doctor.safeParse(JSON.parse(out)).success).toBe(true);
  });

  it('says why logins cannot be stored, and proposes no file where a file is the problem', async () => {
    const { run, directory } = localHome(stage.service);
    const state = join(directory, '.local', 'state', 'asp-cli');
    mkdirSync(state, { recursive: true, mode: 0o700 });
    writeFileSync(join(state, 'store'), 'file\n', { mode: 0o600 });
    writeFileSync(join(state, 'secrets'), 'not a folder', { mode: 0o600 });
    const { out } = await run('doctor --json');
    const { items } = JSON.parse(out) as { items: { check: string; says: string; fix: string[] | null }[] };
    expect(items.find(({ check }) => check === 'store')).toMatchObject({
      says: expect.stringMatching(/^Could not use the login file \S+\.json: .+ \(E\w+\)\.$/),
      fix: null,
    });
    const login = await run('login demo.you --yes --store file --json');
    const { error } = JSON.parse(login.err.trim().split('\n').at(-1) ?? '') as { error: { message: string } };
    expect(error.message).toMatch(/^Could not use the login file \S+\.json: .+ \(E\w+\)\. You were not signed in\.$/);
    expect(error).not.toHaveProperty('next');
  });

  it('says what ASP_TOKEN without ASP_WS_TOKEN is not enough for', async () => {
    const environment = { ASP_PROFILE: 'http://127.0.0.1:9/v1', ASP_TOKEN: 'x', ASP_RETRIES: '0' };
    const { items } = JSON.parse((await runWords('doctor --json', { environment })).out) as {
      items: { check: string; says: string }[];
    };
    expect(items.find(({ check }) => check === 'environment')?.says).toBe(
      'ASP_TOKEN is set without ASP_WS_TOKEN: if the WebSocket needs a separate token, asp tail works only if you name sessions',
    );
  });

  it('finds files that are open to others, and closes them with --fix', async () => {
    const { run, directory } = localHome(stage.service);
    const folder = join(directory, '.local', 'state', 'asp-cli');
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    chmodSync(folder, 0o755);
    writeFileSync(join(folder, 'store'), 'file\n', { mode: 0o644 });
    const { code, out, err } = await run('doctor');
    expect(code).toBe(1);
    expect(out).toContain(`2 files and folders are readable by other users: ${folder}`);
    expect(err).toContain('ASP_UNHEALTHY');
    chmodSync(join(folder, 'store'), 0o600);
    expect((await run('doctor')).out).toContain(`${folder} is readable by other users`);
    await run('doctor --fix');
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    expect(statSync(join(folder, 'store')).mode & 0o777).toBe(0o600);
    expect((await run('doctor')).code).toBe(0);
  });

  it('says of a login that others can read what makes it private, not to sign in again', async () => {
    const { run, directory } = localHome(stage.service);
    expect(await run(`login ${stage.alice.handle} --yes --store file`)).toMatchObject({ code: 0 });
    const folder = join(directory, '.local', 'state', 'asp-cli', 'secrets');
    for (const name of readdirSync(folder)) chmodSync(join(folder, name), 0o644);
    const { items } = JSON.parse((await run('doctor --json')).out) as { items: { check: string }[] };
    expect(items.find(({ check }) => check === 'sign-in')).toMatchObject({
      says: `${stage.alice.handle}: unavailable`,
      fix: ['asp', 'doctor', '--fix'],
    });
    await run('doctor --fix');
    expect((await run('whoami')).code).toBe(0);
  });

  it('--bundle writes the facts for a bug report to a new private file, without secrets', async () => {
    const { run, directory } = localHome(stage.service);
    const secrets = ['s3cret-token', 's3cret-client', 's3cret-proxy', 's3cret-argument', 's3cret-alias', 's3cret-file'];
    const [token, client, proxy, argument, alias, stored] = secrets as [string, string, string, string, string, string];
    const profile = { base_url: 'https://asp.example.org/v1', credential_command: ['helper', '--key', argument] };
    const config = { profiles: { work: profile }, aliases: { hi: ['send', alias] } };
    for (const folder of ['.config', '.local/state'])
      mkdirSync(join(directory, folder, 'asp-cli'), { recursive: true, mode: 0o700 });
    writeFileSync(join(directory, '.config/asp-cli/config.json'), JSON.stringify(config), { mode: 0o600 });
    writeFileSync(join(directory, '.local/state/asp-cli/store'), stored, { mode: 0o600 });
    const environment = {
      ASP_TOKEN: token,
      ASP_CLIENT_SECRET: client,
      HTTPS_PROXY: `http://me:${proxy}@proxy.example.org`,
      EDITOR: 'vi',
    };
    const path = join(directory, 'bundle.json');
    const { err } = await run(`doctor --bundle ${path}`, { environment });
    expect(err).toContain('Read it before you share it.');
    const text = readFileSync(path, 'utf8');
    for (const secret of secrets) expect(text).not.toContain(secret);
    expect(text).not.toContain(directory);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const bundle = JSON.parse(text);
    expect(bundle.variables).toEqual(expect.arrayContaining(['ASP_CLIENT_SECRET', 'ASP_TOKEN', 'HTTPS_PROXY']));
    expect(bundle.variables).not.toContain('EDITOR');
    expect(bundle.settings).toMatchObject({
      profiles: { work: { base_url: 'https://asp.example.org/v1', credential_command: 'helper' } },
      aliases: ['hi'],
    });
    expect(bundle.files).toContainEqual(
      expect.objectContaining({ path: '~/.local/state/asp-cli/store', rights: '600', bytes: stored.length }),
    );
    expect(bundle.checks.map(({ check }: { check: string }) => check)).toContain('program');
    expect(await run('doctor --bundle -', { environment })).toMatchObject({ code: 2, out: '' });
    const again = await run(`doctor --bundle ${path}`, { environment });
    expect(again).toMatchObject({ code: 2, err: expect.stringContaining('exists') });
    expect(readFileSync(path, 'utf8')).toBe(text);
    const nowhere = await run(`doctor --bundle ${join(directory, 'missing', 'bundle.json')}`, { environment });
    expect(nowhere).toMatchObject({ code: 2, err: expect.stringContaining('There is no folder') });
  });

  it.each([
    ['v20.20.2', '2026-04-01', 'ok'],
    ['v20.20.2', '2026-05-02', 'warning'],
    ['v22.14.0', '2026-05-02', 'ok'],
    ['v23.9.0', '2026-05-02', 'warning'],
    ['v26.1.0', '2026-05-02', 'ok'],
    ['v18.20.0', '2026-05-02', 'problem'],
  ])('says of Node.js %s on %s: %s', async (nodeVersion, day, state) => {
    const clock = { ...systemClock, now: () => Date.parse(day) };
    const { out } = await runWords('doctor --json', { clock, machine: { nodeVersion } });
    const { items } = JSON.parse(out) as { items: { check: string; state: string; says: string }[] };
    expect(items.find(({ check }) => check === 'program')).toMatchObject({
      state,
      says: expect.stringMatching(state === 'warning' ? /no longer gets security fixes/ : /Node\.js/),
    });
  });

  it.each([
    ['HTTPS_PROXY', '10.0.0.1:3128', undefined],
    ['https_proxy', 'proxy.example:8080', undefined],
    ['HTTPS_PROXY', 'http://', 'problem'],
    ['ALL_PROXY', 'socks5://proxy.example:1080', 'problem'],
  ])('%s=%s: a proxy that asp does not use is a problem (%j)', async (name, value, state) => {
    const { out } = await localHome(stage.service).run('doctor --json', { environment: { [name]: value } });
    const { items } = JSON.parse(out) as { items: { check: string; state: string; says: string }[] };
    const found = items.find(({ check }) => check === 'environment');
    expect(found?.state).toBe(state);
    if (state !== undefined) expect(found?.says).toBe(`${name} is not the address of an HTTP proxy, so asp uses none`);
  });

  it('says what is wrong with the service, and exits 1', async () => {
    const environment = { ASP_PROFILE: 'http://127.0.0.1:9/v1', ASP_TOKEN_STORE: 'file' };
    const { code, out } = await runWords('doctor --json', { environment });
    expect(code).toBe(1);
    const { items } = JSON.parse(out) as { items: { check: string; state: string }[] };
    expect(items).toContainEqual(expect.objectContaining({ check: 'service', state: 'problem' }));
  });

  it('says that the service did not answer if the deadline passes', async () => {
    const silent = createServer(() => {});
    const { port } = await new Promise<AddressInfo>((resolve) => {
      silent.listen(0, '127.0.0.1', () => resolve(silent.address() as AddressInfo));
    });
    const environment = { ASP_PROFILE: `http://127.0.0.1:${port}/v1`, ASP_TOKEN: 'x' };
    const { code, out } = await runWords('doctor --json --timeout 1s', { environment });
    silent.closeAllConnections();
    silent.close();
    expect(code).toBe(1);
    const { items } = JSON.parse(out) as { items: { check: string; says: string; fix: string[] }[] };
    expect(items.find(({ check }) => check === 'service')).toMatchObject({
      says: 'does not answer: the deadline passed',
      fix: ['asp', 'explain', 'ASP_TIMEOUT'],
    });
  });
});
