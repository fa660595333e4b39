import type { LockContext } from '../../client/credentials/process-lock.js';
import { messageOf } from '../../kit/format.js';
import { isLoopbackHost } from '../../kit/loopback.js';
import { isObject } from '../../kit/parse-json.js';
import { fileFault, readIfPresent, replaceFile } from '../../kit/private-file.js';
import { CliError, usageError } from '../errors.js';
import type { ColorChoice } from '../terminal/style.js';
import { parseHandle, readCount, readDuration, readHandle } from '../values.js';
import { withFileLock } from './file-lock.js';

/** One service, under the user's own name for it. The file uses these keys unchanged. */
export interface ProfileEntry {
  readonly base_url: string;
  readonly auth_url?: string | undefined;
  readonly web_url?: string | undefined;
  readonly ws_url?: string | undefined;
  /** The agent to act as. */
  readonly agent?: string | undefined;
  /** A command that prints an access token, as a list of arguments, run without a shell. */
  readonly credential_command?: readonly string[] | undefined;
}

/** `config.json`: the user's settings on this machine. It contains no secrets. */
export interface Config {
  readonly default_profile?: string | undefined;
  readonly profiles: Readonly<Record<string, ProfileEntry>>;
  readonly settings: Readonly<Record<string, string>>;
  /** The user's aliases, each with its command as a list of words. */
  readonly aliases: Readonly<Record<string, readonly string[]>>;
}

/** The profile that stands for the local service, regardless of its address. */
export const LOCAL = 'local';
/** The setting that stores its agent: it has no entry among the profiles. */
export const LOCAL_AGENT_SETTING = 'local_agent';

export const RETRIES_MAX = 20;
export const COLOR_CHOICES: readonly ColorChoice[] = ['auto', 'always', 'never'];

interface Setting {
  readonly about: string;
  /** The only values, if there are few. */
  readonly choices?: readonly string[];
  /** The value as it is stored. @throws CliError `ASP_USAGE` */
  readonly check: (text: string) => string;
}

const oneOf = (name: string, choices: readonly string[]) => ({
  choices,
  check(text: string): string {
    if (choices.includes(text)) return text;
    throw usageError(`${name} '${text}' is not one of ${choices.join(', ')}.`);
  },
});

const program = (name: string) => ({
  check(text: string): string {
    if (text.trim() !== '') return text;
    throw usageError(`${name} needs a program.`);
  },
});

/** The settings of a machine. Options and environment variables override them. */
export const SETTINGS = {
  [LOCAL_AGENT_SETTING]: { about: 'the agent to act as at the local service', check: readHandle },
  timeout: {
    about: 'the deadline of each command whose default is 60s; --timeout and ASP_TIMEOUT win',
    check(text) {
      if (readDuration('timeout', text) > 0) return text;
      throw usageError('timeout must be longer than 0.');
    },
  },
  retries: {
    about: 'retries of each request, from 0 to 20; --retries and ASP_RETRIES win',
    check: (text) => String(readCount('retries', text, { max: RETRIES_MAX })),
  },
  color: {
    about: 'color: auto, always or never; --color and variables such as NO_COLOR win',
    ...oneOf('color', COLOR_CHOICES),
  },
  browser: { about: 'the command that opens an address, or none; --browser and BROWSER win', ...program('browser') },
  editor: { about: 'the editor for texts and settings; VISUAL and EDITOR win', ...program('editor') },
  store: {
    about: 'where to store new logins: keychain or file; --store and ASP_TOKEN_STORE win',
    ...oneOf('store', ['keychain', 'file']),
  },
} as const satisfies Readonly<Record<string, Setting>>;

export type SettingName = keyof typeof SETTINGS;
export const isSettingName = (text: string): text is SettingName => Object.hasOwn(SETTINGS, text);

export const PROFILE_NAME = /^[a-z0-9][a-z0-9_-]{0,62}$/i;
export const ALIAS_NAME = /^[a-z][a-z0-9-]{0,49}$/;
const EMPTY: Config = { profiles: {}, settings: {}, aliases: {} };

/** `https`, or `http` on this machine; without credentials, query or trailing slash. Throws the problem. */
export function readServiceUrl(text: string, protocols: readonly string[] = WEB): string {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new TypeError('is not a URL');
  }
  if (!protocols.includes(url.protocol)) throw new TypeError(`must begin with ${protocols[0]}//`);
  if (url.username !== '' || url.password !== '') throw new TypeError('must not contain a user or password');
  if (url.search !== '' || url.hash !== '') throw new TypeError('must not contain a query or fragment');
  const isSafe = url.protocol === 'https:' || url.protocol === 'wss:';
  if (!isSafe && !isLoopbackHost(url.hostname))
    throw new TypeError('must be encrypted (https, wss) beyond this machine');
  return text.replace(/\/+$/, '');
}

function readUrl(where: string, text: string, protocols: readonly string[] = WEB): string {
  try {
    return readServiceUrl(text, protocols);
  } catch (error) {
    throw new TypeError(`${where} ${messageOf(error)}`);
  }
}

/** Whether the name of a profile is itself the base URL. */
export const isAddress = (name: string): boolean => /^https?:\/\//.test(name);

const WEB = ['https:', 'http:'];
const SOCKET = ['wss:', 'ws:'];

