import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

import { type Config, parseConfig, readConfig, requireConfigFile, writeConfig } from '../../src/cli/profile/config.js';
import {
  findLocalService,
  keepRecord,
  listRunningServices,
  readRunningServices,
} from '../../src/cli/profile/local-service.js';
import { resolvePaths } from '../../src/cli/profile/paths.js';
import { findProjectFile, parseProjectFile } from '../../src/cli/profile/project-file.js';
import {
  type AgentChoice,
  type ProfileSources,
  type ResolvedProfile,
  resolveAgent,
  resolveProfile,
} from '../../src/cli/profile/resolve-profile.js';
import { freshHome, runWords } from './captured-run.js';

const CONFIG: Config = {
  default_profile: 'standard',
  profiles: {
    standard: { base_url: 'https://standard.example/v1' },
    named: { base_url: 'https://named.example/v1', agent: '@named.bot' },
    project: { base_url: 'https://project.example/v1' },
  },
  settings: {},
  aliases: {},
};
const LOCAL = {
  name: 'default',
  url: 'http://127.0.0.1:1/v1',
  auth_url: 'http://127.0.0.1:1',
  web_url: 'http://127.0.0.1:1',
  ws_url: 'ws://127.0.0.1:1/connect',
  operator_url: 'http://127.0.0.1:1/operator',
  pid: 1,
  version: '1',
  data: 'memory',
  started_at: 1,
  secret: 's',
};

const sources = (given: {
  flag?: string;
  environment?: Record<string, string>;
  project?: string;
  config?: Config;
  hasLocal?: boolean;
  hasEnded?: boolean;
  hasLocalLogin?: boolean;
}): ProfileSources => ({
  flag: given.flag,
  environment: given.environment ?? {},
  projectFile: async () =>
    given.project === undefined ? undefined : { path: '/x/.asp.json', profile: given.project, agent: undefined },
  config: async () => given.config ?? CONFIG,
  localService: async () => (given.hasLocal === true ? LOCAL : undefined),
  endedService: async () => (given.hasEnded === true ? LOCAL : undefined),
  hasLocalLogin: async () => given.hasLocalLogin === true,
});

const none: Config = { profiles: {}, settings: {}, aliases: {} };

describe('an unknown profile name', () => {
  it('is reported with its source', async () => {
    const environment = { ASP_PROFILE: 'nope', ASP_TOKEN: 'x' };
    const { err } = await runWords('whoami --json', { environment });
    expect(JSON.parse(err)).toMatchObject({
      error: { code: 'ASP_CONFIG', hint: 'ASP_PROFILE names it; profiles: local.' },
    });
    const flag = await runWords('whoami -p nope --json', { environment: { ASP_TOKEN: 'x' } });
    expect(JSON.parse(flag.err)).toMatchObject({ error: { hint: 'profiles: local.' } });
  });

  it('cannot become the default', async () => {
    const { code, err } = await runWords('config set default_profile nope --json');
    expect(code).toBe(2);
    expect(JSON.parse(err)).toMatchObject({ error: { message: 'There is no profile nope.' } });
    for (const name of ['local', 'https://asp.example.org/v1'])
      expect(await runWords(['config', 'set', 'default_profile', name])).toMatchObject({ code: 0, out: `${name}\n` });
  });
});

describe('which service', () => {
  const everything = { flag: 'named', environment: { ASP_PROFILE: 'standard' }, project: 'project', hasLocal: true };
  const table: [title: string, given: Parameters<typeof sources>[0], name: string, place: string][] = [
    ['the flag comes first', everything, 'named', '--profile'],
    ['then the environment', { ...everything, flag: '' }, 'standard', 'ASP_PROFILE'],
    ['then the project file', { project: 'project', hasLocal: true }, 'project', '.asp.json'],
    ['then the default profile', { hasLocal: true }, 'standard', 'default_profile'],
    ['then a running local service', { config: none, hasLocal: true }, 'local', 'local service'],
  ];
  for (const [title, given, name, place] of table)
    it(title, async () => {
      const profile = await resolveProfile(sources(given));
      expect(profile.name).toBe(name);
      expect(profile.layers.filter(({ isChosen }) => isChosen)).toEqual([
        { question: 'profile', place, said: name, isChosen: true },
      ]);
      expect(profile.layers).toHaveLength(5);
    });

  it('a base URL can replace a profile', async () => {
    const profile = await resolveProfile(sources({ flag: 'https://other.example/v1/', config: none }));
    expect(profile).toMatchObject({ name: 'https://other.example/v1', baseUrl: 'https://other.example/v1' });
  });

  const refused: [title: string, given: Parameters<typeof sources>[0], code: string][] = [
    ['nothing at all', { config: none }, 'ASP_CONFIG'],
    ['an unknown profile', { flag: 'nmaed' }, 'ASP_CONFIG'],
    ['a name of every object', { flag: 'constructor' }, 'ASP_CONFIG'],
    ['plain http beyond this machine', { flag: 'http://other.example/v1' }, 'ASP_CONFIG'],
    ['a local service that was killed', { config: none, hasEnded: true }, 'ASP_LOCAL_NOT_RUNNING'],
    ['a local service that does not run', { flag: 'local', config: none }, 'ASP_LOCAL_NOT_RUNNING'],
    ['a local service that logins are for', { config: none, hasLocalLogin: true }, 'ASP_LOCAL_NOT_RUNNING'],
    ...['ASP_TOKEN', 'ASP_CLIENT_ID'].map((name): [string, Parameters<typeof sources>[0], string] => [
      `nothing at all with ${name}, even if logins are for a local service,`,
      { config: none, hasLocalLogin: true, environment: { [name]: 'x' } },
      'ASP_CONFIG',
    ]),
  ];
  for (const [title, given, code] of refused)
    it(`${title} is refused`, () => expect(resolveProfile(sources(given))).rejects.toMatchObject({ code }));
});

