import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { startScriptedServer } from '../../support/scripted-server.js';
import { column, everyOption, jsonOf, type Scene, shown, type Table } from './every-option.js';

type Typed = readonly string[];

const BASE = '--base-url https://api.example/v1';
const ADD = `profile add work ${BASE}`;

/** Runs the `before` lines and the command, then returns a member of the profile `work`. */
const workAfter =
  (member: string, command: string, before: readonly string[] = []) =>
  async ({ asNobody }: Scene, typed: Typed): Promise<unknown> => {
    for (const line of before) await asNobody(line);
    await asNobody([command, typed]);
    const ran = await asNobody('profile show work --json');
    return ran.code === 0 ? (jsonOf(ran) as Record<string, unknown>)[member] : null;
  };

const profiles = async ({ asNobody }: Scene): Promise<unknown> => column(await asNobody('profile list --json'), 'name');

/** Runs the line without credentials and inspects its output. */
const printed =
  (line: string, look: (out: string) => unknown) =>
  async ({ asNobody }: Scene, typed: Typed): Promise<unknown> =>
    look((await asNobody([line, typed])).out);

const URLS = ['auth', 'web', 'ws'] as const;
const urlOptions = (command: string, before: readonly string[] = []): Table[string] =>
  Object.fromEntries(
    URLS.map((name) => {
      const url = `${name === 'ws' ? 'wss' : 'https'}://${name}.example/x`;
      return [`--${name}-url`, shown(`--${name}-url ${url}`, url, workAfter(`${name}_url`, command, before))];
    }),
  );

/** A coding agent's settings file in the home of a scene. */
const SETTINGS = '.codex/config.toml';
const SKILL = '.codex/skills/asp/SKILL.md';
const isThere = ({ home }: Scene, path: string): boolean => existsSync(join(home, path));

/** Returns which of these files exist after the command. */
const filesAfter =
  (line: string, paths: readonly string[], before: readonly string[] = []) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    for (const each of before) await scene.as(scene.alice, [each, ...AS_ALICE]);
    await scene.as(scene.alice, [line, typed, ...AS_ALICE]);
    return paths.map((path) => isThere(scene, path));
  };
const AS_ALICE = ['--as $alice'];

