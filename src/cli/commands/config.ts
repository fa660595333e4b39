import { type Argument, command, describeTable } from '../command.js';
import { notFound } from '../context/explain.js';
import { CliError, UsageError } from '../errors.js';
import {
  type Config,
  LOCAL,
  LOCAL_AGENT_SETTING,
  PROFILE_NAME,
  type ProfileEntry,
  parseConfig,
} from '../profile/config.js';
import { suggest } from '../suggest.js';
import { readHandle } from '../values.js';

/** What a key names in `config.json`. */
type Key =
  | { readonly kind: 'default_profile' }
  | { readonly kind: 'local_agent' }
  | { readonly kind: 'profile'; readonly name: string; readonly member: Member };

/** What each member of a profile is. */
const MEMBER = {
  base_url: 'the base URL of the service',
  auth_url: 'the authorization server, where the base URL does not lead to it',
  web_url: 'the pages for people, likewise',
  ws_url: 'the WebSocket, likewise',
  agent: 'the agent to act as',
  credential_command: 'a program that prints an access token: a JSON list of its words, run without a shell',
} as const;
type Member = keyof typeof MEMBER;
const MEMBERS = Object.keys(MEMBER) as Member[];

/** Every setting and what it is, as the reference shows them. */
export const SETTING_ABOUT: readonly (readonly [key: string, about: string])[] = [
  ['default_profile', 'the profile that holds where nobody names one'],
  [LOCAL_AGENT_SETTING, 'the agent to act as at the service of this machine'],
  ...MEMBERS.map((member) => [`profiles.<name>.${member}`, MEMBER[member]] as const),
];

const KEY = {
  usage: '<key>',
  about: 'default_profile, local_agent, profiles.<name>.base_url, …',
} as const satisfies Argument;

/** `default_profile`, `local_agent`, `profiles.<name>.<member>`. */
function readKey(text: string): Key {
  if (text === 'default_profile') return { kind: text };
  if (text === LOCAL_AGENT_SETTING) return { kind: 'local_agent' };
  const [, name = '', last = ''] = /^profiles\.([^.]+)\.(.+)$/.exec(text) ?? [];
  const member = MEMBERS.find((each) => each === last);
  if (member !== undefined && PROFILE_NAME.test(name)) return { kind: 'profile', name, member };
  const known = [
    'default_profile',
    LOCAL_AGENT_SETTING,
    ...MEMBERS.map((each) => `profiles.${name || 'work'}.${each}`),
  ];
  const [near] = suggest(text, known);
  throw new UsageError(`Unknown setting '${text}'.`, {
    why:
      near === undefined
        ? `settings are ${known.slice(0, 2).join(', ')}, profiles.<name>.base_url, ….`
        : `did you mean ${near}?`,
    next: ['asp', 'config', 'list'],
  });
}

/** Everything that a configuration sets, with its text. */
function listSettings(config: Config): { key: string; value: string }[] {
  const { default_profile: standard, profiles, settings } = config;
  return [
    ...(standard === undefined ? [] : [{ key: 'default_profile', value: standard }]),
    ...Object.entries(settings).map(([key, value]) => ({ key, value })),
    ...Object.entries(profiles).flatMap(([name, entry]) =>
      MEMBERS.flatMap((member) => {
        const value = toText(entry[member]);
        return value === undefined ? [] : [{ key: `profiles.${name}.${member}`, value }];
      }),
    ),
  ];
}

function toText(value: ProfileEntry[Member]): string | undefined {
  return value === undefined || typeof value === 'string' ? value : JSON.stringify(value);
}

/** The configuration with one setting changed, or removed when `value` is undefined; checked as if it had been read. */
function withSetting(config: Config, key: Key, value: string | undefined): Config {
  const next = change(config, key, value);
  try {
    return parseConfig(JSON.stringify(next));
  } catch (error) {
    throw new UsageError(`That is no value for this setting: ${error instanceof Error ? error.message : ''}.`, {
      cause: error,
    });
  }
}

function change(config: Config, key: Key, value: string | undefined): Config {
  if (key.kind === 'default_profile') {
    const isKnown =
      value === undefined || value === LOCAL || /^https?:\/\//.test(value) || Object.hasOwn(config.profiles, value);
    if (!isKnown) throw new UsageError(`There is no profile ${value}.`, { next: ['asp', 'profile', 'list'] });
    return { ...config, default_profile: value };
  }
  if (key.kind === 'local_agent') {
    const { [LOCAL_AGENT_SETTING]: _, ...settings } = config.settings;
    return {
      ...config,
      settings: value === undefined ? settings : { ...settings, [LOCAL_AGENT_SETTING]: readHandle(value) },
    };
  }
  const { name, member } = key;
  const before = Object.hasOwn(config.profiles, name) ? config.profiles[name] : undefined;
  if (before === undefined && member !== 'base_url')
    throw new UsageError(`There is no profile ${name}.`, {
      next: ['asp', 'profile', 'add', name, '--base-url', 'https://…'],
    });
  if (member === 'base_url' && value === undefined)
    throw new UsageError('A profile is its base URL.', { next: ['asp', 'profile', 'remove', name] });
  const kept = member === 'credential_command' && value !== undefined ? readCommand(value) : value;
  const entry = { base_url: '', ...before, [member]: kept };
  return { ...config, profiles: { ...config.profiles, [name]: entry } };
}

