import type { Context } from '../../context/context.js';
import { optionsOf } from '../../words/global-options.js';
import { type CommandRow, type OptionRow, optionName } from '../../words/row.js';
import { STDOUT_CONTENTS } from './stdout-contents.js';

export function parse(): Record<never, never> {
  return {};
}

/** The whole tree, as programs read it. */
export async function run(context: Context): Promise<void> {
  const items = context.program.commands.filter(({ isHidden }) => isHidden !== true).map(describe);
  await context.output.list({ items, next_cursor: null }, [
    { title: 'command', value: ({ words }) => words.join(' ') },
    { title: 'effect', value: ({ effect }) => effect, paint: (text, _, style) => style.dim(text) },
    { title: 'what it does', value: ({ summary }) => summary, isFlexible: true },
  ]);
}

function describe(row: CommandRow) {
  return {
    words: row.words.split(' '),
    aliases: (row.aliases ?? []).map((alias) => alias.split(' ')),
    summary: row.summary,
    /** none: nothing; local: files of this machine; read: asks the service; write: changes what it holds. */
    effect: row.effect,
    endless: row.isEndless === true,
    stdout: STDOUT_CONTENTS[row.words] ?? null,
    arguments: (row.arguments ?? []).map(({ usage, about }) => ({
      name: usage.replace(/[<>[\].]/g, ''),
      required: usage.startsWith('<'),
      repeatable: usage.includes('...'),
      about,
    })),
    options: optionsOf(row).flatMap((option) => (option.isHidden === true ? [] : [describeOption(option)])),
    examples: row.examples,
  };
}

function describeOption({ flags, about, isRepeatable, choices, environment }: OptionRow) {
  const { short, long, takesValue } = optionName(flags);
  return {
    name: `--${long}`,
    short: short ?? null,
    value: takesValue ? (/<([^>]+)>$/.exec(flags)?.[1] ?? null) : null,
    repeatable: isRepeatable === true,
    choices: choices ?? null,
    environment: environment ?? null,
    about,
  };
}
