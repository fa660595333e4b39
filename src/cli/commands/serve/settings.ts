import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import * as z from 'zod/mini';
import { durationMs } from '../../../kit/duration.js';
import type { Environment } from '../../../kit/environment.js';
import { capitalized, messageOf } from '../../../kit/format.js';
import { isLoopbackHost } from '../../../kit/loopback.js';
import { didYouMean } from '../../../kit/suggest.js';
import { readBucketAddress } from '../../../service/attachments/bucket-address.js';
import { DEFAULT_ACCOUNT_QUOTA } from '../../../service/core/context.js';
import { DEFAULT_POSTGRES_LIMITS } from '../../../service/core/database.js';
import { FAULT_STATUSES, type Fault, type FaultPlan, type Rate } from '../../../service/core/faults.js';
import { hasBusSecret, readBusAddress } from '../../../service/messaging/bus-address.js';
import type { ServiceOptions } from '../../../service/service.js';
import { hasSecret, readDatabaseAddress } from '../../../service/store/database-address.js';
import {
  IDEMPOTENCY_KEY_LIFETIME_S,
  LOOP_GUARD_MAX,
  LOOP_GUARD_MIN,
  PARTICIPANTS_PER_SESSION_MAX,
} from '../../../wire/limit.js';
import { readSecretFile } from '../../context/client-secret.js';
import type { Context } from '../../context/context.js';
import { CliError, usageError } from '../../errors.js';
import {
  durationText,
  readCount,
  readDuration,
  readDurationFrom,
  readHandles,
  readSize,
  readTime,
} from '../../values.js';
import type { ServeArgs } from './serve.js';

const SEED_MAX = 2 ** 32 - 1;
const KINDS = [...FAULT_STATUSES, 'lost', 'cut', 'delay', 'drop', 'seed'].join(', ');
const ALWAYS: Rate = { every: 1 };

/**
 * `429:10%,500:1/20,lost:2%,cut:1%,delay:200ms@50%,drop:1m,seed:7`: the faults and their frequency, as a percentage or
 * one in N.
 */
export function readFaults(source: string, text: string): FaultPlan {
  const faults: Fault[] = [];
  let seed: number | undefined;
  for (const item of text.split(',')) {
    const [, kind = '', amount = ''] = /^([^:]*):(.*)$/.exec(item.trim()) ?? [];
    if (kind === 'seed') seed = readCount(`${source} seed`, amount, { max: SEED_MAX });
    else faults.push(readFault(source, item.trim(), kind, amount));
  }
  if (faults.length === 0) throw usageError(`${source} '${text}' contains no fault.`, { why: `faults: ${KINDS}.` });
  return { faults, seed };
}

function readFault(source: string, item: string, kind: string, amount: string): Fault {
  const refuse = (why: string): CliError => usageError(`${source} '${item}' is not a fault.`, { why });
  const rate = (supplied: string): Rate => {
    const read = parseRate(supplied);
    if (read === undefined)
      throw refuse(`'${supplied}' is not a frequency: use a percentage (10%) or a fraction (1/5).`);
    return read;
  };
  const status = FAULT_STATUSES.find((candidate) => String(candidate) === kind);
  if (status !== undefined) return { kind: 'refuse', status, rate: rate(amount) };
  if (kind === 'lost' || kind === 'cut') return { kind, rate: rate(amount) };
  if (kind === 'delay') {
    const [duration = '', often] = amount.split('@');
    const delayMs = durationMs(duration);
    if (delayMs === undefined)
      throw refuse('a delay looks like delay:200ms, or delay:2s@10% for a share of the calls.');
    return { kind, delayMs, rate: often === undefined ? ALWAYS : rate(often) };
  }
  if (kind === 'drop') {
    const afterMs = durationMs(amount);
    if (afterMs !== undefined) return { kind: 'expire', afterMs };
    if (parseRate(amount) === undefined)
      throw refuse('sockets drop after a time (drop:1m) or after a share of the events (drop:5%, drop:1/20).');
    return { kind, rate: rate(amount) };
  }
  throw refuse(`faults: ${KINDS}, each with a frequency: 429:10%.`);
}