/** A command as a JSON list of its words: no shell reads it. */
function readCommand(text: string): readonly string[] {
  try {
    const words: unknown = JSON.parse(text);
    if (Array.isArray(words) && words.every((word): word is string => typeof word === 'string')) return words;
  } catch {}
  throw new UsageError('credential_command is a JSON list of words: ["program","word"].');
}

export const configList = command({
  path: 'config list',
  summary: 'what is set on this machine',
  options: [{ flags: '--origin', about: 'also what this folder and the environment say, and where each comes from' }],
  examples: [
    { line: 'asp config list', about: 'the settings of the file' },
    { line: 'asp config list --origin --json', about: 'everything that has a say, for a script' },
  ],
  effect: 'none',
  stdout: describeTable('setting, value; with --origin where it comes from'),
  parse: (args) => ({ hasOrigin: args.flag('origin') }),
  async run(context, { hasOrigin }) {
    const { paths, environment, output } = context;
    const items = listSettings(await context.config()).map((item) => ({ ...item, origin: paths.configFile ?? null }));
    if (hasOrigin) {
      const file = await context.projectFile();
      for (const key of ['profile', 'agent'] as const) {
        const value = file?.[key];
        if (file !== undefined && value !== undefined) items.push({ key, value, origin: file.path });
      }
      for (const name of VARIABLES) {
        const value = environment[name];
        if (value !== undefined && value !== '') items.push({ key: name, value, origin: 'environment' });
      }
    }
    await output.list({ items, next_cursor: null }, [
      { title: 'setting', value: ({ key }) => key },
      { title: 'value', value: ({ value }) => value, isFlexible: true },
      ...(hasOrigin ? [{ title: 'from', value: ({ origin }: { origin: string | null }) => origin ?? '-' }] : []),
    ]);
    if (items.length === 0) await output.note('Nothing is set. Begin with: asp profile add <name> --base-url <url>');
  },
});

/** Variables of the environment that take the place of a setting, or add to them. */
const VARIABLES = [
  'ASP_PROFILE',
  'ASP_AGENT',
  'ASP_CLIENT_ID',
  'ASP_CLIENT_SECRET_FILE',
  'ASP_TOKEN_STORE',
  'ASP_FORMAT',
  'ASP_TIMEOUT',
  'ASP_RETRIES',
  'ASP_NO_INPUT',
  'ASP_DEBUG',
];

export const configGet = command({
  path: 'config get',
  summary: 'print one setting; exit 3 when it is not set',
  arguments: [KEY],
  examples: [
    { line: 'asp config get default_profile', about: 'its value alone' },
    { line: 'asp config get profiles.work.base_url', about: 'of a profile' },
  ],
  effect: 'none',
  stdout: 'the value',
  parse(args) {
    const key = args.argument('key');
    readKey(key);
    return { key };
  },
  async run(context, { key }) {
    const found = listSettings(await context.config()).find((setting) => setting.key === key);
    const next = ['asp', 'config', 'list', '--origin'];
    if (found === undefined) throw await notFound(`${key} is not set.`, 'the file says nothing about it.', next);
    await context.output.document(found, (safe) => safe.value);
  },
});

export const configSet = command({
  path: 'config set',
  summary: 'change one setting',
  arguments: [KEY, { usage: '<value>', about: 'its new value' }],
  examples: [
    { line: 'asp config set default_profile work', about: 'the same as asp profile use work' },
    { line: 'asp config set profiles.work.agent @alice.bot', about: 'whom to act as there' },
  ],
  effect: 'local',
  stdout: 'the value',
  parse(args) {
    const text = args.argument('key');
    return { text, key: readKey(text), value: args.argument('value') };
  },
  async run(context, { text, key, value }) {
    const config = await context.config();
    await context.saveConfig(withSetting(config, key, value));
    await context.output.document({ key: text, value }, (safe) => safe.value);
    const { ASP_PROFILE: named } = context.environment;
    if (key.kind === 'default_profile' && (named ?? value) !== value && named !== '')
      await context.output.note(`ASP_PROFILE still says ${named}.`);
  },
});

export const configUnset = command({
  path: 'config unset',
  summary: 'remove a setting',
  arguments: [KEY],
  examples: [
    { line: 'asp config unset default_profile', about: 'no service is the standard any more' },
    { line: 'asp config unset profiles.work.agent', about: 'no agent is chosen there any more' },
  ],
  effect: 'local',
  stdout: 'the setting',
  parse(args) {
    const text = args.argument('key');
    return { text, key: readKey(text) };
  },
  async run(context, { text, key }) {
    await context.saveConfig(withSetting(await context.config(), key, undefined));
    await context.output.document({ key: text, value: null }, (safe) => safe.key);
  },
});

export const configPath = command({
  path: 'config path',
  summary: 'where the settings are kept',
  examples: [
    { line: 'asp config path', about: 'the file' },
    { line: 'asp config path --json', about: 'with the folders of state, run time and data' },
  ],
  effect: 'none',
  stdout: 'the path of the configuration file',
  async run(context) {
    const { configFile, stateDirectory, runtimeDirectory, dataDirectory } = context.paths;
    if (configFile === undefined)
      throw new CliError('ASP_CONFIG', {
        message: 'There is no place for settings: this user has no home directory.',
        why: 'set XDG_CONFIG_HOME to a folder.',
      });
    const folders = {
      config: configFile,
      state: stateDirectory ?? null,
      runtime: runtimeDirectory,
      data: dataDirectory ?? null,
    };
    await context.output.document(folders, (safe) => safe.config);
  },
});
