import { type Command, type Option, optionName, type Program } from '../../command.js';
import { GLOBAL_OPTIONS } from '../../options.js';

/** What a shell offers for a value: words that are remembered, files, nothing, or these choices. */
export type ValueKind = 'handles' | 'sessions' | 'profiles' | 'files' | 'nothing' | readonly string[];

export interface OfferedWord {
  readonly word: string;
  readonly about: string;
}

export interface OfferedOption {
  /** `--topic`; `-m` beside it where there is one. */
  readonly long: string;
  readonly short: string | undefined;
  readonly about: string;
  /** Undefined: it takes no value. */
  readonly value: ValueKind | undefined;
}

/** One place in the tree of words: what may be typed after it. */
export interface Place {
  /** As it is typed, canonically; empty at the root. */
  readonly path: string;
  readonly words: readonly OfferedWord[];
  readonly options: readonly OfferedOption[];
  readonly values: readonly ValueKind[];
}

/** Everything that a completion script says, read off the command tree. */
export interface CompletionTree {
  readonly places: readonly Place[];
  /** Other spellings of a place: aliases, plural nouns. */
  readonly spellings: readonly (readonly [typed: string, path: string])[];
  readonly everywhere: readonly OfferedOption[];
  /** Options, as they are typed, whose next word is a value. */
  readonly takingValues: readonly string[];
}

const REMEMBERED: Readonly<Record<string, ValueKind>> = {
  handle: 'handles',
  handles: 'handles',
  blocked: 'handles',
  entries: 'handles',
  session: 'sessions',
  sessions: 'sessions',
};
const IS_FILE = /\b(path|paths|file|dir)\b/;

function kindOfValue(
  command: Command | undefined,
  placeholder: string,
  choices: readonly string[] | undefined,
): ValueKind {
  if (choices !== undefined) return choices;
  const name = placeholder.replace(/\.+$/, '');
  if (Object.hasOwn(REMEMBERED, name)) return REMEMBERED[name] ?? 'nothing';
  if (IS_FILE.test(name)) return 'files';
  return name === 'name' && (command === undefined || command.path.startsWith('profile ')) ? 'profiles' : 'nothing';
}

function optionOf(command: Command | undefined, { flags, about, choices }: Option): OfferedOption {
  const { short, long, takesValue } = optionName(flags);
  const placeholder = /<([^>]+)>$/.exec(flags)?.[1] ?? '';
  return {
    long: `--${long}`,
    short,
    about,
    value: takesValue ? kindOfValue(command, placeholder, choices) : undefined,
  };
}

const isShown = ({ isHidden }: { isHidden?: boolean }): boolean => isHidden !== true;

/** `<to>` is a handle or a session; everything else says what it is by its name. */
function valuesOf(command: Command): ValueKind[] {
  const kinds = command.arguments.flatMap(({ usage }): ValueKind[] => {
    const name = usage.replace(/[<>[\]]/g, '');
    return name === 'to' ? ['handles', 'sessions'] : [kindOfValue(command, name, undefined)];
  });
  return [...new Set(kinds)].filter((kind) => kind !== 'nothing');
}

function placeOf(path: string, program: Program): Place {
  const commands = program.commands.filter(isShown);
  const found = commands.find((command) => command.path === path);
  const isBelow = (spelling: string): boolean => path === '' || spelling.startsWith(`${path} `);
  const words = new Map<string, string>();
  for (const command of commands)
    for (const spelling of [command.path, ...command.aliases].filter(isBelow)) {
      const rest = spelling.slice(path === '' ? 0 : path.length + 1);
      const [word = '', ...more] = rest.split(' ');
      const noun = program.nouns.find((each) => path === '' && each.noun === word);
      if (more.length === 0) words.set(word, command.summary);
      else if (!words.has(word)) words.set(word, noun?.summary ?? `${word} …`);
    }
  return {
    path,
    words: [...words].map(([word, about]) => ({ word, about })).sort((one, other) => (one.word < other.word ? -1 : 1)),
    options: (found?.options ?? []).filter(isShown).map((option) => optionOf(found, option)),
    values: found === undefined ? [] : valuesOf(found),
  };
}

export function completionTree(program: Program): CompletionTree {
  const commands = program.commands.filter(isShown);
  const paths = new Set(['']);
  for (const command of commands) {
    const parts = command.path.split(' ');
    for (let length = 1; length <= parts.length; length += 1) paths.add(parts.slice(0, length).join(' '));
  }
  const places = [...paths].sort().map((path) => placeOf(path, program));
  const everywhere = GLOBAL_OPTIONS.map((option) => optionOf(undefined, option));
  const taking = [...everywhere, ...places.flatMap(({ options }) => options)].filter(
    ({ value }) => value !== undefined,
  );
  return {
    places,
    spellings: [
      ...commands.flatMap(({ path, aliases }) => aliases.map((alias) => [alias, path] as const)),
      ...program.nouns.flatMap(({ noun, plural }) => (plural === undefined ? [] : [[plural, noun] as const])),
    ],
    everywhere,
    takingValues: [
      ...new Set(taking.flatMap(({ long, short }) => (short === undefined ? [long] : [long, short]))),
    ].sort(),
  };
}

/** The places at which an option has a value of that kind, by the option. */
export function namesOf({ long, short }: OfferedOption): readonly string[] {
  return short === undefined ? [long] : [long, short];
}

/** A text between single quotes, as POSIX shells and zsh read it. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
