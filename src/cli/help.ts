import type { Command, Option, Program } from './command.js';
import { GLOBAL_OPTIONS } from './options.js';
import type { Style } from './terminal/style.js';

/** A part of the overview: a title and the commands under it, as they are typed. */
export interface Section {
  readonly title: string;
  readonly commands: readonly string[];
}

const GAP = 3;

function columns(rows: readonly (readonly [string, string])[], style: Style, indent = '  '): string {
  const width = Math.max(...rows.map(([left]) => left.length)) + GAP;
  return rows
    .map(([left, right]) => `${indent}${style.cyan(left)}${' '.repeat(width - left.length)}${right}`)
    .join('\n');
}

/** The command as it is typed, with its arguments. */
export function usageOf(command: Command, spelling: string = shortest(command)): string {
  return [spelling, ...command.arguments.map(({ usage }) => usage.replace('...', '…'))].join(' ');
}

/** The spelling people use: an alias where there is one. */
function shortest({ aliases, path }: Command): string {
  return aliases[0] ?? path;
}

function optionRows(options: readonly Option[]): [string, string][] {
  return options
    .filter(({ isHidden }) => isHidden !== true)
    .map((option) => [option.flags.startsWith('--') ? `    ${option.flags}` : option.flags, optionText(option)]);
}

/** What an option does, whether it may be repeated, its choices and its variable. */
export function optionText({ about, isRepeatable, choices, environment }: Option): string {
  return [
    about,
    isRepeatable === true ? ' (repeatable)' : '',
    choices === undefined || about.includes(choices[0] ?? '') ? '' : `: ${choices.join(', ')}`,
    environment === undefined ? '' : ` [${environment}]`,
  ].join('');
}

/** What `asp` alone shows. */
export function overview(program: Program, sections: readonly Section[], version: string, style: Style): string {
  const blocks = sections.map(({ title, commands }) => {
    const rows = commands.flatMap((spelling): [string, string][] => {
      const command = program.commands.find(({ path, aliases }) => path === spelling || aliases.includes(spelling));
      if (command !== undefined) return [[usageOf(command, spelling), command.summary]];
      const noun = program.nouns.find((each) => each.noun === spelling);
      const hasCommands = program.commands.some(({ path }) => path.startsWith(`${spelling} `));
      return noun === undefined || !hasCommands ? [] : [[`${spelling} …`, noun.summary]];
    });
    return { title, rows };
  });
  const width = Math.max(...blocks.flatMap(({ rows }) => rows.map(([left]) => left.length)));
  const padded = blocks
    .filter(({ rows }) => rows.length > 0)
    .map(({ title, rows }) => {
      const wide = rows.map(([left, right]): [string, string] => [left.padEnd(width), right]);
      return `${style.bold(title)}\n${columns(wide, style)}`;
    });
  return [
    `${style.bold('asp')} ${style.dim(version)}  messages between agents`,
    ...padded,
    `${style.dim('asp <command> --help')}  what a command does, with examples\n${style.dim('asp help <topic>')}  ${'    '}auth, environment, config, json, exit-codes, scripting, tail, agents`,
    '',
  ]
    .join('\n\n')
    .replace(/\n\n$/, '\n');
}

/** What a noun alone shows: its commands. */
export function nounHelp({ nouns, commands }: Program, noun: string, style: Style): string {
  const summary = nouns.find((each) => each.noun === noun)?.summary;
  const rows = commands
    .filter(({ path, isHidden }) => path.startsWith(`${noun} `) && !isHidden)
    .map((command): [string, string] => {
      const [alias] = command.aliases;
      const also = alias === undefined ? '' : ` ${style.dim(`(asp ${alias})`)}`;
      return [usageOf(command, command.path), `${command.summary}${also}`];
    });
  return [
    [style.bold(`asp ${noun}`), ...(summary === undefined ? [] : [summary])].join('  '),
    columns(rows, style),
    `${style.dim(`asp ${noun} <command> --help`)}  examples and options\n`,
  ].join('\n\n');
}

/** The commands whose path continues this one: `serve` is a command and a noun. */
export function commandsBelow({ commands }: Program, path: string, style: Style): string {
  const below = commands.filter((command) => command.path.startsWith(`${path} `) && !command.isHidden);
  if (below.length === 0) return '';
  const rows = below.map((command): [string, string] => [usageOf(command, command.path), command.summary]);
  return `\n${style.bold('Commands below')}\n${columns(rows, style)}\n`;
}

/** What `--help` of a command shows: two examples first. */
export function commandHelp(command: Command, style: Style): string {
  const { summary, details, path, aliases } = command;
  const blocks = [`${style.bold(`asp ${usageOf(command)}`)}\n${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`];
  const examples = command.examples.map(({ line, about }) => `  ${style.dim(`# ${about}`)}\n  ${style.cyan(line)}`);
  blocks.push(`${style.bold('Examples')}\n${examples.join('\n')}`);
  if (details !== undefined) blocks.push(details);
  if (command.arguments.length > 0) {
    const rows = command.arguments.map(({ usage, about }): [string, string] => [usage.replace('...', '…'), about]);
    blocks.push(`${style.bold('Arguments')}\n${columns(rows, style)}`);
  }
  if (command.options.length > 0)
    blocks.push(`${style.bold('Options')}\n${columns(optionRows(command.options), style)}`);
  const global = optionRows(GLOBAL_OPTIONS).map(([flags]) => flags.trim().replace(/^-\w, /, ''));
  blocks.push(`${style.bold('Everywhere')}\n${wrap(global, 96)}`);
  const others = [path, ...aliases].filter((spelling) => spelling !== shortest(command));
  if (others.length > 0) blocks.push(style.dim(`Also: ${others.map((spelling) => `asp ${spelling}`).join(', ')}`));
  return `${blocks.join('\n\n')}\n`;
}

function wrap(words: readonly string[], width: number): string {
  const lines: string[] = [];
  let line = ' ';
  for (const word of words) {
    if (line.length + word.length + 2 > width) {
      lines.push(line);
      line = ' ';
    }
    line += line === ' ' ? ` ${word}` : `  ${word}`;
  }
  return [...lines, line].join('\n');
}