function parseRate(text: string): Rate | undefined {
  const share = /^(\d{1,3}(?:\.\d{1,6})?)%$/.exec(text)?.[1];
  const every = /^1\/([1-9]\d{0,8})$/.exec(text)?.[1];
  if (every !== undefined) return { every: Number(every) };
  const chance = Number(share ?? Number.NaN) / 100;
  return chance > 0 && chance <= 1 ? { chance } : undefined;
}

/** How far a clock begins ahead of now, in milliseconds: `controlled`, a time, or an offset with its sign. */
export function readClockStart(source: string, text: string, nowMs: number): number {
  if (text === 'controlled') return 0;
  const [, sign, duration = ''] = /^([+-])(.*)$/.exec(text) ?? [];
  const offsetMs = durationMs(duration);
  if (offsetMs !== undefined) return sign === '-' ? -offsetMs : offsetMs;
  if (/^\d/.test(text) && durationMs(text) === undefined) return readTime(source, text, nowMs) - nowMs;
  throw usageError(`${source} '${text}' is not a clock.`, {
    why: 'write controlled, a time such as 2027-01-01T00:00:00Z, or an offset with its sign, such as +30d.',
  });
}

const STANDARD_PORT = 8744;
const PORT_MAX = 65_535;
const PARTICIPANTS_MAX = 100_000;
const QUOTA_MAX = 100_000;
const DATABASE_CONNECTIONS = { min: 7, max: 1_000 };
const DATABASE_TIMEOUT_MS = { min: 1_000, max: 10 * 60_000 };
/** A key is forgotten before what was done with it. */
const RETENTION_MS = { min: IDEMPOTENCY_KEY_LIFETIME_S * 1000, max: 10 * 366 * 86_400_000 };
const DATABASE_PAGE_ROWS = { min: 10, max: 5_000 };
export const ENVIRONMENT_PREFIX = 'ASP_SERVE_';

/** One setting of a service: a flag, a variable or a key in the configuration file. */
interface Setting<Value> {
  /** The type of the value in the file. */
  readonly inFile: z.ZodMiniType<string | number | boolean | string[]>;
  /** The value of a text; `source` is its name in errors. */
  readonly read: (text: string, source: string) => Value;
  /** The default. */
  readonly standard: Value;
  /** Whether it is a number of milliseconds. */
  readonly isTime?: boolean;
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
      if (chosen === undefined) throw usageError(`${source} '${text}' is not one of ${choices.join(', ')}.`);
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
      throw usageError(`${source} '${text}' is neither true nor false.`);
    },
    false,
  );

const word = (): Setting<string | undefined> => setting(z.string(), (text) => text, undefined);

const readQuota = (text: string, source: string): number => readCount(source, text, { min: 1, max: QUOTA_MAX });

const time = <Standard extends number | undefined>(
  standard: Standard,
  range: { readonly min?: number; readonly max: number },
): Setting<Standard | number> => ({
  ...setting<Standard | number>(z.string(), (text, source) => readDurationFrom(source, text, range), standard),
  isTime: true,
});

const CONTACT_MAX_LENGTH = 200;

/** A contact for push services, in case this service misbehaves. Apple's refuses those of a local host. */
function readContact(text: string, source: string): string {
  const url = URL.canParse(text) && text.length <= CONTACT_MAX_LENGTH ? new URL(text) : undefined;
  const isMail = url?.protocol === 'mailto:' && /^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(url.pathname);
  const isPage = url?.protocol === 'https:' && url.hostname.includes('.');
  if (isMail || isPage) return text;
  throw usageError(`${source} '${text}' is not a contact.`, {
    why: 'write mailto:you@example.org, or the https: address of a page that names one.',
  });
}

const NAME_MAX_LENGTH = 40;

/** A name that fits in the bar of a page, without characters that hide or reverse the text around it. */
function readServiceName(text: string, source: string): string {
  const length = [...text].length;
  if (length <= NAME_MAX_LENGTH && text.trim() === text && text !== '' && !/\p{C}/u.test(text)) return text;
  throw usageError(`${source} '${text}' is not a name.`, {
    why: `use 1 to ${NAME_MAX_LENGTH} visible characters, with no space before or after them.`,
  });
}

