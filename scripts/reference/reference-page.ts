import type { ListedCommand, Option } from '../../src/cli/command.js';
import { SETTING_ABOUT } from '../../src/cli/commands/config.js';
import { MEANING } from '../../src/cli/commands/help/explain.js';
import { ENVIRONMENT_VARIABLES, EXIT_CODES, TOPICS } from '../../src/cli/commands/help/topics.js';
import { SETTING_NAMES, toVariable } from '../../src/cli/commands/serve/settings.js';
import { toExitCode } from '../../src/cli/context/describe-failure.js';
import { isOwnErrorCode } from '../../src/cli/errors.js';
import { formatUsage, optionText } from '../../src/cli/help.js';
import { GLOBAL_OPTIONS, WRITE_OPTIONS } from '../../src/cli/options.js';
import { PROGRAM } from '../../src/cli/program.js';
import { wrapPage } from '../../src/kit/wrap.js';
import { ERROR, isErrorCode } from '../../src/wire/error.js';
import { COMMANDS, effectText, jsonText, ownOptions, sentence, spellingsOf } from './command-facts.js';

/** Escapes everything that Markdown would interpret. */
function plain(text: string): string {
  const unmarked = text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replace(/[\\`*|]/g, '\\$&');
  return unmarked.replace(/(?<![A-Za-z0-9])_/g, '\\_');
}

/** Formats text as code. A bar would end a table cell, so it is escaped. */
const code = (text: string): string => `\`${text.replaceAll('|', '\\|')}\``;

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

const optionTable = (options: readonly Option[]): string =>
  table(
    ['Option', 'Meaning'],
    options.map((option) => [code(option.flags), plain(sentence(optionText(option)))]),
  );

function commandSection(command: ListedCommand): string {
  const { isDestructive, isEndless, details } = command;
  const effect = isDestructive ? 'destructive' : command.effect;
  const { first, others } = spellingsOf(command);
  const shape = jsonText(command);
  const own = ownOptions(command);
  const examples = command.examples.map(({ line, about }) => `# ${about}\n${line}`).join('\n');
  const facts = [
    `**stdout**: ${plain(sentence(command.stdout))}`,
    ...(shape === undefined ? [] : [`**\`--json\`**: \`${shape}\``]),
    `**Effect**: ${effect}. ${effectText(command)}${isEndless ? ' It runs until it is done or stopped.' : ''}`,
    ...(others.length === 0 ? [] : [`**Also**: ${others.map((spelling) => `\`asp ${spelling}\``).join(', ')}`]),
  ];
  const args = command.arguments.map(({ usage, about }) => [code(usage), plain(sentence(about))]);
  return [
    `### asp ${first}`,
    `\`asp ${formatUsage(command, first)} [options]\``,
    plain(sentence(command.summary)),
    ...(details === undefined ? [] : [plain(details)]),
    ...(args.length === 0 ? [] : [table(['Argument', 'Meaning'], args)]),
    ...(own.length === 0 ? [] : [optionTable(own)]),
    facts.map((fact) => `- ${fact}`).join('\n'),
    `\`\`\`sh\n${examples}\n\`\`\``,
  ].join('\n\n');
}

/**
 * Returns a section for each noun with its commands, in the order of the program. A one-word command is its own noun.
 */
function commandSections(): string {
  const nouns = [...new Set(COMMANDS.map(({ path }) => path.split(' ', 1)[0] ?? ''))];
  const alone = nouns.filter((noun) => COMMANDS.every(({ path }) => !path.startsWith(`${noun} `)));
  const findCommands = (noun: string): ListedCommand[] =>
    COMMANDS.filter(({ path }) => path === noun || path.startsWith(`${noun} `));
  const grouped = nouns.filter((noun) => !alone.includes(noun));
  const summary = (noun: string): string => PROGRAM.nouns.find((each) => each.noun === noun)?.summary ?? '';
  return [
    ...grouped.flatMap((noun) => [
      `## ${noun}`,
      `${plain(sentence(summary(noun)))}`,
      ...findCommands(noun).map(commandSection),
    ]),
    '## More commands',
    ...alone.flatMap((noun) => findCommands(noun).map(commandSection)),
  ].join('\n\n');
}

const errorTable = (): string =>
  table(
    ['Code', 'From', 'Exit', 'HTTP', 'What it means', 'What helps'],
    Object.entries(MEANING).map(([name, { means, helps }]) => [
      code(name),
      isErrorCode(name) ? 'service' : isOwnErrorCode(name) ? 'asp' : 'OAuth',
      String(toExitCode(name, undefined)),
      isErrorCode(name) ? String(ERROR[name].status) : '',
      plain(means),
      plain(helps),
    ]),
  );

/** The usual width of a terminal. */
const PAGE_WIDTH = 80;

const topicSections = (): string[] =>
  Object.entries(TOPICS).map(
    ([name, text]) => `### asp help ${name}\n\n\`\`\`text\n${wrapPage(text, PAGE_WIDTH).trimEnd()}\n\`\`\``,
  );

/** Returns the page with everything about the command line. */
export function referencePage(): string {
  return `${[
    '# Reference',
    'Generated from the command table (`npm run generate`). `asp <command> --help`, `man asp` and, for programs, `asp commands --json` have the same content.',
    '## Options of every command',
    optionTable(GLOBAL_OPTIONS),
    '## Options of commands that write',
    optionTable(WRITE_OPTIONS),
    commandSections(),
    '## Exit codes',
    table(
      ['Code', 'Meaning'],
      EXIT_CODES.map((row) => [String(row.code), plain(sentence(row.means))]),
    ),
    '## Error codes',
    'With `--json` an error is one line on stderr: `{"error":{code, message, exit_code, retryable, outcome, hint?, next?, …}}`, its schema is `asp schema error`. `asp explain <code>` says what is here.',
    errorTable(),
    '## Environment variables',
    table(
      ['Variable', 'Meaning'],
      ENVIRONMENT_VARIABLES.map(({ names, about }) => [names.map(code).join(', '), plain(sentence(about))]),
    ),
    `Each setting of \`asp serve\` has a variable: ${SETTING_NAMES.map((name) => `\`${toVariable(name)}\``).join(', ')}. A flag overrides a variable, and a variable overrides the configuration file.`,
    '## Configuration keys',
    'For `asp config get`, `set` and `unset`; `asp config path` names the file.',
    table(
      ['Key', 'Meaning'],
      SETTING_ABOUT.map(([key, about]) => [code(key), plain(sentence(about))]),
    ),
    '## Help topics',
    ...topicSections(),
  ].join('\n\n')}\n`;
}
