import type { Context } from '../../context/context.js';
import { UsageError } from '../../terminal/cli-error.js';
import { PLAIN } from '../../terminal/style.js';
import { findCommand } from '../../words/find-command.js';
import { commandHelp, groupHelp, overview } from '../../words/help.js';
import { suggest } from '../../words/suggest.js';
import type { Words } from '../../words/words.js';
import { TOPICS } from './topics.js';

export interface HelpOptions {
  readonly topic: readonly string[];
}

export function parse(words: Words): HelpOptions {
  return { topic: words.arguments };
}

export async function run(context: Context, { topic }: HelpOptions): Promise<void> {
  const { program, output, version } = context;
  const style = output.format === 'human' ? await output.style() : PLAIN;
  const show = (text: string): Promise<void> =>
    output.format === 'human' ? output.verbatim(text) : output.document({ topic: topic.join(' '), text }, () => text);
  const [first] = topic;
  if (first === undefined) return show(overview(program, context.overview, version, style));
  const text = topic.length === 1 && Object.hasOwn(TOPICS, first) ? TOPICS[first] : undefined;
  if (text !== undefined) return show(text);
  const { row, words, stray } = findCommand(program, topic);
  if (row !== undefined) return show(commandHelp(row, style));
  if (stray === undefined && words[0] !== undefined) return show(groupHelp(program, words[0], style));
  const typed = topic.join(' ');
  const near = suggest(typed, [
    ...Object.keys(TOPICS),
    ...program.commands.flatMap(({ words: w, aliases = [] }) => [w, ...aliases]),
  ]);
  throw new UsageError(`'${typed}' is neither a command nor a topic.`, {
    why: `topics: ${Object.keys(TOPICS).join(' ')}.`,
    next: near[0] === undefined ? ['asp', 'help'] : ['asp', 'help', ...near[0].split(' ')],
  });
}
