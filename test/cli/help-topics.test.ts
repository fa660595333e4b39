import { describe, expect, it } from 'vitest';

import { findCommand } from '../../src/cli/argv.js';
import { loadCommands, optionName } from '../../src/cli/command.js';
import { TOPICS } from '../../src/cli/commands/help/topics.js';
import { COMMAND_OUTPUT, OBJECT } from '../../src/cli/commands/schema/output-shapes.js';
import { everyOption } from '../../src/cli/options.js';
import { parseArgs } from '../../src/cli/parser.js';
import { PROGRAM } from '../../src/cli/program.js';
import { wrapPage } from '../../src/kit/wrap.js';
import { optionsOf, runWords, splitWords } from './captured-run.js';

const { commands: COMMANDS } = await loadCommands(PROGRAM);

/** The placeholders of a page, and a possible value for each. */
const STANDS_FOR: readonly (readonly [RegExp, string])[] = [
  [/\b(sess|msg|att)_…/g, `$1_${'0'.repeat(25)}7`],
  [/<code>/g, 'NOT_FOUND'],
  [/<handle>/g, 'alice.bot'],
  [/"\$sid"/g, `sess_${'0'.repeat(25)}7`],
];

/**
 * Returns the command lines of a page as lists of words. They are indented by two and end at a pipe, a closing bracket,
 * or the gap before an explanation. In an assignment, the command is inside the brackets.
 */
function commandLines(page: string): string[][] {
  return page.split('\n').flatMap((line) => {
    const [, typed] = /^ {2}(?:\w+=\$\()?(asp .*?)(?:\)? {3,}.*| \| .*|\)?)$/.exec(line) ?? [];
    if (typed === undefined) return [];
    const filled = STANDS_FOR.reduce((text, [pattern, value]) => text.replace(pattern, value), typed);
    return [splitWords(filled).slice(1)];
  });
}

/** Returns every `asp …` in running text with its plain words. */
const mentions = (page: string): string[] =>
  [...page.matchAll(/\basp((?: [a-z]+)+)/g)].map(([, words = '']) => words.trim());

describe.each(Object.entries(TOPICS))('asp help %s', (name, page) => {
  it('shows lines that are commands, with valid options and arguments', async () => {
    for (const words of commandLines(page)) {
      const { command, rest, typed, unknownWord } = await findCommand(PROGRAM, words);
      if (command === undefined) throw new Error(`asp ${words.join(' ')} is no command: ${unknownWord ?? ''}`);
      expect(() => parseArgs({ command, typed }, rest), words.join(' ')).not.toThrow();
    }
  });

  it('shows lines with values that their commands accept', async () => {
    for (const words of commandLines(page))
      if (!words.includes('--help')) await expect(optionsOf(words), words.join(' ')).resolves.toBeDefined();
  });

  it('has no line of JSON that a terminal of 80 columns has to break', () => {
    for (const line of page.split('\n'))
      if (/^ +[[\]{}"]/.test(line) && !/\S {2}/.test(line)) expect(line.length, line).toBeLessThanOrEqual(80);
  });

  it('has at most two columns on a line, because wrapping aligns no more', () => {
    for (const line of page.split('\n')) expect(line.match(/\S {2,}(?=\S)/g)?.length ?? 0, line).toBeLessThan(2);
  });

  it('names existing commands', async () => {
    for (const words of mentions(page)) {
      const [first = ''] = words.split(' ');
      const isNoun = PROGRAM.nouns.some(({ noun }) => noun === first);
      const { command } = await findCommand(PROGRAM, [first]);
      expect(command !== undefined || isNoun, words).toBe(true);
    }
  });

  it('names existing options', () => {
    const known = COMMANDS.flatMap((command) => everyOption(command).map(({ flags }) => `--${optionName(flags).long}`));
    for (const [option] of page.matchAll(/(?<![\w-])--[a-z][a-z-]+/g)) expect(known, option).toContain(option);
  });

  it('is what the program prints, on lines that fit a terminal', async () => {
    const { code, out, err } = await runWords(['help', name]);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out.endsWith(wrapPage(page, 80))).toBe(true);
    for (const line of wrapPage(page, 80).split('\n')) expect(line.length, line).toBeLessThanOrEqual(80);
  });
});

it('asp help --help names every topic', async () => {
  const { out } = await runWords('help --help');
  for (const name of Object.keys(TOPICS)) expect(out).toMatch(new RegExp(`[\\s:]${name}\\s`));
});

describe('asp help agents', () => {
  const page = TOPICS['agents'] ?? '';

  it('is short enough to read in one go', () => expect(page.split('\n').length).toBeLessThan(120));

  it('consists mostly of runnable commands', () => expect(commandLines(page).length).toBeGreaterThan(25));

  it('covers everything that a program needs', () => {
    const words = ['whoami', 'commands --json', 'schema', '--wait', '--end-after-reply', 'session wait', '--once'];
    const more = ['--dry-run', '--cursor-file', '--fence', '--no-input', 'untrusted', '"next"', 'outcome', 'asp run'];
    for (const word of [...words, ...more, 'asp mcp', 'asp explain', 'asp serve']) expect(page).toContain(word);
    for (const code of [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13])
      expect(page).toMatch(new RegExp(`(?:^|\\s)${code}=[a-z]`, 'm'));
  });

  it('gives the real size of asp commands --json', async () => {
    const { out } = await runWords('commands --json');
    expect(page).toContain('all of them, 145 KB');
    expect(Buffer.byteLength(out)).toBeGreaterThan(135_000);
    expect(Buffer.byteLength(out)).toBeLessThan(155_000);
  });

  it('names fields that documents and events have', () => {
    expect(Object.keys(OBJECT.error.shape.error.shape)).toEqual(
      expect.arrayContaining(['code', 'message', 'exit_code', 'retryable', 'outcome', 'hint', 'next', 'request']),
    );
    expect(Object.keys(COMMAND_OUTPUT['message send'].shape)).toEqual(
      expect.arrayContaining(['session_id', 'sequence', 'invited', 'omitted', 'reply']),
    );
    expect(Object.keys(OBJECT.event.shape)).toEqual(
      expect.arrayContaining(['type', 'session_id', 'event_id', 'sequence', 'created_at', 'payload']),
    );
  });
});

it.each(COMMANDS.flatMap(({ path, details }) => (details === undefined ? [] : [[path, details] as const])))(
  'asp %s --help: the details have no columns, which help and man pages would run together',
  (_path, details) => {
    expect(details).not.toMatch(/\S {2,}\S/);
  },
);