function readEntry(where: string, value: unknown): ProfileEntry {
  if (!isObject(value)) throw new TypeError(`${where} must be an object`);
  const known = ['base_url', 'auth_url', 'web_url', 'ws_url', 'agent', 'credential_command'];
  const unknownKey = Object.keys(value).find((key) => !known.includes(key));
  if (unknownKey !== undefined) throw new TypeError(`${where}.${unknownKey} is not a setting`);
  const url = (key: string, protocols: readonly string[]): string | undefined => {
    const text = value[key];
    if (text === undefined) return undefined;
    if (typeof text !== 'string') throw new TypeError(`${where}.${key} must be a string`);
    return readUrl(`${where}.${key}`, text, protocols);
  };
  const base = url('base_url', WEB);
  if (base === undefined) throw new TypeError(`${where}.base_url is missing`);
  const { agent, credential_command: command } = value;
  if (agent !== undefined && (typeof agent !== 'string' || parseHandle(agent) === undefined))
    throw new TypeError(`${where}.agent must be a handle`);
  if (command !== undefined && !isStrings(command))
    throw new TypeError(`${where}.credential_command must be a list of strings`);
  return {
    base_url: base,
    auth_url: url('auth_url', WEB),
    web_url: url('web_url', WEB),
    ws_url: url('ws_url', SOCKET),
    agent: agent === undefined ? undefined : parseHandle(agent),
    credential_command: command,
  };
}

export const isStrings = (value: unknown): value is string[] =>
  Array.isArray(value) && value.length > 0 && value.every((word) => typeof word === 'string');

/** The text of a `config.json`, checked. Throws TypeError or SyntaxError. */
export function parseConfig(text: string): Config {
  const value: unknown = JSON.parse(text);
  if (!isObject(value)) throw new TypeError('it must contain an object');
  const known = ['default_profile', 'profiles', 'settings', 'aliases'];
  const unknownKey = Object.keys(value).find((key) => !known.includes(key));
  if (unknownKey !== undefined) throw new TypeError(`${unknownKey} is not a setting`);
  const { default_profile: standard, profiles = {}, settings = {}, aliases = {} } = value;
  if (standard !== undefined && typeof standard !== 'string') throw new TypeError('default_profile must be a string');
  if (standard !== undefined && isAddress(standard)) readUrl('default_profile', standard);
  else if (standard !== undefined && !PROFILE_NAME.test(standard))
    throw new TypeError('default_profile must be the name of a profile');
  if (!isObject(profiles)) throw new TypeError('profiles must be an object');
  if (!isObject(settings)) throw new TypeError('settings must be an object');
  if (!isObject(aliases)) throw new TypeError('aliases must be an object');
  const entries = Object.entries(profiles).map(([name, entry]): [string, ProfileEntry] => {
    if (!PROFILE_NAME.test(name)) throw new TypeError(`profiles.${name} is not a name`);
    return [name, readEntry(`profiles.${name}`, entry)];
  });
  const texts = Object.entries(settings).map(([key, setting]): [string, string] => {
    if (typeof setting !== 'string') throw new TypeError(`settings.${key} must be a string`);
    return [key, isSettingName(key) ? checkSetting(key, setting) : setting];
  });
  const commands = Object.entries(aliases).map(([name, words]): [string, readonly string[]] => {
    if (!ALIAS_NAME.test(name)) throw new TypeError(`aliases.${name} is not a name`);
    if (!isStrings(words)) throw new TypeError(`aliases.${name} must be a list of strings`);
    return [name, words];
  });
  return {
    default_profile: standard,
    profiles: Object.fromEntries(entries),
    settings: Object.fromEntries(texts),
    aliases: Object.fromEntries(commands),
  };
}

function checkSetting(name: SettingName, text: string): string {
  try {
    return SETTINGS[name].check(text);
  } catch (error) {
    throw new TypeError(`settings.${messageOf(error).replace(/\.$/, '')}`);
  }
}

export async function readConfig(path: string | undefined): Promise<Config> {
  if (path === undefined) return EMPTY;
  try {
    const text = await readIfPresent(path);
    return text === undefined ? EMPTY : parseConfig(text);
  } catch (error) {
    throw new CliError('ASP_CONFIG', {
      message: `Could not use ${path}.`,
      why: `${messageOf(error)}.`,
      next: ['asp', 'config', 'edit'],
      cause: error,
    });
  }
}

/** The path of the settings file. @throws CliError `ASP_CONFIG` for a user without a home directory */
export function requireConfigFile(path: string | undefined): string {
  if (path !== undefined) return path;
  throw new CliError('ASP_CONFIG', {
    message: 'Settings cannot be stored: this user has no home directory.',
    why: 'set XDG_CONFIG_HOME to a folder.',
  });
}

/** The new settings, made from those that are stored now. */
export type ConfigChange = (config: Config) => Config | Promise<Config>;

/** Replaces the settings with what `change` makes of those that are stored now. */
export async function changeConfig(
  context: LockContext,
  file: string | undefined,
  change: ConfigChange,
): Promise<{ readonly before: Config; readonly next: Config }> {
  const path = requireConfigFile(file);
  return withFileLock(context, path, async () => {
    const before = await readConfig(path);
    const next = await change(before);
    await writeConfig(path, next);
    return { before, next };
  });
}

/** Replaces the file atomically. */
export async function writeConfig(path: string, config: Config): Promise<void> {
  try {
    await replaceFile(path, `${JSON.stringify(config, null, 2)}\n`);
  } catch (error) {
    const fault = fileFault(error);
    if (fault === undefined) throw error;
    throw new CliError('ASP_CONFIG', { message: `Could not write ${path}.`, why: `${fault}.`, cause: error });
  }
}
