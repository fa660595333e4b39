import { optionsOf } from './global-options.js';
import { type CommandRow, type OptionRow, optionName, type Program } from './row.js';

/** What argv asks for, before its options are read. */
export interface Request<Run> {
  /** The command, when the words lead to one. */
  readonly row: CommandRow<Run> | undefined;
  /** The words that were recognised, in their canonical spelling: a noun alone when it stops there. */
  readonly words: readonly string[];
  /** The same words as they were typed. */
  readonly typed: readonly string[];
  /** The first word that leads nowhere. */
  readonly stray: string | undefined;
  /** Everything else, in order: options and arguments. */
  readonly rest: readonly string[];
  readonly wantsHelp: boolean;
  readonly wantsVersion: boolean;
}

/** How many of the next words belong to the option `token`: one when its value stands apart. */
function valuesAfter(token: string, options: readonly OptionRow[]): 0 | 1 {
  if (token.startsWith('--')) {
    if (token.includes('=')) return 0;
    return options.some(({ flags }) => {
      const name = optionName(flags);
      return name.takesValue && `--${name.long}` === token;
    })
      ? 1
      : 0;
  }
  for (let at = 1; at < token.length; at += 1) {
    const option = options.map(({ flags }) => optionName(flags)).find(({ short }) => short === `-${token[at]}`);
    if (option?.takesValue === true) return at === token.length - 1 ? 1 : 0;
  }
  return 0;
}

/** Whether a token of short flags, none of which takes a value, holds `flag`. */
function holdsShort(token: string, flag: string, options: readonly OptionRow[]): boolean {
  if (token === `-${flag}`) return true;
  if (!/^-\w+$/.test(token) || !token.includes(flag)) return false;
  const before = token.slice(1, token.indexOf(flag));
  return [...before].every((letter) =>
    options.some(({ flags }) => {
      const name = optionName(flags);
      return name.short === `-${letter}` && !name.takesValue;
    }),
  );
}

/** Every spelling of a command: its words, those with a plural noun, and its aliases. */
export function spellingsOf(row: CommandRow, program: Program): string[] {
  const [noun = '', ...verbs] = row.words.split(' ');
  const plural = program.groups.find((group) => group.noun === noun)?.plural;
  return [
    row.words,
    ...(plural !== undefined && verbs.length > 0 ? [[plural, ...verbs].join(' ')] : []),
    ...(row.aliases ?? []),
  ];
}

/** The command that argv names; options may stand before, between and after its words. */
export function findCommand<Run>(program: Program<Run>, argv: readonly string[]): Request<Run> {
  const spellings = program.commands.flatMap((row) =>
    spellingsOf(row, program).map((spelling) => ({ row, words: spelling.split(' ') })),
  );
  const typed: string[] = [];
  const rest: string[] = [];
  let row: CommandRow<Run> | undefined;
  let stray: string | undefined;
  let isAmongWords = true;
  let wantsHelp = false;
  let wantsVersion = false;

  const accept = (word: string): boolean => {
    const next = [...typed, word];
    const fitting = spellings.filter(({ words }) => next.every((part, index) => words[index] === part));
    if (fitting.length === 0) return false;
    typed.push(word);
    // `serve` is a command, and `serve agent` a noun below it that is none.
    row = fitting.find(({ words }) => words.length === typed.length)?.row;
    return true;
  };

  for (let at = 0; at < argv.length; at += 1) {
    const token = argv[at] as string;
    if (token === '--') {
      rest.push(...argv.slice(at));
      break;
    }
    if (token.startsWith('-') && token !== '-') {
      const options = optionsOf(row);
      if (token === '--help' || holdsShort(token, 'h', options)) wantsHelp = true;
      else if (token === '--version' || holdsShort(token, 'V', options)) wantsVersion = true;
      else {
        const count = valuesAfter(token, options);
        rest.push(...argv.slice(at, at + 1 + count));
        at += count;
      }
      continue;
    }
    if (isAmongWords && accept(token)) continue;
    isAmongWords = false;
    if (row === undefined) stray ??= token;
    rest.push(token);
  }
  const canonical = row?.words.split(' ') ?? typed.map((word) => singularOf(word, program));
  return { row, words: canonical, typed, stray, rest, wantsHelp, wantsVersion };
}

function singularOf(word: string, program: Program): string {
  return program.groups.find(({ plural }) => plural === word)?.noun ?? word;
}
