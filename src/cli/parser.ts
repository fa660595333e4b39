import { type CommanderError, Command as Parser, Option as ParserOption } from 'commander';
import { capitalized, codeOf, withPeriod } from '../kit/format.js';
import { didYouMean, suggest } from '../kit/suggest.js';
import { type Command, type Option, optionName, type ParsedArgs } from './command.js';
import { type CliError, usageError } from './errors.js';
import { everyOption, OPERATOR_OPTIONS } from './options.js';
import { parseHandle } from './values.js';

function createParser(): Parser {
  return new Parser('asp')
    .exitOverride()
    .helpOption(false)
    .helpCommand(false)
    .showSuggestionAfterError(false)
    .allowExcessArguments()
    .configureOutput({ writeOut: () => {}, writeErr: () => {} });
}

/** A parser that knows which options take a value, and checks nothing else. */
function createScanner(options: readonly Option[]): Parser {
  const parser = createParser();
  for (const { flags } of options) parser.addOption(new ParserOption(flags));
  return parser;
}

/** How many tokens at the beginning are options and their values. */
export function countOptions(options: readonly Option[], argv: readonly string[]): number {
  if (argv[0]?.startsWith('-') !== true) return 0;
  try {
    const { operands, unknown } = createScanner(options)
      .passThroughOptions()
      .parseOptions([...argv]);
    return argv.length - operands.length - unknown.length;
  } catch {
    // The last option has no value.
    return argv.length;
  }
}

export function findFlags(options: readonly Option[], rest: readonly string[]): { help?: boolean; version?: boolean } {
  const scanner = createScanner(options);
  try {
    scanner.parseOptions([...rest]);
  } catch {
    // Count only the tokens before the option without a value.
  }
  return scanner.opts();
}

/** A command, and its path as typed. */
export interface Typed {
  readonly command: Command;
  readonly typed: readonly string[];
  /** The words that may follow it: for example `status` after `serve`. */
  readonly below?: readonly string[];
}

/** Parses the options and arguments of one command. @throws CliError */
export function parseArgs({ command, typed, below }: Typed, rest: readonly string[]): ParsedArgs {
  const parser = createParser();
  for (const { usage } of command.arguments) parser.argument(usage);
  const known: { long: string; attribute: string; isNegation: boolean }[] = [];
  for (const { flags, about, isRepeatable, choices } of everyOption(command)) {
    const option = new ParserOption(flags, about);
    if (choices !== undefined) option.choices([...choices]);
    if (isRepeatable === true) option.argParser((value: string, before: string[] = []) => [...before, value]);
    if (option.negate) option.default(undefined);
    parser.addOption(option);
    known.push({ long: optionName(flags).long, attribute: option.attributeName(), isNegation: option.negate });
  }
  try {
    parser.parse([...rest], { from: 'user' });
  } catch (error) {
    if (isCommanderError(error)) throw toUsageError(error, { command, typed });
    throw error;
  }
  refuseTooMany(parser.args, { command, typed, below: below ?? [] }, rest);
  const values: Record<string, unknown> = parser.opts();
  const options = new Map<string, boolean | string | readonly string[]>();
  for (const { long, attribute, isNegation } of known) {
    const value = values[attribute];
    if (isNegation) options.set(long, value === false);
    else if (typeof value === 'string' || value === true || Array.isArray(value)) options.set(long, value);
  }
  return { options, positional: parser.args };
}

function isCommanderError(error: unknown): error is CommanderError {
  return codeOf(error).startsWith('commander.');
}

