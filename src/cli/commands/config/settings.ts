import { type Config, PROFILE_NAME, type ProfileEntry, parseConfig } from '../../profile/config.js';
import { LOCAL, LOCAL_AGENT_SETTING } from '../../profile/resolve-profile.js';
import { UsageError } from '../../terminal/cli-error.js';
import { suggest } from '../../words/suggest.js';
import { readHandle } from '../../words/values.js';

/** What a key of `asp config` names in `config.json`. */
export type Key =
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

/** `default_profile`, `local_agent`, `profiles.<name>.<member>`. */
export function readKey(text: string): Key {
  if (text === 'default_profile') return { kind: text };
  if (text === LOCAL_AGENT_SETTING) return { kind: 'local_agent' };
  const [, name = '', last = ''] = /^profiles\.([^.]+)\.(.+)$/.exec(text) ?? [];
  const member = MEMBERS.find((one) => one === last);
  if (member !== undefined && PROFILE_NAME.test(name)) return { kind: 'profile', name, member };
  const known = ['default_profile', LOCAL_AGENT_SETTING, ...MEMBERS.map((one) => `profiles.${name || 'work'}.${one}`)];
  const near = suggest(text, known)[0];
  throw new UsageError(`'${text}' is no setting.`, {
    why:
      near === undefined
        ? `settings are ${known.slice(0, 2).join(', ')}, profiles.<name>.base_url, ….`
        : `did you mean ${near}?`,
    next: ['asp', 'config', 'list'],
  });
}

/** A setting that is there, and its text. */
export interface Setting {
  readonly key: string;
  readonly value: string;
}

/** Everything that a configuration says, a line each. */
export function settingsOf(config: Config): Setting[] {
  const { default_profile: standard, profiles, settings } = config;
  return [
    ...(standard === undefined ? [] : [{ key: 'default_profile', value: standard }]),
    ...Object.entries(settings).map(([key, value]) => ({ key, value })),
    ...Object.entries(profiles).flatMap(([name, entry]) =>
      MEMBERS.flatMap((member) => {
        const value = textOf(entry, member);
        return value === undefined ? [] : [{ key: `profiles.${name}.${member}`, value }];
      }),
    ),
  ];
}

function textOf(entry: ProfileEntry, member: Member): string | undefined {
  const value = entry[member];
  return value === undefined || typeof value === 'string' ? value : JSON.stringify(value);
}

/** The configuration with one setting changed, or gone when `value` is undefined; checked as if it had been read. */
export function withSetting(config: Config, key: Key, value: string | undefined): Config {
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
  const said = member === 'credential_command' && value !== undefined ? readWordList(value) : value;
  const entry = { base_url: '', ...before, [member]: said };
  return { ...config, profiles: { ...config.profiles, [name]: entry } };
}

/** A command as a JSON list of its words: no shell reads it. */
function readWordList(text: string): readonly string[] {
  try {
    const words: unknown = JSON.parse(text);
    if (Array.isArray(words) && words.every((word): word is string => typeof word === 'string')) return words;
  } catch {}
  throw new UsageError('credential_command is a JSON list of words: ["program","word"].');
}