/** Each includes those before it. */
export const LOG_LEVELS = ['error', 'warn', 'info', 'debug'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

const readPort = (text: string, source: string): number => readCount(source, text, { max: PORT_MAX });

/** Each under the long name of its flag, which is its name in the file too. */
export const SETTING = {
  host: setting(z.string(), (text) => text, '127.0.0.1'),
  port: setting(z.int(), readPort, STANDARD_PORT),
  data: word(),
  database: word(),
  'database-connections': setting<number>(
    z.int(),
    (text, source) => readCount(source, text, DATABASE_CONNECTIONS),
    DEFAULT_POSTGRES_LIMITS.connections,
  ),
  'database-statement-timeout': time<number>(DEFAULT_POSTGRES_LIMITS.statementTimeoutMs, DATABASE_TIMEOUT_MS),
  'database-lock-timeout': time<number>(DEFAULT_POSTGRES_LIMITS.lockTimeoutMs, DATABASE_TIMEOUT_MS),
  'database-page': setting<number>(
    z.int(),
    (text, source) => readCount(source, text, DATABASE_PAGE_ROWS),
    DEFAULT_POSTGRES_LIMITS.pageRows,
  ),
  attachments: word(),
  'key-file': word(),
  bus: word(),
  'bus-creds': word(),
  'public-url': word(),
  'tls-cert': word(),
  'tls-key': word(),
  name: setting<string | undefined>(z.string(), readServiceName, undefined),
  'behind-proxy': onOrOff(),
  seed: setting<readonly string[]>(z.array(z.string()), (text) => readHandles([text]), []),
  policy: choice(['open', 'allowlist', 'hold'], 'open'),
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
  'loop-guard': setting<number | undefined>(
    z.int(),
    (text, source) => readCount(source, text, { min: LOOP_GUARD_MIN, max: LOOP_GUARD_MAX }),
    undefined,
  ),
  retention: time<number | undefined>(undefined, RETENTION_MS),
  search: choice(['builtin', 'off'], 'builtin'),
  'web-push': setting<string | undefined>(z.string(), readContact, undefined),
  webhooks: choice(['off', 'public', 'any'], 'off'),
  'share-links': choice(['on', 'off'], 'on'),
  'drain-delay': time<number>(0, { max: 60 * 60_000 }),
  'presence-grace': {
    ...setting<number | undefined>(z.string(), (text, source) => readDuration(source, text), undefined),
    isTime: true,
  },
  log: choice(['errors', 'text', 'json'], 'errors'),
  'log-level': setting<LogLevel | undefined>(z.string(), choice(LOG_LEVELS, 'info').read, undefined),
  'security-log': word(),
  inject: setting<string | undefined>(
    z.string(),
    (text, source) => {
      readFaults(source, text);
      return text;
    },
    undefined,
  ),
  clock: setting<string | undefined>(
    z.string(),
    (text, source) => {
      readClockStart(source, text, 0);
      return text;
    },
    undefined,
  ),
  'metrics-port': setting<number | undefined>(z.int(), readPort, undefined),
  'metrics-host': setting(z.string(), (text) => text, '127.0.0.1'),
  'metrics-token-file': word(),
  'operator-port': setting<number | undefined>(z.int(), readPort, undefined),
  'operator-host': setting(z.string(), (text) => text, '127.0.0.1'),
  'operator-token-file': word(),
} as const;

export type SettingName = keyof typeof SETTING;
export const SETTING_NAMES = Object.keys(SETTING) as SettingName[];

/** They name a file. */
const PATHS: ReadonlySet<SettingName> = new Set<SettingName>([
  'key-file',
  'bus-creds',
  'tls-cert',
  'tls-key',
  'security-log',
  'metrics-token-file',
  'operator-token-file',
]);

/** The description of each setting. */
export type Settings = { readonly [Name in SettingName]: (typeof SETTING)[Name]['standard'] };

/** The texts of one layer, by setting. */
export type SettingValues = Readonly<Partial<Record<SettingName, string>>>;

/** One source of settings; the first layer with a value wins. */
interface Layer {
  readonly supplied: SettingValues;
  /** How an error and `--print-config` name this layer's setting. */
  readonly toName: (name: SettingName) => string;
}

interface Effective {
  readonly settings: Settings;
  /** The source of each value. */
  readonly sources: Readonly<Record<SettingName, string>>;
}

export const toVariable = (name: SettingName): string =>
  `${ENVIRONMENT_PREFIX}${name.replaceAll('-', '_').toUpperCase()}`;

/** The flags on the command line. */
export function readFlags(args: ServeArgs): SettingValues {
  const supplied: Partial<Record<SettingName, string>> = {};
  for (const name of SETTING_NAMES) {
    const value = args.value(name);
    const text = value === true ? 'true' : typeof value === 'object' ? value.join(',') : value;
    if (typeof text === 'string') supplied[name] = text;
  }
  return supplied;
}

/** An empty variable counts as unset. */
function readVariables(environment: Environment): SettingValues {
  const supplied: Partial<Record<SettingName, string>> = {};
  for (const name of SETTING_NAMES) {
    const text = environment[toVariable(name)];
    if (text !== undefined && text !== '') supplied[name] = text;
  }
  return supplied;
}

/** The effective settings and their sources. Every layer is read, so that an error in one is not hidden by another. */
function settle(layers: readonly Layer[]): Effective {
  const settings: Record<string, unknown> = {};
  const sources: Record<string, string> = {};
  for (const name of SETTING_NAMES) {
    const { read, standard }: Setting<unknown> = SETTING[name];
    settings[name] = standard;
    sources[name] = 'default';
    for (const { supplied, toName } of [...layers].reverse()) {
      const text = supplied[name];
      if (text === undefined) continue;
      sources[name] = toName(name);
      settings[name] = read(text, toName(name));
    }
  }
  return { settings: settings as Settings, sources: sources as Effective['sources'] };
}

/** What a killed service can tell about its start: its options, and the variables that also had an effect. */
export interface StartedWith {
  /** Without the port and the data folder, which the record of the service has. No option has a secret. */
  readonly options: readonly string[];
  readonly variables: readonly string[];
}

/** Paths become absolute, because the service may be started again elsewhere. */
export function describeStart(
  { environment, machine }: Pick<Context, 'environment' | 'machine'>,
  flags: SettingValues,
  configPath: string | undefined,
  { sources }: Effective,
): StartedWith {
  const toAbsolute = (path: string): string => resolve(machine.workingDirectory, path);
  const given = SETTING_NAMES.flatMap((name) => {
    const text = flags[name];
    if (text === undefined || name === 'port' || name === 'data') return [];
    const value = PATHS.has(name) ? toAbsolute(text) : text;
    return text === 'true' ? [`--${name}`] : [`--${name}`, value];
  });
  const variables = Object.values(sources).filter((source) => environment[source] !== undefined);
  const isConfigured = configPath === undefined && Boolean(environment[CONFIG_VARIABLE]);
  return {
    options: [...given, ...(configPath === undefined ? [] : ['--config', toAbsolute(configPath)])],
    variables: [...variables, ...(isConfigured ? [CONFIG_VARIABLE] : [])],
  };
}

/** The name that other programs use for it. */
const DATABASE_VARIABLE = 'ASP_DATABASE';
const CONFIG_VARIABLE = `${ENVIRONMENT_PREFIX}CONFIG`;

/** The effective settings: a flag overrides a variable, and a variable overrides the file. */
export async function readSettings(
  context: Context,
  flags: SettingValues,
  configPath: string | undefined,
): Promise<Effective> {
  const { environment } = context;
  if (flags.database !== undefined) requireNoDatabaseSecret(flags.database);
  if (flags.bus !== undefined) requireNoBusSecret(flags.bus);
  const database = environment[DATABASE_VARIABLE];
  const path = configPath ?? (environment[CONFIG_VARIABLE] || undefined);
  const file: Layer[] = path === undefined ? [] : [await readConfigFile(path)];
  await noteMisspelled(context);
  return settle([
    { supplied: flags, toName: (name) => `--${name}` },
    { supplied: readVariables(environment), toName: toVariable },
    { supplied: database ? { database } : {}, toName: () => DATABASE_VARIABLE },
    ...file,
  ]);
}

/** A note and not an error: an orchestrator may set variables with this prefix for a service of this name. */
async function noteMisspelled({ environment, output }: Context): Promise<void> {
  const known = [...SETTING_NAMES.map(toVariable), CONFIG_VARIABLE];
  for (const name of Object.keys(environment)) {
    if (!name.startsWith(ENVIRONMENT_PREFIX) || known.includes(name)) continue;
    const near = didYouMean(name, known);
    if (near !== undefined)
      await output.note(`${name} is not a setting of asp serve and is ignored. ${capitalized(near)}`);
  }
}

/** A value that may contain a secret, without the secret. */
const SHOWN: Partial<Record<SettingName, (value: string) => string>> = {
  database: showDatabase,
  bus: showBus,
  attachments: showBucket,
};

/** One line per setting: its value and its source. */
export async function printSettings({ output }: Context, { settings, sources }: Effective): Promise<void> {
  const items = SETTING_NAMES.map((name) => {
    const value = settings[name] ?? null;
    const show = SHOWN[name];
    return { name, value: show !== undefined && value !== null ? show(String(value)) : value, source: sources[name] };
  });
  await output.list({ items, next_cursor: null }, [
    { title: 'name', value: (item) => item.name },
    { title: 'value', value: ({ name, value }) => showToPeople(name, value) },
    { title: 'source', value: (item) => item.source },
  ]);
}

/** As it is written in a file, a variable or a flag. */
function showToPeople(name: SettingName, value: unknown): string {
  if (value === null) return '';
  const { isTime = false }: Setting<unknown> = SETTING[name];
  return isTime ? durationText(Number(value)) : String(value);
}

/** The settings of a file: a JSON object whose keys are the long names of the flags. */
async function readConfigFile(path: string): Promise<Layer> {
  const json = parseConfig(path, await readConfigText(path));
  const shape = Object.fromEntries(SETTING_NAMES.map((name) => [name, z.optional(SETTING[name].inFile)]));
  const result = z.strictObject(shape).safeParse(json);
  if (!result.success) throw invalidConfig(path, result.error.issues[0]);
  const supplied: Partial<Record<SettingName, string>> = {};
  for (const name of SETTING_NAMES) {
    const value = result.data[name];
    if (value === undefined) continue;
    const text = String(value);
    // A path is relative to the file, wherever the service was started.
    const isPath = (name === 'data' && text !== 'memory') || PATHS.has(name);
    supplied[name] = isPath ? resolve(dirname(path), text) : text;
  }
  return { supplied, toName: (name) => `"${name}" in ${path}` };
}

async function readConfigText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new CliError('ASP_CONFIG', { message: `Cannot read the configuration ${path}.`, cause: error });
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
    const near = didYouMean(unknown.replaceAll('_', '-'), SETTING_NAMES, "'");
    const why = near ?? `settings: ${SETTING_NAMES.join(', ')}.`;
    return new CliError('ASP_CONFIG', { message: `Unknown setting '${unknown}' in ${path}.`, why });
  }
  const subject = issue === undefined || issue.path.length === 0 ? 'The configuration' : `"${issue.path.join('.')}"`;
  const expected = issue !== undefined && 'expected' in issue ? ` must be of type ${issue.expected}` : ' is not valid';
  return new CliError('ASP_CONFIG', { message: `${subject}${expected} (in ${path}).` });
}

