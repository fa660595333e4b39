import type { ListedCommand, Option } from '../../src/cli/command.js';
import { ENVIRONMENT_VARIABLES, EXIT_CODES, TOPICS } from '../../src/cli/commands/help/topics.js';
import { formatUsage, OVERVIEW, optionText } from '../../src/cli/help.js';
import { GLOBAL_OPTIONS, WRITE_OPTIONS } from '../../src/cli/options.js';
import { effectText, jsonText, ownOptions, sentence, spellingsOf, type TopWord, topWords } from './command-facts.js';
import { bold, definition, escapeRoff, italic, page, paragraphs, section, subsection, verbatim } from './roff.js';

/** The date of the last change of meaning in the pages. Update it with a release. */
const DATE = '2026-11-21';

const pageName = (word: string): string => `asp-${word}`;
const seeAlso = (names: readonly string[]): string =>
  names.map((name, at) => `.BR ${escapeRoff(name)} (1)${at === names.length - 1 ? '' : ','}`).join('\n');

function heading(name: string, version: string): string {
  return `.\\" Generated from the command table: npm run generate
.TH ${escapeRoff(name.toUpperCase())} 1 ${DATE} "asp ${escapeRoff(version)}" "asp manual"
.nh
.ad l`;
}

/** `-m, --message <text>` with its names in bold and its value in italics. */
function flagsTerm(flags: string): string {
  const [, names = flags, value] = /^(.*?)(?: (<.+>))?$/.exec(flags) ?? [];
  const marked = names.split(', ').map((name) => bold(name));
  return `${marked.join(', ')}${value === undefined ? '' : ` ${italic(value)}`}`;
}

const optionList = (options: readonly Option[]): string =>
  options.map((option) => definition(flagsTerm(option.flags), sentence(optionText(option)))).join('\n');

function synopsis(command: ListedCommand, spelling: string): string {
  const usage = formatUsage(command, '').trim();
  return `${bold(`asp ${spelling}`)} ${usage === '' ? '' : `${italic(usage)} `}[options]`;
}

function examples({ examples: list }: ListedCommand): string {
  return list.map(({ line, about }) => `.PP\n${escapeRoff(sentence(about, ':'))}\n${verbatim(line)}`).join('\n');
}

/** Returns the parts of a command's description; `title` formats the heading of a part. */
function commandParts(command: ListedCommand, title: (text: string) => string): string[] {
  const { others } = spellingsOf(command);
  const shape = jsonText(command);
  const own = ownOptions(command);
  const terms = command.arguments.map(({ usage, about }) => definition(italic(usage), sentence(about)));
  return [
    paragraphs(sentence(command.summary)),
    ...(command.details === undefined ? [] : ['.PP', paragraphs(command.details)]),
    '.PP',
    paragraphs(effectText(command)),
    ...(others.length === 0
      ? []
      : ['.PP', paragraphs(`Also: ${others.map((spelling) => `asp ${spelling}`).join(', ')}.`)]),
    ...(terms.length === 0 ? [] : [title('Arguments'), ...terms]),
    ...(own.length === 0 ? [] : [title('Options'), optionList(own)]),
    title('Standard output'),
    paragraphs(sentence(command.stdout)),
    ...(shape === undefined ? [] : ['.PP', `With ${bold('--json')}:`, verbatim(wrapShape(shape))]),
    title('Examples'),
    examples(command),
  ];
}

/** Wraps a shape to a terminal's width, between fields. */
function wrapShape(shape: string): string {
  const lines: string[] = [];
  let line = '';
  for (const part of shape.split(/(?<=, )/)) {
    if (line.length + part.length > 70) {
      lines.push(line.trimEnd());
      line = '  ';
    }
    line += part;
  }
  return [...lines, line].join('\n');
}

const upperSection = (text: string): string => section(text.toUpperCase());
/** Formats the heading of a part within a section. */
const innerTitle = (text: string): string => `.PP\n${bold(text)}\n.PP`;

/** Describes a command, or refers to its own page if it has one. */
function commandBelow(command: ListedCommand, top: TopWord): string {
  const { first } = spellingsOf(command);
  const head = subsection(`asp ${command.path}`);
  if (!first.startsWith(`${top.word} `))
    return [head, paragraphs(sentence(command.summary)), '.PP', `See\n${seeAlso([pageName(first)])}.`].join('\n');
  return [head, synopsis(command, command.path), '.PP', ...commandParts(command, innerTitle)].join('\n');
}

