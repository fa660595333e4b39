import { messageOf } from '../../kit/format.js';
import { parseIfJson } from '../../kit/parse-json.js';
import { readIfPresent } from '../../kit/private-file.js';
import { didYouMean } from '../../kit/suggest.js';
import { type Argument, command, describeTable } from '../command.js';
import type { Context } from '../context/context.js';
import { notFound } from '../context/explain.js';
import { usageError } from '../errors.js';
import {
  type Config,
  isAddress,
  isSettingName,
  LOCAL,
  PROFILE_NAME,
  type ProfileEntry,
  parseConfig,
  requireConfigFile,
  SETTINGS,
  type SettingName,
  writeConfig,
} from '../profile/config.js';
import { withFileLock } from '../profile/file-lock.js';

/** The part of `config.json` that a key names. */
type Key =
  | { readonly kind: 'default_profile' }
  | { readonly kind: 'setting'; readonly name: SettingName }
  | { readonly kind: 'profile'; readonly name: string; readonly member: Member };

/** The description of each member of a profile. */
const MEMBER = {
  base_url: 'the base URL of the service',
  auth_url: 'the authorization server, if the base URL does not lead to it',
  web_url: 'the website, if the base URL does not lead to it',
  ws_url: 'the WebSocket, if the base URL does not lead to it',
  agent: 'the agent to act as',
  credential_command: 'a program that prints an access token: a JSON list of its arguments, run without a shell',
} as const;
type Member = keyof typeof MEMBER;
const MEMBERS = Object.keys(MEMBER) as Member[];

/** Every setting and its description, as in the reference. */
export const SETTING_ABOUT: readonly (readonly [key: string, about: string])[] = [
  ['default_profile', 'the default profile'],
  ...Object.entries(SETTINGS).map(([name, { about }]) => [name, about] as const),
  ...MEMBERS.map((member) => [`profiles.<name>.${member}`, MEMBER[member]] as const),
];

const KEY = {
  usage: '<key>',
  about: 'default_profile, timeout, color, profiles.<name>.base_url, …',
} as const satisfies Argument;

/** `default_profile`, the name of a setting, `profiles.<name>.<member>`. */
function readKey(text: string): Key {
  if (text === 'default_profile') return { kind: text };
  if (isSettingName(text)) return { kind: 'setting', name: text };
  const [, name = '', last = ''] = /^profiles\.([^.]+)\.(.+)$/.exec(text) ?? [];
  const member = MEMBERS.find((each) => each === last);
  if (member !== undefined && PROFILE_NAME.test(name)) return { kind: 'profile', name, member };
  const known = [
    'default_profile',
    ...Object.keys(SETTINGS),
    ...MEMBERS.map((each) => `profiles.${name || 'work'}.${each}`),
  ];
  const own = known.slice(0, -MEMBERS.length).join(', ');
  throw usageError(`Unknown setting '${text}'.`, {
    why: didYouMean(text, known) ?? `settings: ${own}, and profiles.<name>.base_url and others of a profile.`,
    next: ['asp', 'config', 'list'],
  });
}

/** Every setting in a configuration, with its text. */
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

/** The configuration with one setting changed, or removed if `value` is undefined; validated like a file. */
function withSetting(config: Config, key: Key, value: string | undefined): Config {
  const next = change(config, key, value);
  try {
    return parseConfig(JSON.stringify(next));
  } catch (error) {
    throw usageError(`Invalid value: ${messageOf(error)}.`, {
      cause: error,
    });
  }
}

function change(config: Config, key: Key, value: string | undefined): Config {
  if (key.kind === 'default_profile') {
    const isKnown = value === undefined || value === LOCAL || isAddress(value) || Object.hasOwn(config.profiles, value);
    if (!isKnown) throw usageError(`There is no profile ${value}.`, { next: ['asp', 'profile', 'list'] });
    return { ...config, default_profile: value };
  }
  if (key.kind === 'setting') {
    const { [key.name]: _, ...settings } = config.settings;
    const checked = value === undefined ? {} : { [key.name]: SETTINGS[key.name].check(value) };
    return { ...config, settings: { ...settings, ...checked } };
  }
  const { name, member } = key;
  const before = Object.hasOwn(config.profiles, name) ? config.profiles[name] : undefined;
  if (before === undefined && member !== 'base_url')
    throw usageError(`There is no profile ${name}.`, {
      next: ['asp', 'profile', 'add', name, '--base-url', 'https://…'],
    });
  if (member === 'base_url' && value === undefined)
    throw usageError('A profile needs its base URL.', { next: ['asp', 'profile', 'remove', name] });
  const kept = member === 'credential_command' && value !== undefined ? readCommand(value) : value;
  const entry = { base_url: '', ...before, [member]: kept };
  return { ...config, profiles: { ...config.profiles, [name]: entry } };
}

/** A command as a JSON list of arguments, run without a shell. */
function readCommand(text: string): readonly string[] {
  const value = parseIfJson(text);
  if (Array.isArray(value) && value.every((word): word is string => typeof word === 'string')) return value;
  throw usageError('credential_command is a JSON list of strings: ["program","argument"].');
}

export const configList = command({
  path: 'config list',
  summary: 'list the settings of this machine',
  options: [
    { flags: '--origin', about: 'also show settings from this folder and the environment, and where each comes from' },
  ],
  examples: [
    { line: 'asp config list', about: 'the settings in the file' },
    { line: 'asp config list --origin --json', about: 'every source, for a script' },
  ],
  effect: 'none',
  stdout: describeTable('setting, value; with --origin its source'),
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
    if (items.length === 0) await output.note('No settings. To add a service: asp profile add <name> --base-url <url>');
  },
});

