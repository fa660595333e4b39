import type { Style } from '../terminal/style.js';
import { GLOBAL_OPTIONS, ownOptionsOf } from './global-options.js';
import type { CommandRow, GroupRow, OptionRow, Program } from './row.js';

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
export function usageOf(row: CommandRow, spelling: string = shortest(row)): string {
  return [spelling, ...(row.arguments ?? []).map(({ usage }) => usage.replace('...', '…'))].join(' ');
}

/** The spelling people use: an alias where there is one. */
function shortest(row: CommandRow): string {
  return row.aliases?.[0] ?? row.words;
}

function optionRows(options: readonly OptionRow[]): [string, string][] {
  return options
    .filter(({ isHidden }) => isHidden !== true)
    .map((option) => [option.flags.startsWith('--') ? `    ${option.flags}` : option.flags, optionText(option)]);
}

/** What an option does, whether it may be repeated, its choices and its variable. */
export function optionText({ about, isRepeatable, choices, environment }: OptionRow): string {
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
      const row = program.commands.find(({ words, aliases }) => words === spelling || aliases?.includes(spelling));
      if (row !== undefined) return [[usageOf(row, spelling), row.summary]];
      const group = program.groups.find(({ noun }) => noun === spelling);
      const hasCommands = program.commands.some(({ words }) => words.startsWith(`${spelling} `));
      return group === undefined || !hasCommands ? [] : [[`${spelling} …`, group.summary]];
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
export function groupHelp(program: Program, noun: string, style: Style): string {
  const group: GroupRow | undefined = program.groups.find((row) => row.noun === noun);
  const rows = program.commands
    .filter(({ words, isHidden }) => words.startsWith(`${noun} `) && isHidden !== true)
    .map((row): [string, string] => [
      usageOf(row, row.words),
      row.aliases?.[0] === undefined ? row.summary : `${row.summary} ${style.dim(`(asp ${row.aliases[0]})`)}`,
    ]);
  return [
    [style.bold(`asp ${noun}`), ...(group === undefined ? [] : [group.summary])].join('  '),
    columns(rows, style),
    `${style.dim(`asp ${noun} <command> --help`)}  examples and options\n`,
  ].join('\n\n');
}

/** The commands whose words go on from these: `serve` is a command and a noun. */
export function commandsBelow(program: Program, words: string, style: Style): string {
  const below = program.commands.filter((row) => row.words.startsWith(`${words} `) && row.isHidden !== true);
  if (below.length === 0) return '';
  const rows = below.map((row): [string, string] => [usageOf(row, row.words), row.summary]);
  return `\n${style.bold('Commands below')}\n${columns(rows, style)}\n`;
}

/** What `--help` of a command shows: two examples first. */
export function commandHelp(row: CommandRow, style: Style): string {
  const blocks = [
    `${style.bold(`asp ${usageOf(row)}`)}\n${row.summary.charAt(0).toUpperCase()}${row.summary.slice(1)}.`,
  ];
  const examples = row.examples.map(({ line, about }) => `  ${style.dim(`# ${about}`)}\n  ${style.cyan(line)}`);
  blocks.push(`${style.bold('Examples')}\n${examples.join('\n')}`);
  if (row.details !== undefined) blocks.push(row.details);
  if (row.arguments !== undefined && row.arguments.length > 0)
    blocks.push(
      `${style.bold('Arguments')}\n${columns(
        row.arguments.map(({ usage, about }): [string, string] => [usage.replace('...', '…'), about]),
        style,
      )}`,
    );
  const own = ownOptionsOf(row);
  if (own.length > 0) blocks.push(`${style.bold('Options')}\n${columns(optionRows(own), style)}`);
  const global = optionRows(GLOBAL_OPTIONS).map(([flags]) => flags.trim().replace(/^-\w, /, ''));
  blocks.push(`${style.bold('Everywhere')}\n${wrap(global, 96)}`);
  const others = [row.words, ...(row.aliases ?? [])].filter((spelling) => spelling !== shortest(row));
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
