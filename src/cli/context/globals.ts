import { UsageError } from '../terminal/cli-error.js';
import type { Format } from '../terminal/output.js';
import type { ColorChoice } from '../terminal/style.js';
import { readCount, readDuration, readHandle } from '../words/values.js';
import type { Words } from '../words/words.js';

export type Environment = Readonly<Record<string, string | undefined>>;

/** What the global options and their environment variables say. */
export interface Globals {
  /** `--as`, in its canonical form; the environment's word is another layer. */
  readonly as: string | undefined;
  readonly profile: string | undefined;
  readonly format: Format;
  readonly fields: readonly string[] | undefined;
  readonly isQuiet: boolean;
  readonly isVerbose: boolean;
  readonly isDebug: boolean;
  readonly mayAsk: boolean;
  readonly isYes: boolean;
  /** Undefined: the command's own. */
  readonly timeoutMs: number | undefined;
  readonly retries: number | undefined;
  readonly color: ColorChoice;
  readonly isAccessible: boolean;
  readonly isDryRun: boolean;
  readonly idempotencyKey: string | undefined;
  readonly once: string | undefined;
}

const isSet = (value: string | undefined): boolean =>
  value !== undefined && value !== '' && value !== '0' && value !== 'false';

/** The format before any option is understood, so that a usage error is told in it. */
export function guessFormat(argv: readonly string[], environment: Environment): Format {
  const end = argv.indexOf('--');
  const words = end === -1 ? argv : argv.slice(0, end);
  if (words.includes('--jsonl')) return 'jsonl';
  if (words.some((word) => word === '--json' || word === '--fields' || word.startsWith('--fields='))) return 'json';
  const { ASP_FORMAT } = environment;
  return ASP_FORMAT === 'json' || ASP_FORMAT === 'jsonl' ? ASP_FORMAT : 'human';
}

function formatOf(words: Words, environment: Environment): Format {
  words.refuseBoth('json', 'jsonl');
  if (words.flag('jsonl')) return 'jsonl';
  if (words.flag('json') || words.text('fields') !== undefined) return 'json';
  const named = environment['ASP_FORMAT'] ?? '';
  if (named === 'json' || named === 'jsonl') return named;
  if (named === '' || named === 'text' || named === 'human') return 'human';
  throw new UsageError(`ASP_FORMAT '${named}' is not a format.`, { why: 'it is json, jsonl or text.' });
}

function fieldsOf(text: string | undefined): readonly string[] | undefined {
  if (text === undefined) return undefined;
  const fields = text.split(',').map((field) => field.trim());
  if (fields.some((field) => field === '' || field.startsWith('.') || field.endsWith('.')))
    throw new UsageError(`--fields '${text}' is not a list of fields.`, {
      why: 'fields look like id,state or session.id.',
    });
  return fields;
}

const KEY = /^[\x20-\x7e]{1,255}$/;

function keyOf(text: string | undefined): string | undefined {
  if (text === undefined || KEY.test(text)) return text;
  throw new UsageError('--idempotency-key is 1 to 255 printable ASCII characters.');
}

export function readGlobals(words: Words, environment: Environment): Globals {
  words.refuseBoth('idempotency-key', 'once');
  words.refuseBoth('quiet', 'verbose');
  const { ASP_TIMEOUT, ASP_RETRIES, ASP_NO_INPUT, ASP_DEBUG, ACCESSIBLE } = environment;
  const as = words.text('as');
  const once = words.text('once');
  if (once === '') throw new UsageError('--once needs a name.');
  const color = words.text('color');
  const timeout = words.text('timeout');
  return {
    as: as === undefined ? undefined : readHandle(as),
    profile: words.text('profile'),
    format: formatOf(words, environment),
    fields: fieldsOf(words.text('fields')),
    isQuiet: words.flag('quiet'),
    isVerbose: words.flag('verbose') || words.flag('debug'),
    isDebug: words.flag('debug') || isSet(ASP_DEBUG),
    mayAsk: !words.flag('no-input') && !isSet(ASP_NO_INPUT),
    isYes: words.flag('yes'),
    timeoutMs:
      timeout !== undefined
        ? readDuration('--timeout', timeout)
        : isSet(ASP_TIMEOUT)
          ? readDuration('ASP_TIMEOUT', ASP_TIMEOUT ?? '')
          : undefined,
    retries:
      words.count('retries', { max: 20 }) ??
      (ASP_RETRIES === undefined || ASP_RETRIES === ''
        ? undefined
        : readCount('ASP_RETRIES', ASP_RETRIES, { max: 20 })),
    color: color === 'always' || color === 'never' ? color : 'auto',
    isAccessible: words.flag('accessible') || isSet(ACCESSIBLE),
    isDryRun: words.flag('dry-run'),
    idempotencyKey: keyOf(words.text('idempotency-key')),
    once,
  };
}