const TABLE: Table = {
  connect: {
    program: shown('codex', [true, true], filesAfter('connect', [SETTINGS, SKILL]), 'gemini'),
    '--list': shown('--list', [0, 8], async ({ as, alice }, typed) => {
      const { code, out } = await as(alice, ['connect', typed]);
      return [code, out.split('\n').length - 1];
    }),
    '--dry-run': shown('--dry-run', [false], filesAfter('connect codex', [SETTINGS])),
    '--force': shown('--force', [true], async (scene, typed) => {
      mkdirSync(join(scene.home, '.codex/skills/asp'), { recursive: true });
      writeFileSync(join(scene.home, SKILL), 'mine');
      return filesAfter('connect codex', [SETTINGS])(scene, typed);
    }),
  },
  disconnect: {
    program: shown('codex', [false], filesAfter('disconnect', [SETTINGS], ['connect codex']), 'gemini'),
    '--dry-run': shown('--dry-run', [true], filesAfter('disconnect codex', [SETTINGS], ['connect codex'])),
  },
  'skill install': {
    program: shown('codex', [true], filesAfter('skill install', [SKILL]), 'gemini'),
    // The home is also the working folder. Disconnecting an agent keeps the files in projects.
    '--project': shown('--project', true, async (scene, typed) => {
      await scene.as(scene.alice, ['skill install codex', typed]);
      await scene.as(scene.alice, 'disconnect codex');
      return isThere(scene, SKILL);
    }),
    '--dry-run': shown('--dry-run', [false], filesAfter('skill install codex', [SKILL])),
    '--force': shown('--force', true, async (scene, typed) => {
      mkdirSync(join(scene.home, '.codex/skills/asp'), { recursive: true });
      writeFileSync(join(scene.home, SKILL), 'mine');
      await scene.as(scene.alice, ['skill install codex', typed]);
      return readFileSync(join(scene.home, SKILL), 'utf8') !== 'mine';
    }),
  },
  'profile show': {
    name: shown('work', 'work', async ({ asNobody }, typed) => {
      for (const line of [ADD, 'profile add home --base-url https://home.example/v1', 'profile use home'])
        await asNobody(line);
      return (jsonOf(await asNobody(['profile show --json', typed])) as { name: unknown }).name;
    }),
  },
  'profile add': {
    name: shown(
      'work',
      true,
      async (scene, typed) => {
        await scene.asNobody(['profile add', typed, BASE]);
        return ((await profiles(scene)) as string[]).includes('work');
      },
      'home',
    ),
    '--base-url': shown(
      BASE,
      'https://api.example/v1',
      workAfter('base_url', 'profile add work'),
      '--base-url https://other.example/v1',
    ),
    ...urlOptions(ADD),
  },
  'profile set': {
    name: shown(
      'work',
      'https://new.example/v1',
      async ({ asNobody }, typed) => {
        await asNobody(ADD);
        await asNobody('profile add home --base-url https://home.example/v1');
        await asNobody(['profile set', typed, '--base-url https://new.example/v1']);
        return (jsonOf(await asNobody('profile show work --json')) as { base_url: unknown }).base_url;
      },
      'home',
    ),
    '--base-url': shown(
      '--base-url https://new.example/v1',
      'https://new.example/v1',
      workAfter('base_url', 'profile set work', [ADD]),
    ),
    ...urlOptions('profile set work', [ADD]),
  },
  'profile remove': {
    name: shown(
      'work',
      false,
      async (scene, typed) => {
        await scene.asNobody(ADD);
        await scene.asNobody('profile add home --base-url https://home.example/v1');
        await scene.asNobody(['profile remove --yes', typed]);
        return ((await profiles(scene)) as string[]).includes('work');
      },
      'home',
    ),
  },
  'profile use': {
    name: shown(
      'work',
      'work\n',
      async ({ asNobody }, typed) => {
        await asNobody(ADD);
        await asNobody('profile add home --base-url https://home.example/v1');
        await asNobody(['profile use', typed]);
        return (await asNobody('config get default_profile')).out;
      },
      'home',
    ),
  },
  'config list': {
    '--origin': shown('--origin', true, async ({ asNobody }, typed) => {
      const { out } = await asNobody(['config list', typed], { environment: { ASP_PROFILE: 'local' } });
      return out.includes('environment');
    }),
  },
  'config get': {
    key: shown(
      'local_agent',
      '@ann.bot\n',
      async ({ asNobody }, typed) => {
        await asNobody('config set local_agent ann.bot');
        return (await asNobody(['config get', typed])).out;
      },
      'default_profile',
    ),
  },
  'config set': {
    key: shown(
      'local_agent',
      '@ann.bot\n',
      async ({ asNobody }, typed) => {
        await asNobody(['config set', typed, 'ann.bot']);
        return (await asNobody('config get local_agent')).out;
      },
      'default_profile',
    ),
    value: shown(
      'ann.bot',
      '@ann.bot\n',
      async ({ asNobody }, typed) => {
        await asNobody(['config set local_agent', typed]);
        return (await asNobody('config get local_agent')).out;
      },
      'eve.bot',
    ),
  },
  'config unset': {
    key: shown(
      'local_agent',
      '',
      async ({ asNobody }, typed) => {
        await asNobody('config set local_agent ann.bot');
        await asNobody(['config unset', typed]);
        return (await asNobody('config get local_agent')).out;
      },
      'default_profile',
    ),
  },
  'alias set': {
    name: shown(
      'here',
      'here\n',
      async ({ asNobody }, typed) => {
        await asNobody(['alias set', typed, '-- config path']);
        return (await asNobody('alias list')).out.replace(/\t.*/, '');
      },
      'there',
    ),
    words: shown(
      '-- config path',
      true,
      async ({ asNobody, home }, typed) => {
        await asNobody(['alias set here', typed]);
        return (await asNobody('here')).out.startsWith(home);
      },
      '-- version',
    ),
  },
  'alias remove': {
    name: shown(
      'here',
      '',
      async ({ asNobody }, typed) => {
        await asNobody('alias set here -- config path');
        await asNobody(['alias remove', typed]);
        return (await asNobody('alias list')).out;
      },
      'there',
    ),
  },
  status: {
    '--offline': shown('--offline', 0, async ({ asNobody, sent }, typed) => {
      await asNobody(['status', typed]);
      return sent.length;
    }),
  },
  doctor: {
    '--fix': shown('--fix', 0o700, async ({ asNobody, home }, typed) => {
      const folder = join(home, '.local', 'state', 'asp-cli');
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      chmodSync(folder, 0o755);
      await asNobody(['doctor', typed]);
      return statSync(folder).mode & 0o777;
    }),
    '--bundle': shown('--bundle bundle.json', true, async ({ asNobody, home }, typed) => {
      await asNobody(['doctor', typed]);
      return existsSync(join(home, 'bundle.json'));
    }),
  },
  completion: {
    '--install': shown('--install', true, async ({ asNobody, home }, typed) => {
      await asNobody(['completion fish', typed]);
      return existsSync(join(home, '.config/fish/completions/asp.fish'));
    }),
    shell: shown(
      'bash',
      true,
      printed('completion', (out) => out.includes('COMPREPLY')),
      'fish',
    ),
  },
  schema: {
    name: shown(
      'session list',
      true,
      printed('schema', (out) => out.includes('next_cursor')),
      'version',
    ),
  },
  help: {
    topic: shown(
      'session list',
      true,
      printed('help', (out) => out.startsWith('asp session list\n')),
    ),
  },
  version: {
    '--check': shown('--check', '9.9.9\n', async ({ asNobody }, typed) => {
      const registry = await startScriptedServer({
        method: 'GET',
        path: '/asp-cli/latest',
        body: { version: '9.9.9' },
      });
      const { out } = await asNobody(['version', typed], { environment: { npm_config_registry: registry.origin } });
      await registry.finish().catch(() => {});
      return out;
    }),
  },
  commands: {
    command: shown(
      'session list',
      false,
      printed('commands', (out) => out.includes('agent create')),
    ),
  },
  explain: {
    code: shown(
      'NOT_FOUND',
      true,
      printed('explain', (out) => out.includes('NOT_FOUND')),
      'FORBIDDEN',
    ),
  },
};

everyOption('here', TABLE);