function requireNoDatabaseSecret(database: string): void {
  if (!asUsageError(() => hasSecret(database))) return;
  throw usageError('Do not put the password of a database on the command line.', {
    why: 'set ASP_DATABASE to the whole URL, or PGPASSWORD, or use a pgpass file.',
  });
}

/** The address of the data, without credentials. */
export function showDatabase(database: string): string {
  return asUsageError(() => readDatabaseAddress(database).shown);
}

function asUsageError<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw usageError(messageOf(error));
  }
}

/** Every program on the machine can read a command line, and the shell stores it. */
function requireNoBusSecret(bus: string): void {
  if (!asUsageError(() => hasBusSecret(bus))) return;
  throw usageError('Do not put the password of a bus on the command line.', {
    why: 'set ASP_SERVE_BUS to the whole URL, or give a credentials file with --bus-creds.',
  });
}

/** The address of the bus, without credentials. */
function showBus(bus: string): string {
  return asUsageError(() => readBusAddress(bus).shown);
}

const OF_A_DATABASE = [
  'database-connections',
  'database-statement-timeout',
  'database-lock-timeout',
  'database-page',
] as const satisfies SettingName[];

/** They limit how much of a PostgreSQL database a service uses. */
export function requireUseOfDatabase(settings: Settings): void {
  if (settings.database === undefined) {
    const name = OF_A_DATABASE.find((candidate) => settings[candidate] !== SETTING[candidate].standard);
    if (name !== undefined) throw usageError(`--${name} needs --database.`);
  }
  if (settings['database-lock-timeout'] < settings['database-statement-timeout']) return;
  throw usageError('--database-lock-timeout must be shorter than --database-statement-timeout.', {
    why: `the lock timeout is ${durationText(settings['database-lock-timeout'])}, the statement timeout ${durationText(settings['database-statement-timeout'])}.`,
  });
}

