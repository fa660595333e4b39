import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import * as z from 'zod/mini';

import { hasBusSecret, readBusAddress } from '../../../service/bus/bus-address.js';
import { DEFAULT_ACCOUNT_QUOTA } from '../../../service/context.js';
import { hasSecret, readDatabaseAddress } from '../../../service/store/database-address.js';
import { PARTICIPANTS_PER_SESSION_MAX } from '../../../wire/limit.js';
import type { Context } from '../../context/context.js';
import { CliError, UsageError } from '../../errors.js';
import { suggest } from '../../suggest.js';
import { readCount, readDuration, readHandles, readSize } from '../../values.js';
import { readFaults } from './faults-setting.js';
import type { ServeArgs } from './serve.js';

const STANDARD_PORT = 8744;
const PORT_MAX = 65_535;
const PARTICIPANTS_MAX = 100_000;
const QUOTA_MAX = 100_000;
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

const readQuota = (text: string, source: string): number => readCount(source, text, { min: 1, max: QUOTA_MAX });

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
  'sign-up': choice(['open', 'invite', 'off'], 'open'),
  'open-agents': choice(['trusted', 'all'], 'trusted'),
  'account-agents': setting(z.int(), readQuota, DEFAULT_ACCOUNT_QUOTA.agents),
  'account-clients': setting(z.int(), readQuota, DEFAULT_ACCOUNT_QUOTA.clients),
  'account-storage': setting(
    z.union([z.string(), z.int()]),
    (text, source) => readSize(source, text),
    DEFAULT_ACCOUNT_QUOTA.attachmentBytes,
  ),
  'account-sessions': setting(z.int(), readQuota, DEFAULT_ACCOUNT_QUOTA.sessionsPerHour),
  'max-participants': setting(
    z.int(),
    (text, source) => readCount(source, text, { min: 2, max: PARTICIPANTS_MAX }),
    PARTICIPANTS_PER_SESSION_MAX,
  ),
  'presence-grace': setting<number | undefined>(z.string(), (text, source) => readDuration(source, text), undefined),
  log: choice(['errors', 'text', 'json'], 'errors'),
  'security-log': word(),
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
interface Layer {
  readonly given: Given;
  /** How an error and `--print-config` name this layer's word for a setting. */
  readonly nameOf: (name: SettingName) => string;
}

interface Effective {
  readonly settings: Settings;
  /** Where each value came from. */
  readonly sources: Readonly<Record<SettingName, string>>;
}

export const variableOf = (name: SettingName): string =>
  `${ENVIRONMENT_PREFIX}${name.replaceAll('-', '_').toUpperCase()}`;

/** The flags that were typed. */
export function readFlags(args: ServeArgs): Given {
  const given: Partial<Record<SettingName, string>> = {};
  for (const name of SETTING_NAMES) {
    const value = args.value(name);
    const text = value === true ? 'true' : typeof value === 'object' ? value.join(',') : value;
    if (typeof text === 'string') given[name] = text;
  }
  return given;
}

/** An empty variable counts as unset. */
function readVariables(environment: Readonly<Record<string, string | undefined>>): Given {
  const given: Partial<Record<SettingName, string>> = {};
  for (const name of SETTING_NAMES) {
    const text = environment[variableOf(name)];
    if (text !== undefined && text !== '') given[name] = text;
  }
  return given;
}