describe('which agent', () => {
  const profile: ResolvedProfile = {
    name: 'work',
    baseUrl: 'https://work.example/v1',
    authUrl: undefined,
    webUrl: undefined,
    wsUrl: undefined,
    agent: '@profile.bot',
    credentialCommand: undefined,
    local: undefined,
    layers: [],
  };
  interface Given {
    flag?: string;
    named?: string;
    project?: { profile: string | undefined; agent: string };
    ofProfile?: string | undefined;
    stored?: string[];
    choice?: AgentChoice;
  }
  const resolve = ({ flag, named, project, ofProfile, stored = [], choice = 'stored' }: Given) =>
    resolveAgent(
      {
        flag,
        environment: named === undefined ? {} : { ASP_AGENT: named },
        profile: { ...profile, agent: ofProfile },
        projectFile: async () => (project === undefined ? undefined : { path: '/x', ...project }),
        storedHandles: async () => stored,
      },
      choice,
    );
  const project = { profile: 'work', agent: '@project.bot' };

  it.each([
    ['the flag comes first', { flag: '@flag.bot', named: 'env.bot', project }, '@flag.bot'],
    ['then the environment', { named: 'env.bot', project }, '@env.bot'],
    ['then the project file', { project, ofProfile: '@profile.bot' }, '@project.bot'],
    ['then the profile', { ofProfile: '@profile.bot', stored: ['@a.b'] }, '@profile.bot'],
    ['then the first login', { stored: ['@c.d', '@a.b'] }, '@c.d'],
    [
      'a project file for another profile is passed over',
      { project: { ...project, profile: 'x' }, stored: ['@a.b'] },
      '@a.b',
    ],
    [
      'a bound credential leaves only flag and environment',
      { project, ofProfile: '@p.b', choice: 'bound' as const },
      undefined,
    ],
  ])('%s', async (_, given: Given, handle) => expect((await resolve(given)).handle).toBe(handle));

  it('no login at all says how to sign in', async () => {
    await expect(resolve({})).rejects.toMatchObject({ next: ['asp', 'login', '-p', 'work'] });
  });
});

describe('config.json', () => {
  it('is written atomically, only for its user, and replaces a symbolic link', async () => {
    const folder = freshHome();
    const elsewhere = join(folder, 'elsewhere');
    writeFileSync(elsewhere, 'untouched');
    const path = join(folder, 'asp-cli', 'config.json');
    mkdirSync(join(folder, 'asp-cli'));
    symlinkSync(elsewhere, path);
    await writeConfig(path, CONFIG);
    expect(await readConfig(path)).toEqual(CONFIG);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readFileSync(elsewhere, 'utf8')).toBe('untouched');
    expect(readdirSync(join(folder, 'asp-cli'))).toEqual(['config.json']);
  });

  it('counts as empty if it or the home does not exist', async () => {
    expect(await readConfig(undefined)).toEqual(none);
    expect(await readConfig(join(freshHome(), 'none.json'))).toEqual(none);
    expect(() => requireConfigFile(undefined)).toThrow(expect.objectContaining({ code: 'ASP_CONFIG' }));
  });

  it.each([
    ['[]'],
    ['{"profile":{}}'],
    ['{"profiles":{"a":{}}}'],
    ['{"profiles":{"a":{"base_url":"http://other.example/v1"}}}'],
    ['{"profiles":{"a":{"base_url":"https://user:pass@x.example/v1"}}}'],
    ['{"profiles":{"a":{"base_url":"https://x.example/v1?token=1"}}}'],
    ['{"profiles":{"a b":{"base_url":"https://x.example/v1"}}}'],
    ['{"profiles":{"a":{"base_url":"https://x.example/v1","ws_url":"ws://x.example"}}}'],
    ['{"profiles":{"a":{"base_url":"https://x.example/v1","agent":"Nobody"}}}'],
    ['{"profiles":{"a":{"base_url":"https://x.example/v1","credential_command":"sh -c x"}}}'],
  ])('refuses %s', (text) => expect(() => parseConfig(text)).toThrow());
});

