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
function usageErrorOf(error: CommanderError, row: CommandRow, rest: readonly string[]): UsageError {
  const said = error.message.replace(/^error: /, '').split('\n', 1)[0] ?? '';
  const help = ['asp', ...(row.aliases?.[0] ?? row.words).split(' '), '--help'];
  if (error.code === 'commander.unknownOption') {
    const typed = /'(.*)'/.exec(said)?.[1] ?? '';
    const known = optionsOf(row)
      .filter(({ isHidden }) => isHidden !== true)
      .map(({ flags }) => `--${optionName(flags).long}`);
    const [near] = suggest(typed, known);
    return new UsageError(`'${typed}' is not an option of asp ${row.words}.`, {
      why: near === undefined ? undefined : `did you mean ${near}?`,
      next: help,
    });
  }
  if (error.code === 'commander.excessArguments') {
    const expected = row.arguments?.length ?? 0;
    return new UsageError(`asp ${row.words} takes ${expected === 0 ? 'no' : `at most ${expected}`} arguments.`, {
      why: rest.length > 0 ? 'quote a text that holds spaces.' : undefined,
      next: help,
    });
  }
  return new UsageError(`${said.charAt(0).toUpperCase()}${said.slice(1)}.`.replace(/\.\.$/, '.'), { next: help });
}

/** Reads the options and arguments of one command; the only place that knows the parser. */
export function readWords(row: CommandRow, rest: readonly string[]): Words {
  const command = new Command('asp')
    .exitOverride()
    .helpOption(false)
    .helpCommand(false)
    .showSuggestionAfterError(false)
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
    if (isCommanderError(error)) throw usageErrorOf(error, row, rest);
    throw error;
  }
  const given: Record<string, unknown> = command.opts();
  const values = new Map<string, WordValue>();
  for (const { long, attribute, isNegation } of read) {
    const value = given[attribute];
    if (isNegation) values.set(long, value === false);
    else if (typeof value === 'string' || value === true || Array.isArray(value)) values.set(long, value);
  }
  return createWords(values, command.args);
}