/** The URL of a bucket, which is refused if it could contain a secret. */
function showBucket(url: string): string {
  asUsageError(() => readBucketAddress(url));
  return url;
}

/** Where attachments are in a bucket; undefined: they are in the data folder. */
export function readBucket({ environment }: Context, settings: Settings): ServiceOptions['bucket'] {
  const { attachments, database } = settings;
  if (attachments === undefined) return undefined;
  const address = asUsageError(() =>
    readBucketAddress(attachments, {
      region: environment['AWS_REGION'] || undefined,
      endpoint: environment['AWS_ENDPOINT_URL_S3'] || undefined,
    }),
  );
  if (database === undefined)
    throw usageError('--attachments is for services that share a database, so it needs --database.', {
      why: 'a service with a data folder keeps attachments in that folder, where asp serve backup finds them.',
    });
  const accessKeyId = environment['AWS_ACCESS_KEY_ID'];
  const secretAccessKey = environment['AWS_SECRET_ACCESS_KEY'];
  const sessionToken = environment['AWS_SESSION_TOKEN'];
  if (!accessKeyId || !secretAccessKey)
    throw usageError('--attachments needs the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.');
  return { address, credentials: { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) } };
}

/** Events and accounts with made-up times must not get into data that is kept. */
export function requireUseOfClock({ clock, data, database }: Settings): void {
  if (clock === undefined || (data === 'memory' && database === undefined)) return;
  throw usageError('--clock needs --data memory.', {
    why: 'otherwise events would be stored with wrong times, and would keep them.',
  });
}