describe('.asp.json', () => {
  it('is the nearest one up to the home directory, never above', async () => {
    const above = mkdtempSync(join(tmpdir(), 'asp-above-'));
    const home = join(above, 'home');
    const deep = join(home, 'a', 'b');
    mkdirSync(deep, { recursive: true });
    const find = () =>
      findProjectFile({
        environment: {},
        machine: {
          platform: 'linux',
          homeDirectory: home,
          temporaryDirectory: '/tmp',
          workingDirectory: deep,
          userId: 1,
        },
      });
    writeFileSync(join(above, '.asp.json'), '{"agent":"above.bot"}');
    expect(await find()).toBeUndefined();
    writeFileSync(join(home, '.asp.json'), '{"agent":"home.bot"}');
    expect(await find()).toMatchObject({ agent: '@home.bot' });
    writeFileSync(join(home, 'a', '.asp.json'), '{"profile":"near"}');
    expect(await find()).toMatchObject({ profile: 'near', agent: undefined });
  });

  it.each([
    ['{"base_url":"https://evil.example/v1"}'],
    ['{"profile":"https://evil.example/v1"}'],
    ['{"credential_command":["sh"]}'],
    ['{"agent":"x","token":"y"}'],
    ['{"profile":"../x"}'],
    ['[]'],
    ['{'],
  ])('holds only a profile and an agent: %s is refused', (text) =>
    expect(() => parseProjectFile('/x/.asp.json', text)).toThrow(/Could not use/),
  );

  describe('is trusted only if no one else can write to it', () => {
    const write = (make: (path: string, folder: string) => void): string => {
      const folder = freshHome();
      make(join(folder, '.asp.json'), folder);
      return folder;
    };
    const whoami = async (folder: string) => {
      const { code, err } = await runWords('whoami --json', { machine: { homeDirectory: folder } });
      expect(code).toBe(2);
      return JSON.parse(err).error as { code: string; message: string; hint: string };
    };
    const CONTENT = '{"agent":"@me.bot"}';

    it.each<[string, (path: string, folder: string) => void, RegExp]>([
      ['a link to a device', (path) => symlinkSync('/dev/zero', path), /symbolic link/],
      ['a pipe', (path) => execFileSync('mkfifo', [path]), /not a regular file/],
      [
        'a link to a private file',
        (path, folder) => {
          writeFileSync(join(folder, 'key'), 'SECRET', { mode: 0o600 });
          symlinkSync(join(folder, 'key'), path);
        },
        /symbolic link/,
      ],
      ['a file of 65 KiB', (path) => writeFileSync(path, CONTENT.padEnd(65 * 1024)), /too large/],
      [
        'a file that everyone may write',
        (path) => {
          writeFileSync(path, CONTENT);
          chmodSync(path, 0o666);
        },
        /other users can write/,
      ],
    ])('%s is refused at once', async (_, make, why) => {
      const failure = await whoami(write(make));
      expect(failure).toMatchObject({ code: 'ASP_CONFIG', hint: expect.stringMatching(why) });
      expect(JSON.stringify(failure)).not.toContain('SECRET');
    });

    it.skipIf(process.getuid?.() !== 0)('a file of another user is refused', async () => {
      const folder = write((path) => {
        writeFileSync(path, CONTENT);
        chownSync(path, 12_345, 12_345);
      });
      expect(await whoami(folder)).toMatchObject({ hint: expect.stringMatching(/another user/) });
    });

    it('an error shows none of its content', async () => {
      const folder = write((path) => writeFileSync(path, 'SECRET-----BEGIN'));
      const failure = await whoami(folder);
      expect(failure).toMatchObject({ code: 'ASP_CONFIG', hint: 'it is not JSON.' });
    });
  });
});