function toUsageError(error: CommanderError, { command, typed }: Typed): CliError {
  const message = error.message.replace(/^error: /, '').split('\n', 1)[0] ?? '';
  const help = ['asp', ...typed, '--help'];
  if (error.code === 'commander.unknownOption') {
    const option = /'(.*)'/.exec(message)?.[1] ?? '';
    const known = everyOption(command)
      .filter(({ isHidden }) => isHidden !== true)
      .map(({ flags }) => `--${optionName(flags).long}`);
    const [name = ''] = option.split('=');
    if (known.includes(name)) return usageError(`${name} takes no value.`, { next: help });
    const isRemote =
      typed[0] === 'serve' && OPERATOR_OPTIONS.some(({ flags }) => `--${optionName(flags).long}` === name);
    if (isRemote)
      return usageError(`asp ${typed.join(' ')} works only on the machine of the service, so it has no ${name}.`, {
        why: 'sign in to that machine and run it there.',
        next: help,
      });
    // Where -n is an option, it is --last.
    const why = didYouMean(name === '-n' && known.includes('--limit') ? '--limit' : name, known);
    return usageError(`'${option}' is not an option of asp ${typed.join(' ')}.`, { why, next: help });
  }
  const choice = /^option '(?:-\w, )?(--[\w-]+)[^']*' argument '(.*)' is invalid\. Allowed choices are (.*)\.$/.exec(
    message,
  );
  if (choice !== null) {
    const [, option, value = '', choices = ''] = choice;
    const why = didYouMean(value, choices.split(', '));
    return usageError(`${option} '${value}' is not one of ${choices}.`, { why, next: help });
  }
  const [, optionWithoutValue] = /^option '(?:-\w, )?(--[\w-]+)[^']*' argument missing$/.exec(message) ?? [];
  if (optionWithoutValue !== undefined) return usageError(`${optionWithoutValue} needs a value.`, { next: help });
  return usageError(withPeriod(capitalized(message)), { next: help });
}

/** More arguments than the command takes. If the last argument is a text, its quotes are probably missing. */
function refuseTooMany(
  args: readonly string[],
  { command, typed, below }: Required<Typed>,
  rest: readonly string[],
): void {
  const known = command.arguments;
  const last = known.at(-1)?.usage ?? '';
  if (last.includes('...') || args.length <= known.length) return;
  const where = `asp ${typed.join(' ')}`;
  if (known.length === 0 && below.length > 0) {
    const [near] = suggest(args[0] ?? '', below);
    throw usageError(`Unknown command '${args[0]}' for ${where}.`, {
      why: near === undefined ? undefined : `did you mean '${near}'?`,
      next: ['asp', ...typed, ...(near === undefined ? [] : [near]), '--help'],
    });
  }
  const message =
    known.length === 0
      ? `${where} takes no arguments, but '${args[0]}' was given.`
      : `${where} takes at most ${known.length} argument${known.length > 1 ? 's' : ''}, not ${args.length}.`;
  const [method = ''] = args;
  if (known[0]?.usage === '<path>' && args.length === 2 && /^(get|post|patch|put|delete|head)$/i.test(method))
    throw usageError(message, {
      why: 'the method is an option.',
      next: ['asp', ...typed, '-X', method.toUpperCase(), ...rest.filter((word) => word !== method)],
    });
  const [, handle = ''] = args;
  const hasTo = command.options.some(({ flags }) => optionName(flags).long === 'to');
  if (hasTo && args.length === 2 && parseHandle(handle) !== undefined)
    throw usageError(message, {
      why: 'the agent is an option.',
      next: ['asp', ...typed, ...rest.flatMap((word) => (word === handle ? ['--to', word] : [word]))],
    });
  if (!/^\[(message|text)\]$/.test(last)) throw usageError(message, { next: ['asp', ...typed, '--help'] });
  const pending = [...args];
  const options = rest.filter((word) => {
    const isArgument = word === pending[0];
    if (isArgument) pending.shift();
    return !isArgument && word !== '--';
  });
  const recipients = args.findIndex((word) => parseHandle(word) === undefined);
  if (known[0]?.usage === '<to>' && recipients !== 0 && recipients !== 1) {
    const count = recipients === -1 ? args.length : recipients;
    const texts = args.slice(count);
    throw usageError(message, {
      why: 'separate several recipients with commas.',
      next: [
        ...['asp', ...typed, args.slice(0, count).join(',')],
        ...(texts.length === 0 ? [] : [texts.join(' ')]),
        ...options,
      ],
    });
  }
  const text = args.slice(known.length - 1).join(' ');
  throw usageError(message, {
    why: 'put a message with spaces in quotes.',
    next: ['asp', ...typed, ...args.slice(0, known.length - 1), text, ...options],
  });
}
