import { capitalized } from '../kit/format.js';
import { columnsText, leftWidth, type Row, wrapParagraphs, wrapText } from '../kit/wrap.js';
import type { ListedCommand, LoadedProgram, Option } from './command.js';
import { GLOBAL_OPTIONS } from './options.js';
import type { Style } from './terminal/style.js';

const NO_BREAK = '\u00a0';

/** A part of the overview: a title and the commands under it, as they are typed. */
interface Section {
  readonly title: string;
  readonly commands: readonly string[];
}

/** The parts of the overview. It omits a name that is neither a command nor a noun with commands. */
export const OVERVIEW: readonly Section[] = [
  {
    title: 'Talk',
    commands: ['send', 'ask', 'chat', 'inbox', 'reply', 'tail', 'run', 'session', 'message', 'attachment'],
  },
  { title: 'Identity', commands: ['login', 'logout', 'whoami', 'use', 'agent', 'auth', 'profile'] },
  { title: 'Trust', commands: ['allowlist', 'knock', 'block'] },
  { title: 'This machine', commands: ['serve', 'demo', 'open', 'status', 'doctor', 'config', 'alias', 'completion'] },
  {
    title: 'For scripts and agents',
    commands: ['connect', 'skill', 'mcp', 'mock', 'replay', 'api', 'schema', 'commands', 'explain'],
  },
];

type Named = Pick<ListedCommand, 'path' | 'aliases' | 'arguments'>;

/** The parts of a program that its overview shows. */
export interface Overview {
  readonly nouns: LoadedProgram['nouns'];
  readonly commands: readonly (Named & Pick<ListedCommand, 'summary'>)[];
}

/** The command as typed, with its arguments. */
export function formatUsage(command: Named, spelling: string = shortest(command)): string {
  return [spelling, ...command.arguments.map(({ usage }) => usage.replace('...', '…'))].join(' ');
}

/** The usual spelling: an alias if there is one. */
function shortest({ aliases, path }: Named): string {
  return aliases[0] ?? path;
}

function optionRows(options: readonly Option[]): Row[] {
  return options
    .filter(({ isHidden }) => isHidden !== true)
    .map((option) => [option.flags.startsWith('--') ? `    ${option.flags}` : option.flags, optionText(option)]);
}

/** The description of an option, whether it may be repeated, its choices and its variable. */
export function optionText({ about, isRepeatable, choices, environment }: Option): string {
  return [
    about,
    isRepeatable === true ? ' (repeatable)' : '',
    choices === undefined || about.includes(choices[0] ?? '') ? '' : `: ${choices.join(', ')}`,
    environment === undefined ? '' : ` [${environment}]`,
  ].join('');
}

/** The output of `asp` alone. */
export function overview(program: Overview, version: string, style: Style, width: number): string {
  const blocks = OVERVIEW.map(({ title, commands }) => {
    const rows = commands.flatMap((spelling): Row[] => {
      const command = program.commands.find(({ path, aliases }) => path === spelling || aliases.includes(spelling));
      if (command !== undefined) return [[formatUsage(command, spelling), command.summary]];
      const noun = program.nouns.find((each) => each.noun === spelling);
      const hasCommands = program.commands.some(({ path }) => path.startsWith(`${spelling} `));
      return noun === undefined || !hasCommands ? [] : [[`${spelling} …`, noun.summary]];
    });
    return { title, rows };
  });
  const more: Row[] = [
    ['asp <command> --help', 'what a command does, with examples'],
    ['asp help <topic>', 'auth, environment, config, json, exit-codes, scripting, tail, testing, extensions, agents'],
  ];
  const left = leftWidth([...blocks.flatMap(({ rows }) => rows), ...more], width);
  const aligned = blocks
    .filter(({ rows }) => rows.length > 0)
    .map(({ title, rows }) => `${style.bold(title)}\n${columnsText(rows, width, style.cyan, left)}`);
  return [
    `${style.bold('asp')} ${style.dim(version)}  messages between agents`,
    ...aligned,
    `${style.bold('More')}\n${columnsText(more, width, style.cyan, left)}\n`,
  ].join('\n\n');
}

/** The output for a noun alone: its commands. */
export function nounHelp({ nouns, commands }: LoadedProgram, noun: string, style: Style, width: number): string {
  const summary = nouns.find((each) => each.noun === noun)?.summary;
  const rows = commands
    .filter(({ path }) => path.startsWith(`${noun} `))
    .map((command): Row => {
      const [alias] = command.aliases;
      const also = alias === undefined ? '' : ` ${style.dim(`(asp ${alias})`)}`;
      return [formatUsage(command, command.path), `${command.summary}${also}`];
    });
  return [
    summary === undefined ? style.bold(`asp ${noun}`) : wrapText(summary, width, `${style.bold(`asp ${noun}`)}  `),
    columnsText(rows, width, style.cyan),
    `${style.dim(`asp ${noun} <command> --help`)}  examples and options\n`,
  ].join('\n\n');
}

/** The commands whose path continues this one: `serve` is a command and a noun. */
export function commandsBelow({ commands }: LoadedProgram, path: string, style: Style, width: number): string {
  const below = commands.filter((command) => command.path.startsWith(`${path} `));
  if (below.length === 0) return '';
  const rows = below.map((command): Row => [formatUsage(command, command.path), command.summary]);
  return `\n${style.bold('Commands below')}\n${columnsText(rows, width, style.cyan)}\n`;
}

/** The output of `--help`: two examples first. */
export function commandHelp(command: ListedCommand, style: Style, width: number): string {
  const { summary, details, path, aliases } = command;
  const sentence = `${capitalized(summary)}.`;
  const blocks = [`${style.bold(`asp ${formatUsage(command)}`)}\n${wrapText(sentence, width)}`];
  const examples = command.examples.map(
    ({ line, about }) => `${style.dim(wrapText(about, width, '  # ', '  # '))}\n  ${style.cyan(line)}`,
  );
  blocks.push(`${style.bold('Examples')}\n${examples.join('\n')}`);
  if (details !== undefined) blocks.push(wrapParagraphs(details, width));
  if (command.arguments.length > 0) {
    const rows = command.arguments.map(({ usage, about }): Row => [usage.replace('...', '…'), about]);
    blocks.push(`${style.bold('Arguments')}\n${columnsText(rows, width, style.cyan)}`);
  }
  if (command.options.length > 0)
    blocks.push(`${style.bold('Options')}\n${columnsText(optionRows(command.options), width, style.cyan)}`);
  const global = optionRows(GLOBAL_OPTIONS).map(([flags]) => flags.trim().replace(/^-\w, /, ''));
  // Keep an option and its value together.
  const together = global.map((flags) => flags.replaceAll(' ', NO_BREAK)).join(', ');
  blocks.push(`${style.bold('Everywhere')}\n${wrapText(together, width, '  ').replaceAll(NO_BREAK, ' ')}`);
  const others = [path, ...aliases].filter((spelling) => spelling !== shortest(command));
  if (others.length > 0) blocks.push(style.dim(`Also: ${others.map((spelling) => `asp ${spelling}`).join(', ')}`));
  return `${blocks.join('\n\n')}\n`;
}