describe('the local service', () => {
  const probe = { isProcessAlive: () => true, processStart: () => '7' };
  const write = (record: unknown, mode = 0o600) => {
    const runtime = freshHome();
    const paths = resolvePaths({
      environment: { XDG_RUNTIME_DIR: runtime },
      machine: {
        platform: 'linux',
        homeDirectory: runtime,
        temporaryDirectory: '/tmp',
        workingDirectory: '/',
        userId: 1,
      },
    });
    mkdirSync(join(runtime, 'asp-cli', 'serve'), { recursive: true });
    const file = join(runtime, 'asp-cli', 'serve', 'default.json');
    writeFileSync(file, JSON.stringify(record));
    chmodSync(file, mode);
    return paths;
  };

  it('is found by its record', async () =>
    expect(await findLocalService(write(LOCAL), probe)).toEqual({ record: LOCAL, isRunning: true }));

  it('is the latest that runs, but the others that run are there too', async () => {
    const [first, second] = [1, 2].map((pid) => ({ ...LOCAL, pid, url: `http://127.0.0.1:${pid}/v1` }));
    const paths = write({ ...LOCAL, pid: 3, earlier: [second, first] });
    expect(await listRunningServices(paths, probe)).toMatchObject([{ pid: 3 }, second, first]);
    const killed = { ...probe, isProcessAlive: (pid: number) => pid === 1 };
    expect(await findLocalService(paths, killed)).toEqual({ record: first, isRunning: true });
    expect(await listRunningServices(paths, killed)).toEqual([first]);
  });

  it('that started last stays the first, whichever writes its record again first', () => {
    const [older, newer, newest] = [1, 2, 3].map((pid) => ({ ...LOCAL, pid, started_at: pid }));
    if (older === undefined || newer === undefined || newest === undefined) throw new Error('no records');
    expect(keepRecord([older], newest)).toEqual([newest, older]);
    expect(keepRecord([newest], older)).toEqual([newest, older]);
    expect(keepRecord([newest, older], newer)).toEqual([newest, newer, older]);
    expect(keepRecord([older, newest], newest)).toEqual([older, newest]);
    expect(keepRecord([], older)).toEqual([older]);
  });

  it('is not written without the others while their records cannot be read', async () => {
    const paths = { ...write(LOCAL), runtimeDirectory: `/${'x'.repeat(10_000)}` };
    await expect(readRunningServices(paths, probe)).rejects.toThrow('ENAMETOOLONG');
    expect(await listRunningServices(paths, probe)).toEqual([]);
    expect(await readRunningServices({ ...paths, runtimeDirectory: '/nowhere' }, probe)).toEqual([]);
    expect(await readRunningServices(write({ url: 'x' }), probe)).toEqual([]);
  });

  it('is not trusted if others can read its record, or the record is invalid', async () => {
    expect(await findLocalService(write(LOCAL, 0o644), probe)).toBeUndefined();
    expect(await findLocalService(write({ url: 'x' }), probe)).toBeUndefined();
  });

  it('does not run if its process is gone or its number was reused', async () => {
    const gone = { ...probe, isProcessAlive: () => false };
    expect(await findLocalService(write(LOCAL), gone)).toEqual({ record: LOCAL, isRunning: false });
    const record = { ...LOCAL, process_start: '7' };
    expect(await findLocalService(write(record), probe)).toEqual({ record, isRunning: true });
    const other = { ...probe, processStart: () => '8' };
    expect(await findLocalService(write(record), other)).toEqual({ record, isRunning: false });
    expect(await findLocalService(write(record), { ...probe, processStart: () => undefined })).toMatchObject({
      isRunning: true,
    });
  });
});

describe('places', () => {
  const machine = { homeDirectory: '/home/u', temporaryDirectory: '/tmp', workingDirectory: '/', userId: 7 };
  it('follow XDG, with the usual defaults', () => {
    expect(resolvePaths({ environment: {}, machine: { ...machine, platform: 'linux' } })).toEqual({
      configFile: '/home/u/.config/asp-cli/config.json',
      stateDirectory: '/home/u/.local/state/asp-cli',
      runtimeDirectory: '/tmp/asp-cli-7',
      dataDirectory: '/home/u/.local/share/asp-cli',
    });
    const environment = {
      XDG_CONFIG_HOME: '/c',
      XDG_STATE_HOME: '/s',
      XDG_RUNTIME_DIR: '/r',
      XDG_DATA_HOME: 'relative',
    };
    expect(resolvePaths({ environment, machine: { ...machine, platform: 'linux' } })).toEqual({
      configFile: '/c/asp-cli/config.json',
      stateDirectory: '/s/asp-cli',
      runtimeDirectory: '/r/asp-cli',
      dataDirectory: '/home/u/.local/share/asp-cli',
    });
  });

  it('are undefined without a home directory', () => {
    const paths = resolvePaths({
      environment: {},
      machine: { ...machine, homeDirectory: undefined, platform: 'linux' },
    });
    expect(paths).toMatchObject({ configFile: undefined, stateDirectory: undefined, dataDirectory: undefined });
  });
});
