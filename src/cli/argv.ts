import {
  type CommandEntry,
  type ListedCommand,
  listSpellings,
  loadListed,
  type Option,
  type Program,
} from './command.js';
import { everyOption } from './options.js';

/** The command that argv names, before its options are checked. */
export interface Request {
  /** Undefined if the path names a noun or nothing. */
  readonly command: ListedCommand | undefined;
  /** The path in its canonical spelling: a noun alone when it ends there. */
  readonly path: readonly string[];
  /** The path as it was typed. */
  readonly typed: readonly string[];
  /** The first word that is not part of any path. */
  readonly unknownWord: string | undefined;
  /** Its index in argv. */
  readonly unknownAt: number;
  /** Everything else, in order: options and arguments. */
  readonly rest: readonly string[];
  readonly wantsHelp: boolean;
  readonly wantsVersion: boolean;
}

const isOption = (token: string): boolean => token.startsWith('-') && token !== '-';

const HELP_FLAGS = ['-h', '--help'];

/** People ask for help often and without other options; then the parser is not even loaded. */
const HELP_ALONE = {
  countOptions(_: readonly Option[], argv: readonly string[]): number {
    const count = argv.findIndex((token) => !isOption(token));
    return count === -1 ? argv.length : count;
  },
  findFlags: (_: readonly Option[], rest: readonly string[]): { help?: boolean; version?: boolean } => ({
    help: rest.some(isOption),
  }),
};

/**
 * The command that argv names; options may come before, between and after the words of its path. It loads this command,
 * and one on the way to it whose options may come first.
 */
export async function findCommand(program: Program, argv: readonly string[]): Promise<Request> {
  const spellings = program.entries.flatMap((entry) =>
    listSpellings(entry, program).map((spelling) => ({ entry, words: spelling.split(' ') })),
  );
  const needsParser = argv.some((token) => isOption(token) && !HELP_FLAGS.includes(token));
  const { countOptions, findFlags } = needsParser ? await import('./parser.js') : HELP_ALONE;
  const typed: string[] = [];
  const before: string[] = [];
  let remaining = argv;
  let entry: CommandEntry | undefined;
  let unknownWord: string | undefined;
  let unknownAt = 0;
  for (;;) {
    const count = remaining[0]?.startsWith('-') === true ? countOptions(await optionsOf(entry), remaining) : 0;
    const word = remaining[count];
    if (word === undefined || remaining.slice(0, count).includes('--')) break;
    if (!isOption(word)) {
      const next = [...typed, word];
      const fitting = spellings.filter(({ words }) => next.every((part, index) => words[index] === part));
      if (fitting.length === 0) {
        unknownWord = word;
        unknownAt = argv.length - remaining.length + count;
        break;
      }
      typed.push(word);
      // `serve` is a command; `serve agent` is a noun below it that is not.
      entry = fitting.find(({ words }) => words.length === typed.length)?.entry;
    }
    before.push(...remaining.slice(0, isOption(word) ? count + 1 : count));
    remaining = remaining.slice(count + 1);
  }
  const rest = [...before, ...remaining];
  const command = entry === undefined ? undefined : await loadListed(entry);
  const { help, version } = findFlags(everyOption(command), rest);
  return {
    command,
    path: command?.path.split(' ') ?? typed.map((word) => toSingular(word, program)),
    typed,
    unknownWord: command === undefined ? unknownWord : undefined,
    unknownAt,
    rest,
    wantsHelp: help === true,
    wantsVersion: version === true,
  };
}

async function optionsOf(entry: CommandEntry | undefined): Promise<readonly Option[]> {
  return everyOption(await entry?.load());
}

function toSingular(word: string, { nouns }: Program): string {
  return nouns.find(({ plural }) => plural === word)?.noun ?? word;
}
