import { durationMs } from '../../kit/duration.js';
import type { Environment } from '../../kit/environment.js';
import type { Args, GlobalOption, OperatorOption, WriteOption } from '../command.js';
import { usageError } from '../errors.js';
import { COLOR_CHOICES, type Config, RETRIES_MAX, readConfig } from '../profile/config.js';
import { type Host, resolvePaths } from '../profile/paths.js';
import type { Format } from '../terminal/output.js';
import { type ColorChoice, findColorWish } from '../terminal/style.js';
import { readCount, readDuration, readHandles } from '../values.js';

/** The values of the global options and their environment variables. */
export interface Globals {
  /** `--as`, in its canonical form; the environment variable is another layer. */
  readonly as: string | undefined;
  readonly profile: string | undefined;
  readonly format: Format;
  readonly fields: readonly string[] | undefined;
  readonly jq: string | undefined;
  readonly isQuiet: boolean;
  readonly isVerbose: boolean;
  readonly isDebug: boolean;
  readonly mayAsk: boolean;
  readonly isYes: boolean;
  /** Undefined: the command's own default. */
  readonly timeoutMs: number | undefined;
  /** From the settings: the deadline of commands without one of their own. */
  readonly usualTimeoutMs: number | undefined;
  readonly retries: number | undefined;
  readonly color: ColorChoice;
  /** The settings of this machine; a variable that names another program or store wins. */
  readonly browser: string | undefined;
  readonly editor: string | undefined;
  readonly store: string | undefined;
  readonly isAccessible: boolean;
  readonly isDryRun: boolean;
  readonly idempotencyKey: string | undefined;
  readonly once: string | undefined;
  /** The service on another machine where an operator acts. */
  readonly operator: string | undefined;
  readonly operatorTokenFile: string | undefined;
}

const isSet = (value: string | undefined): boolean =>
  value !== undefined && value !== '' && value !== '0' && value !== 'false';

/** The output format, found before options are parsed, so that a usage error is printed in it. */
export function guessFormat(argv: readonly string[], environment: Environment): Format {
  const end = argv.indexOf('--');
  const tokens = end === -1 ? argv : argv.slice(0, end);
  if (tokens.includes('--jsonl')) return 'jsonl';
  if (tokens.some((token) => /^--(json$|(fields|jq)(=|$))/.test(token))) return 'json';
  const { ASP_FORMAT } = environment;
  return ASP_FORMAT === 'json' || ASP_FORMAT === 'jsonl' ? ASP_FORMAT : 'human';
}

type GlobalArgs = Args<GlobalOption | OperatorOption | WriteOption>;

function chooseFormat(args: GlobalArgs, environment: Environment): Format {
  args.refuseBoth('json', 'jsonl');
  if (args.flag('jsonl')) return 'jsonl';
  if (args.flag('json') || args.isSet('fields') || args.isSet('jq')) return 'json';
  const named = environment['ASP_FORMAT'] ?? '';
  if (named === 'json' || named === 'jsonl') return named;
  if (named === '' || named === 'text' || named === 'human') return 'human';
  throw usageError(`ASP_FORMAT '${named}' is not a format.`, { why: 'use json, jsonl or text.' });
}

function parseFields(text: string | undefined): readonly string[] | undefined {
  if (text === undefined) return undefined;
  const fields = text.split(',').map((field) => field.trim());
  if (fields.some((field) => field === '' || field.startsWith('.') || field.endsWith('.')))
    throw usageError(`--fields '${text}' is not a list of fields.`, {
      why: 'fields look like id,state or session.id.',
    });
  return fields;
}

const toCount = (text: string | undefined): number | undefined => (text === undefined ? undefined : Number(text));

const KEY = /^[\x20-\x7e]{1,255}$/;

function parseKey(text: string | undefined): string | undefined {
  if (text === undefined || KEY.test(text)) return text;
  throw usageError('--idempotency-key is 1 to 255 printable ASCII characters.');
}

type Settings = Config['settings'];

/** The settings of this machine. None if their file cannot be used: commands that need it say so. */
export async function readSettings(host: Host): Promise<Settings> {
  return (await readConfig(resolvePaths(host).configFile).catch(() => undefined))?.settings ?? {};
}

/** Option, variables, setting: the first one that is set. */
export function chooseColor(typed: ColorChoice | undefined, environment: Environment, settings: Settings): ColorChoice {
  const setting = findColorWish(environment) === undefined ? settings['color'] : undefined;
  return typed ?? COLOR_CHOICES.find((choice) => choice === setting) ?? 'auto';
}

/** `named`: the acting agent, if an argument of the command names it. */
export function readGlobals(
  args: GlobalArgs,
  environment: Environment,
  settings: Settings = {},
  named?: string,
): Globals {
  args.refuseBoth('idempotency-key', 'once');
  args.refuseBoth('quiet', 'verbose');
  const { ASP_TIMEOUT, ASP_RETRIES, ASP_NO_INPUT, ASP_DEBUG, ACCESSIBLE } = environment;
  const [agent, ...others] = readHandles([args.text('as'), named].filter((text) => text !== undefined));
  if (others.length > 0) throw usageError(`${named} is not the agent of --as. Name one of them.`);
  const once = args.text('once');
  if (once === '') throw usageError('--once needs a name.');
  const timeout = args.text('timeout');
  return {
    as: agent,
    profile: args.text('profile'),
    format: chooseFormat(args, environment),
    fields: parseFields(args.text('fields')),
    jq: args.text('jq'),
    isQuiet: args.flag('quiet'),
    isVerbose: args.flag('verbose') || args.flag('debug'),
    isDebug: args.flag('debug') || isSet(ASP_DEBUG),
    mayAsk: !args.flag('no-input') && !isSet(ASP_NO_INPUT),
    isYes: args.flag('yes'),
    timeoutMs:
      timeout !== undefined
        ? readDuration('--timeout', timeout)
        : isSet(ASP_TIMEOUT)
          ? readDuration('ASP_TIMEOUT', ASP_TIMEOUT ?? '')
          : undefined,
    usualTimeoutMs: settings['timeout'] === undefined ? undefined : durationMs(settings['timeout']),
    retries:
      args.count('retries', { max: RETRIES_MAX }) ??
      (ASP_RETRIES === undefined || ASP_RETRIES === ''
        ? toCount(settings['retries'])
        : readCount('ASP_RETRIES', ASP_RETRIES, { max: RETRIES_MAX })),
    color: chooseColor(args.text('color'), environment, settings),
    browser: settings['browser'],
    editor: settings['editor'],
    store: settings['store'],
    isAccessible: args.flag('accessible') || isSet(ACCESSIBLE),
    isDryRun: args.flag('dry-run'),
    idempotencyKey: parseKey(args.text('idempotency-key')),
    once,
    operator: args.text('operator'),
    operatorTokenFile: args.text('operator-token-file'),
  };
}
