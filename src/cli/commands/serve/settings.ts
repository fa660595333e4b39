import * as z from 'zod/mini';

import { UsageError } from '../../terminal/cli-error.js';
import { readCount, readDuration, readHandles } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { readFaults } from './faults-setting.js';

const STANDARD_PORT = 8744;
const PORT_MAX = 65_535;
export const ENVIRONMENT_PREFIX = 'ASP_SERVE_';

/** One thing about a service that its operator decides: by a flag, a variable or a line of the configuration file. */
interface Setting<Value> {
  /** What the file may hold under this name. */
  readonly inFile: z.ZodMiniType<string | number | boolean | string[]>;
  /** The value that a text means; `source` is how an error names it. */
  readonly read: (text: string, source: string) => Value;
  /** What holds when nobody says anything. */
  readonly standard: Value;
}

const setting = <Value>(
  inFile: Setting<Value>['inFile'],
  read: Setting<Value>['read'],
  standard: Value,
): Setting<Value> => ({ inFile, read, standard });

const choice = <const Choice extends string>(choices: readonly Choice[], standard: Choice): Setting<Choice> =>
  setting(
    z.string(),
    (text, source) => {
      const chosen = choices.find((candidate) => candidate === text);
      if (chosen === undefined) throw new UsageError(`${source} '${text}' is not one of ${choices.join(', ')}.`);
      return chosen;
    },
    standard,
  );

const onOrOff = (): Setting<boolean> =>
  setting(
    z.boolean(),
    (text, source) => {
      if (/^(?:1|true|yes|on)$/i.test(text)) return true;
      if (/^(?:0|false|no|off)$/i.test(text)) return false;
      throw new UsageError(`${source} '${text}' is neither true nor false.`);
    },
    false,
  );

const word = (): Setting<string | undefined> => setting(z.string(), (text) => text, undefined);

const readPort = (text: string, source: string): number => readCount(source, text, { max: PORT_MAX });

/** Each under the long name of its flag, which is its name in the file too. */
export const SETTING = {
  host: setting(z.string(), (text) => text, '127.0.0.1'),
  port: setting(z.int(), readPort, STANDARD_PORT),
  data: word(),
  database: word(),
  bus: word(),
  'bus-creds': word(),
  'public-url': word(),
  'behind-proxy': onOrOff(),
  seed: setting<readonly string[]>(z.array(z.string()), (text) => readHandles([text]), []),
  policy: choice(['open', 'allowlist'], 'open'),
  demo: onOrOff(),
  limits: choice(['on', 'off'], 'on'),
  trust: choice(['recipient', 'symmetric'], 'recipient'),
  'presence-grace': setting<number | undefined>(z.string(), (text, source) => readDuration(source, text), undefined),
  log: choice(['errors', 'text', 'json'], 'errors'),
  inject: setting<string | undefined>(
    z.string(),
    (text, source) => {
      readFaults(source, text);
      return text;
    },
    undefined,
  ),
  'metrics-port': setting<number | undefined>(z.int(), readPort, undefined),
} as const;

export type SettingName = keyof typeof SETTING;
export const SETTING_NAMES = Object.keys(SETTING) as SettingName[];

/** What each setting is. */
export type Settings = { readonly [Name in SettingName]: (typeof SETTING)[Name]['standard'] };

/** The texts that one layer gives, by setting. */
export type Given = Readonly<Partial<Record<SettingName, string>>>;

/** One place where settings are said; the first layer that says one wins. */
export interface Layer {
  readonly given: Given;
  /** How an error and `--print-config` name this layer's word for a setting. */
  readonly nameOf: (name: SettingName) => string;
}

export interface Effective {
  readonly settings: Settings;
  /** Where each value came from. */
  readonly sources: Readonly<Record<SettingName, string>>;
}

export const variableOf = (name: SettingName): string =>
  `${ENVIRONMENT_PREFIX}${name.replaceAll('-', '_').toUpperCase()}`;

/** The flags that were typed. */
export function givenByWords(words: Words): Given {
  const given: Partial<Record<SettingName, string>> = {};
  for (const name of SETTING_NAMES) {
    const texts = words.texts(name);
    const text = texts.length > 0 ? texts.join(',') : words.flag(name) ? 'true' : words.text(name);
    if (text !== undefined) given[name] = text;
  }
  return given;
}

/** An empty variable says nothing. */
export function givenByEnvironment(environment: Readonly<Record<string, string | undefined>>): Given {
  const given: Partial<Record<SettingName, string>> = {};
  for (const name of SETTING_NAMES) {
    const text = environment[variableOf(name)];
    if (text !== undefined && text !== '') given[name] = text;
  }
  return given;
}

/** What holds, and why. Every layer is read, so that what is wrong in one is not hidden by another. */
export function settle(layers: readonly Layer[]): Effective {
  const settings: Record<string, unknown> = {};
  const sources: Record<string, string> = {};
  for (const name of SETTING_NAMES) {
    const { read, standard }: Setting<unknown> = SETTING[name];
    settings[name] = standard;
    sources[name] = 'default';
    for (const { given, nameOf } of [...layers].reverse()) {
      const text = given[name];
      if (text === undefined) continue;
      sources[name] = nameOf(name);
      settings[name] = read(text, nameOf(name));
    }
  }
  return { settings: settings as Settings, sources: sources as Effective['sources'] };
}