const TOKEN = /^[\w.~+/=-]{32,}$/;

function requireToken(setting: SettingName, path: string, token: string): string {
  if (TOKEN.test(token)) return token;
  throw usageError(`${path} (--${setting}) contains no token that is hard to guess.`, {
    why: 'a token has at least 32 letters and digits, such as the output of openssl rand -hex 32.',
  });
}

const readPrivate = (setting: SettingName, path: string): string =>
  readSecretFile(path, { name: `--${setting}`, code: 'ASP_USAGE' });

/** What a scraper must send; undefined: nothing, because it is on this machine. */
export function readMetricsToken(settings: Settings): string | undefined {
  const { 'metrics-host': host, 'metrics-port': port, 'metrics-token-file': path } = settings;
  const more = host === SETTING['metrics-host'].standard ? path && 'metrics-token-file' : 'metrics-host';
  if (port === undefined && more !== undefined) throw usageError(`--${more} needs --metrics-port.`);
  if (path !== undefined) return requireToken('metrics-token-file', path, readPrivate('metrics-token-file', path));
  if (isLoopbackHost(host)) return undefined;
  throw usageError(`On ${host}, others can reach the metrics, so --metrics-host needs --metrics-token-file.`, {
    why: 'the file holds a token, such as the output of openssl rand -hex 32. Prometheus reads it with credentials_file.',
  });
}