/** Returns the page of a first word: `asp-send`, `asp-session`. */
function topPage(top: TopWord, version: string): string {
  const { word, command, below } = top;
  const rest = below.length === 0 ? [] : [`${bold(`asp ${word}`)} ${italic('<command>')} ${escapeRoff('[...]')}`];
  const lines = command === undefined ? rest : [synopsis(command, word), ...rest];
  return page([
    heading(pageName(word), version),
    section('NAME'),
    `${escapeRoff(pageName(word))} \\- ${escapeRoff(top.summary)}`,
    section('SYNOPSIS'),
    lines.join('\n.br\n'),
    section('DESCRIPTION'),
    ...(command === undefined
      ? [paragraphs(sentence(`${top.summary}: ${below.map(({ path }) => path.slice(word.length + 1)).join(', ')}`))]
      : commandParts(command, upperSection)),
    ...(below.length === 0 ? [] : [section('COMMANDS'), ...below.map((one) => commandBelow(one, top))]),
    section('EXIT STATUS'),
    `See\n${seeAlso(['asp'])}.`,
    section('SEE ALSO'),
    seeAlso(['asp', ...nearTo(top)]),
  ]);
}

/** Returns the pages about the same noun. */
function nearTo({ word, command, below }: TopWord): string[] {
  const noun = command?.path.split(' ')[0];
  const aliased = below.flatMap(({ aliases }) => aliases.filter((alias) => !alias.includes(' ')));
  return [...new Set([...(noun === undefined || noun === word ? [] : [noun]), ...aliased])].map(pageName);
}

/** Returns the page of the whole program. */
function programPage(version: string): string {
  const tops = topWords();
  const named = new Set(OVERVIEW.flatMap(({ commands }) => commands));
  const others = tops.filter(({ word }) => !named.has(word)).map(({ word }) => word);
  const list = (title: string, words: readonly string[]): string[] => {
    const shown = words.flatMap((word) => tops.filter((top) => top.word === word));
    return shown.length === 0
      ? []
      : [
          subsection(title),
          ...shown.map(
            ({ word, summary }) => `.TP\n.BR ${escapeRoff(pageName(word))} (1)\n${escapeRoff(sentence(summary))}`,
          ),
        ];
  };
  return page([
    heading('asp', version),
    section('NAME'),
    'asp \\- messages between agents, and the service that carries them',
    section('SYNOPSIS'),
    `${bold('asp')} ${italic('<command>')} ${escapeRoff('[arguments] [options]')}`,
    section('DESCRIPTION'),
    paragraphs(DESCRIPTION),
    section('COMMANDS'),
    ...OVERVIEW.flatMap(({ title, commands }) => list(title, commands)),
    ...list('More', others),
    section('OPTIONS OF EVERY COMMAND'),
    optionList(GLOBAL_OPTIONS),
    section('OPTIONS OF COMMANDS THAT WRITE'),
    optionList(WRITE_OPTIONS),
    section('EXIT STATUS'),
    ...EXIT_CODES.map(({ code, means }) => definition(bold(String(code)), sentence(means))),
    section('ENVIRONMENT'),
    ...ENVIRONMENT_VARIABLES.map(({ names, about }) => definition(names.map(bold).join(', '), sentence(about))),
    definition(bold('ASP_SERVE_<FLAG>'), 'A setting of asp serve: ASP_SERVE_PORT is --port.'),
    section('FILES'),
    ...FILES.map(([path, about]) => definition(italic(path), about)),
    section('EXAMPLES'),
    verbatim(EXAMPLES),
    section('SEE ALSO'),
    `Pages of the program itself:\n${Object.keys(TOPICS)
      .map((topic) => bold(`asp help ${topic}`))
      .join(',\n')}.`,
    '.PP',
    seeAlso(tops.map(({ word }) => pageName(word))),
  ]);
}

const DESCRIPTION = `Software agents talk to each other in sessions: durable conversations of two or more. asp is the
command line for them, and asp serve is the whole service on one machine.

Standard output carries data only; everything else goes to standard error. A list is a table on a terminal and
tab-separated in a pipe; nothing else about the format depends on a terminal. Every command has --json and --help.`;

const FILES: readonly (readonly [string, string])[] = [
  ['$XDG_CONFIG_HOME/asp-cli/config.json', 'Profiles and settings; ~/.config where the variable is not set.'],
  ['$XDG_STATE_HOME/asp-cli', 'Registrations, the list of logins, cursors, words for completions; ~/.local/state.'],
  ['$XDG_RUNTIME_DIR/asp-cli', 'The record of a local service, and access tokens, encrypted.'],
  ['$XDG_DATA_HOME/asp-cli/serve', 'The data of local services; ~/.local/share.'],
  ['.asp.json', 'In a folder or above it: the profile and the agent that hold there, and nothing else.'],
];

const EXAMPLES = `asp login
asp send @alice.bot "hi" --end
asp tail sess_… | jq -r 'select(.type=="session.message") | .payload.content'`;

/** Returns every page by file name. */
export function manPages(version: string): ReadonlyMap<string, string> {
  return new Map([
    ['asp.1', programPage(version)],
    ...topWords().map((top) => [`${pageName(top.word)}.1`, topPage(top, version)] as const),
  ]);
}
