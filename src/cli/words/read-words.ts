import { Command, type CommanderError, Option } from 'commander';

import { UsageError } from '../terminal/cli-error.js';
import { optionsOf } from './global-options.js';
import { type CommandRow, optionName } from './row.js';
import { suggest } from './suggest.js';
import { createWords, type Words, type WordValue } from './words.js';

function isCommanderError(error: unknown): error is CommanderError {
  return error instanceof Error && 'code' in error && String(error.code).startsWith('commander.');
}

/** What commander found wrong, in our shape. */
function usageErrorOf(error: CommanderError, { row, typed }: Typed): UsageError {
  const said = error.message.replace(/^error: /, '').split('\n', 1)[0] ?? '';
  const help = ['asp', ...typed, '--help'];
  if (error.code === 'commander.unknownOption') {
    const option = /'(.*)'/.exec(said)?.[1] ?? '';
    const known = optionsOf(row)
      .filter(({ isHidden }) => isHidden !== true)
      .map(({ flags }) => `--${optionName(flags).long}`);
    const [near] = suggest(option, known);
    return new UsageError(`'${option}' is not an option of asp ${typed.join(' ')}.`, {
      why: near === undefined ? undefined : `did you mean ${near}?`,
      next: help,
    });
  }
  return new UsageError(`${said.charAt(0).toUpperCase()}${said.slice(1)}.`.replace(/\.\.$/, '.'), { next: help });
}

/** More words than the command has places for; where the last of them is a text, its quotes were forgotten. */
function tooManyArguments({ row, typed }: Typed, given: readonly string[], options: readonly string[]): UsageError {
  const places = row.arguments ?? [];
  const count =
    places.length === 0 ? 'no arguments' : `at most ${places.length} argument${places.length > 1 ? 's' : ''}`;
  const message = `asp ${typed.join(' ')} takes ${count}, not ${given.length}.`;
  if (!/^\[(message|text)\]$/.test(places.at(-1)?.usage ?? ''))
    return new UsageError(message, { next: ['asp', ...typed, '--help'] });
  const text = given.slice(places.length - 1).join(' ');
  return new UsageError(message, {
    why: 'a text of several words stands in quotes.',
    next: ['asp', ...typed, ...given.slice(0, places.length - 1), text, ...options],
  });
}

/** A command, and its name as it was typed. */
export interface Typed {
  readonly row: CommandRow;
  readonly typed: readonly string[];
}

/** Reads the options and arguments of one command; the only place that knows the parser. */
export function readWords({ row, typed }: Typed, rest: readonly string[]): Words {
  const command = new Command('asp')
    .exitOverride()
    .helpOption(false)
    .helpCommand(false)
    .showSuggestionAfterError(false)
    .allowExcessArguments()
    .configureOutput({ writeOut: () => {}, writeErr: () => {} });
  for (const { usage } of row.arguments ?? []) command.argument(usage);
  const read: { long: string; attribute: string; isNegation: boolean }[] = [];
  for (const { flags, about, isRepeatable, choices } of optionsOf(row)) {
    const option = new Option(flags, about);
    if (choices !== undefined) option.choices([...choices]);
    if (isRepeatable === true) option.argParser((value: string, before: string[] = []) => [...before, value]);
    if (option.negate) option.default(undefined);
    command.addOption(option);
    read.push({ long: optionName(flags).long, attribute: option.attributeName(), isNegation: option.negate });
  }
  try {
    command.parse([...rest], { from: 'user' });
  } catch (error) {
    if (isCommanderError(error)) throw usageErrorOf(error, { row, typed });
    throw error;
  }
  refuseTooMany(command, { row, typed }, rest);
  const given: Record<string, unknown> = command.opts();
  const values = new Map<string, WordValue>();
  for (const { long, attribute, isNegation } of read) {
    const value = given[attribute];
    if (isNegation) values.set(long, value === false);
    else if (typeof value === 'string' || value === true || Array.isArray(value)) values.set(long, value);
  }
  return createWords(values, command.args);
}

function refuseTooMany({ args }: Command, command: Typed, rest: readonly string[]): void {
  const places = command.row.arguments ?? [];
  const isOpen = places.at(-1)?.usage.includes('...') === true;
  if (isOpen || args.length <= places.length) return;
  const spoken = [...args];
  const options = rest.filter((word) => {
    const isArgument = word === spoken[0];
    if (isArgument) spoken.shift();
    return !isArgument && word !== '--';
  });
  throw tooManyArguments(command, args, options);
}