/** What holds, and why. Every layer is read, so that what is wrong in one is not hidden by another. */
function settle(layers: readonly Layer[]): Effective {
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

/** The name that other programs know for it. */
const DATABASE_VARIABLE = 'ASP_DATABASE';
const CONFIG_VARIABLE = `${ENVIRONMENT_PREFIX}CONFIG`;

/** What holds: a flag before a variable before the file. */
export async function readSettings(context: Context, flags: Given, configPath: string | undefined): Promise<Effective> {
  const { environment } = context;
  if (flags.database !== undefined) requireNoDatabaseSecret(flags.database);
  if (flags.bus !== undefined) requireNoBusSecret(flags.bus);
  const database = environment[DATABASE_VARIABLE];
  const path = configPath ?? (environment[CONFIG_VARIABLE] || undefined);
  const file: Layer[] = path === undefined ? [] : [await readConfigFile(path)];
  await noteMisspelt(context);
  return settle([
    { given: flags, nameOf: (name) => `--${name}` },
    { given: readVariables(environment), nameOf: variableOf },
    { given: database ? { database } : {}, nameOf: () => DATABASE_VARIABLE },
    ...file,
  ]);
}

/** A remark and no refusal: an orchestrator may well set variables of this prefix for a service of this name. */
async function noteMisspelt({ environment, output }: Context): Promise<void> {
  const known = [...SETTING_NAMES.map(variableOf), CONFIG_VARIABLE];
  for (const name of Object.keys(environment)) {
    if (!name.startsWith(ENVIRONMENT_PREFIX) || known.includes(name)) continue;
    const [near] = suggest(name, known);
    if (near !== undefined)
      await output.note(`${name} is not a setting of asp serve and is ignored. Did you mean ${near}?`);
  }
}

/** What may hold a secret, without it. */
const SHOWN: Partial<Record<SettingName, (value: string) => string>> = { database: showDatabase, bus: showBus };

/** One line a setting: what holds and who said so. */
export async function printSettings({ output }: Context, { settings, sources }: Effective): Promise<void> {
  const items = SETTING_NAMES.map((name) => {
    const value = settings[name] ?? null;
    const show = SHOWN[name];
    return { name, value: show !== undefined && value !== null ? show(String(value)) : value, source: sources[name] };
  });
  await output.list({ items, next_cursor: null }, [
    { title: 'name', value: (item) => item.name },
    { title: 'value', value: (item) => (item.value === null ? '' : String(item.value)) },
    { title: 'source', value: (item) => item.source },
  ]);
}

/** The settings of a file: a JSON object whose keys are the long names of the flags. */
async function readConfigFile(path: string): Promise<Layer> {
  const json = parseConfig(path, await readConfigText(path));
  const shape = Object.fromEntries(SETTING_NAMES.map((name) => [name, z.optional(SETTING[name].inFile)]));
  const result = z.strictObject(shape).safeParse(json);
  if (!result.success) throw invalidConfig(path, result.error.issues[0]);
  const given: Partial<Record<SettingName, string>> = {};
  for (const name of SETTING_NAMES) {
    const value = result.data[name];
    if (value === undefined) continue;
    const text = String(value);
    // A path is meant from where the file is, wherever the service was started.
    const isPath = (name === 'data' && text !== 'memory') || name === 'bus-creds' || name === 'security-log';
    given[name] = isPath ? resolve(dirname(path), text) : text;
  }
  return { given, nameOf: (name) => `"${name}" in ${path}` };
}

async function readConfigText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new CliError('ASP_CONFIG', { message: `The configuration ${path} cannot be read.`, cause: error });
  }
}

function parseConfig(path: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CliError('ASP_CONFIG', { message: `The configuration ${path} is not JSON.`, cause: error });
  }
}

function invalidConfig(path: string, issue: z.core.$ZodIssue | undefined): CliError {
  if (issue?.code === 'unrecognized_keys') {
    const [unknown = ''] = issue.keys;
    const [near] = suggest(unknown.replaceAll('_', '-'), SETTING_NAMES);
    return new CliError('ASP_CONFIG', {
      message: `Unknown setting '${unknown}' in ${path}.`,
      why: near === undefined ? `settings are ${SETTING_NAMES.join(', ')}.` : `did you mean '${near}'?`,
    });
  }
  const place = issue === undefined || issue.path.length === 0 ? 'The configuration' : `"${issue.path.join('.')}"`;
  const expected = issue !== undefined && 'expected' in issue ? ` must be of type ${issue.expected}` : ' is not valid';
  return new CliError('ASP_CONFIG', { message: `${place}${expected} (in ${path}).` });
}

function requireNoDatabaseSecret(database: string): void {
  if (!asUsageError(() => hasSecret(database))) return;
  throw new UsageError('The password of a database is not given on the command line.', {
    why: 'set ASP_DATABASE to the whole URL, or PGPASSWORD, or use a pgpass file.',
  });
}

/** Where the data are, without what lets anyone in. */
export function showDatabase(database: string): string {
  return asUsageError(() => readDatabaseAddress(database).shown);
}

function asUsageError<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : '');
  }
}

/** Every program of the machine can read a command line, and the shell remembers it. */
function requireNoBusSecret(bus: string): void {
  if (!asUsageError(() => hasBusSecret(bus))) return;
  throw new UsageError('The password of a bus is not given on the command line.', {
    why: 'set ASP_SERVE_BUS to the whole URL, or give a credentials file with --bus-creds.',
  });
}

/** Where the bus is, without what lets anyone in. */
function showBus(bus: string): string {
  return asUsageError(() => readBusAddress(bus).shown);
}

/** A bus is between services that share a database, and nothing else. */
export function requireUseOfBus(settings: Settings): void {
  const { bus, database } = settings;
  if (bus === undefined) {
    if (settings['bus-creds'] !== undefined) throw new UsageError('--bus-creds says nothing without --bus.');
    return;
  }
  showBus(bus);
  if (database === undefined)
    throw new UsageError('--bus is between services that share a database: give --database too.', {
      why: 'a service with a folder of its own has nobody to tell.',
    });
}