/** Environment variables that override a setting or add to it. */
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
  'NO_COLOR',
  'BROWSER',
  'VISUAL',
  'EDITOR',
];

export const configGet = command({
  path: 'config get',
  summary: 'print one setting; exit 3 if it is not set',
  arguments: [KEY],
  examples: [
    { line: 'asp config get default_profile', about: 'only its value' },
    { line: 'asp config get profiles.work.base_url', about: 'a setting of a profile' },
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
    if (found === undefined) throw await notFound(`${key} is not set.`, 'it is not in the file.', next);
    await context.output.document(found, (safe) => safe.value);
  },
});

export const configSet = command({
  path: 'config set',
  summary: 'change one setting',
  arguments: [KEY, { usage: '<value>', about: 'its new value' }],
  examples: [
    { line: 'asp config set default_profile work', about: 'the same as asp profile use work' },
    { line: 'asp config set profiles.work.agent @alice.bot', about: 'the agent to act as there' },
    { line: 'asp config set timeout 2m', about: 'for a slow network' },
  ],
  effect: 'local',
  stdout: 'the value',
  parse(args) {
    const text = args.argument('key');
    return { text, key: readKey(text), value: args.argument('value') };
  },
  async run(context, { text, key, value }) {
    await context.changeConfig((config) => withSetting(config, key, value));
    await context.output.document({ key: text, value }, (safe) => safe.value);
    const { ASP_PROFILE: named } = context.environment;
    if (key.kind === 'default_profile' && (named ?? value) !== value && named !== '')
      await context.output.note(`ASP_PROFILE is still set to ${named}.`);
  },
});

export const configUnset = command({
  path: 'config unset',
  summary: 'remove a setting',
  arguments: [KEY],
  examples: [
    { line: 'asp config unset default_profile', about: 'commands no longer have a default service' },
    { line: 'asp config unset profiles.work.agent', about: 'commands no longer have a default agent there' },
  ],
  effect: 'local',
  stdout: 'the setting',
  parse(args) {
    const text = args.argument('key');
    return { text, key: readKey(text) };
  },
  async run(context, { text, key }) {
    await context.changeConfig((config) => withSetting(config, key, undefined));
    await context.output.document({ key: text, value: null }, (safe) => safe.key);
  },
});

export const configEdit = command({
  path: 'config edit',
  summary: 'change the settings file in your editor',
  details:
    'VISUAL, EDITOR or the setting editor names the editor. The file is replaced only if the new text is valid and nothing else has changed the file in the meantime; ' +
    'otherwise your text is kept, and the error says where.',
  examples: [
    { line: 'asp config edit', about: 'works even if the file is broken' },
    { line: "EDITOR='code --wait' asp config edit", about: 'for editors that return before the file is closed' },
  ],
  effect: 'local',
  stdout: 'the path of the settings file',
  isEndless: true,
  async run(context) {
    const path = requireConfigFile(context.paths.configFile);
    const isChanged = await editSettings(context, path);
    if (!isChanged) await context.output.note('Nothing was changed.');
    await context.output.document({ config: path, changed: isChanged }, (safe) => safe.config);
  },
});

/** The settings file of someone who has none. */
const EMPTY_FILE = `${JSON.stringify({ profiles: {}, settings: {}, aliases: {} }, null, 2)}\n`;

/** Opens the editor until the text is valid or the user gives up. Resolves with whether the file was replaced. */
async function editSettings(context: Context, path: string): Promise<boolean> {
  const { editDraft } = await import('../terminal/editor.js');
  const before = await readIfPresent(path);
  const unchanged = 'Nothing was changed.';
  const draft = await editDraft(context, { file: 'config.json', text: before ?? EMPTY_FILE, unchanged });
  if (draft === undefined) return false;
  const readDraft = async (): Promise<Config | Error> => {
    try {
      return parseConfig((await readIfPresent(draft.path)) ?? '');
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    }
  };
  try {
    let config = await readDraft();
    while (config instanceof Error) {
      const why = `${config.message}.`;
      const again = 'edit again';
      const answer = context.prompts.canAsk
        ? await context.prompts.choose(`The settings are not valid: ${why}`, [again, 'stop'], 'a valid file')
        : undefined;
      if (answer !== again) throw usageError(`The settings are not valid. ${unchanged}`, { why, cause: config });
      await draft.reopen();
      config = await readDraft();
    }
    const edited = config;
    await withFileLock(context, path, async () => {
      if ((await readIfPresent(path)) !== before)
        throw usageError(`Someone else changed the settings in the meantime. ${unchanged}`, {
          why: `they are in ${path}.`,
        });
      await writeConfig(path, edited);
    });
  } catch (error) {
    await context.output.note(`Your text is in ${draft.path}.`);
    throw error;
  }
  await draft.discard();
  return true;
}

export const configPath = command({
  path: 'config path',
  summary: 'print the path of the settings file',
  examples: [
    { line: 'asp config path', about: 'the file' },
    { line: 'asp config path --json', about: 'also the folders for state, runtime files and data' },
  ],
  effect: 'none',
  stdout: 'the path of the settings file',
  async run(context) {
    const { stateDirectory, runtimeDirectory, dataDirectory } = context.paths;
    const folders = {
      config: requireConfigFile(context.paths.configFile),
      state: stateDirectory ?? null,
      runtime: runtimeDirectory,
      data: dataDirectory ?? null,
    };
    await context.output.document(folders, (safe) => safe.config);
  },
});