/** The files of the certificate; undefined: the service does not speak TLS. */
export function readCertificateFiles(settings: Settings): ServiceOptions['certificate'] {
  const { 'tls-cert': certificate, 'tls-key': key } = settings;
  if (certificate !== undefined && key !== undefined) return { certificate, key };
  if (certificate === undefined && key === undefined) return undefined;
  throw usageError('--tls-cert and --tls-key need each other.', {
    why: 'they name the PEM files of a certificate and of its private key.',
  });
}

/** The keys in the file of `--key-file`: the one that seals first, then those that opened what was sealed before. */
export function readKeySecrets({ 'key-file': path }: Settings): readonly Buffer[] {
  if (path === undefined) return [];
  return readPrivate('key-file', path)
    .split('\n')
    .map((line) => {
      const text = line.trim();
      if (/^[0-9a-f]{64}$/i.test(text)) return Buffer.from(text, 'hex');
      if (/^[\w+/-]{43}=?$/.test(text)) return Buffer.from(text, 'base64');
      throw usageError(`${path} (--key-file) has a line that is not a key.`, {
        why: 'each line is 32 random bytes in hexadecimal or base64, such as the output of openssl rand -hex 32.',
      });
    });
}

const TOKEN_NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/i;

/** Where operators on other machines are served; undefined: nowhere. Each line of the file is a token, or a name and a token. */
export function readRemoteOperators(settings: Settings): ServiceOptions['remoteOperators'] {
  const { 'operator-host': host, 'operator-port': port, 'operator-token-file': path } = settings;
  if (port === undefined) {
    const more = host === SETTING['operator-host'].standard ? path && 'operator-token-file' : 'operator-host';
    if (more !== undefined) throw usageError(`--${more} needs --operator-port.`);
    return undefined;
  }
  if (path === undefined)
    throw usageError('--operator-port needs --operator-token-file.', {
      why: 'the file has a token on each line, such as the output of openssl rand -hex 32, or the name of its holder and a token.',
    });
  if (!isLoopbackHost(host) && !settings['behind-proxy'] && settings['tls-cert'] === undefined)
    throw usageError(`On ${host}, the token of an operator would cross the network in the clear.`, {
      why: 'use a certificate (--tls-cert and --tls-key), or a loopback address, or put a proxy that terminates TLS in front of it and add --behind-proxy.',
    });
  const tokens = readPrivate('operator-token-file', path)
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([first = '']) => first !== '' && !first.startsWith('#'))
    .map((words) => {
      const [name = '', token = ''] = words.length === 1 ? ['', ...words] : words;
      if (words.length > 2 || (words.length === 2 && !TOKEN_NAME.test(name)))
        throw usageError(`${path} (--operator-token-file) has a line that is neither a token nor a name and a token.`);
      return { name, token: requireToken('operator-token-file', path, token) };
    });
  if (tokens.length === 0) throw usageError(`${path} (--operator-token-file) contains no token.`);
  if (new Set(tokens.map(({ token }) => token)).size < tokens.length)
    throw usageError(`${path} (--operator-token-file) contains a token twice.`, {
      why: 'the log of actions could not tell its holders apart.',
    });
  return { host, port, tokens };
}

/** A bus only connects services that share a database. */
export function requireUseOfBus(settings: Settings): void {
  const { bus, database } = settings;
  if (bus === undefined) {
    if (settings['bus-creds'] !== undefined) throw usageError('--bus-creds needs --bus.');
    return;
  }
  showBus(bus);
  if (database === undefined)
    throw usageError('--bus connects services that share a database, so it needs --database.', {
      why: 'a service with its own data folder has no other service to notify.',
    });
}
