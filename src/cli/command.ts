import type { Context } from './context/context.js';
import { usageError } from './errors.js';
import { type GLOBAL_OPTIONS, OPERATOR_OPTIONS, WRITE_OPTIONS } from './options.js';
import { ifGiven, readCount, readDuration, readTime } from './values.js';

/** What a command changes: nothing outside this process, files on this machine, or data at a service. */
export type Effect = 'none' | 'local' | 'read' | 'write';

/** One option. `flags` is written as a user reads it: `-m, --message <text>`. No option takes an optional value. */
export interface Option {
  readonly flags: string;
  readonly about: string;
  readonly isRepeatable?: boolean;
  readonly isHidden?: boolean;
  readonly choices?: readonly string[];
  /** The environment variable with the same meaning. */
  readonly environment?: string;
}

/** One positional argument: `<to>` is required, `[message]` is optional, `[sessions...]` takes the rest. */
export interface Argument {
  readonly usage: string;
  readonly about: string;
}

interface Example {
  readonly line: string;
  readonly about: string;
}

/** `limit` from `-n, --limit <count>`, `no-join` from `--no-join`. */
type LongName<Flags extends string> = Flags extends `${string}--${infer Rest}`
  ? Rest extends `${infer Name} <${string}`
    ? Name
    : Rest
  : never;

type TakesValue = { readonly flags: `${string}>` };
type Repeatable = { readonly isRepeatable: true };
type NameOf<Known extends Option> = Known extends Option ? LongName<Known['flags']> : never;

/** Names of the options that take no value. */
type FlagName<Known extends Option> = Known extends TakesValue ? never : NameOf<Known>;
/** Names of the options that take one value, and of those that may be repeated. */
type TextName<Known extends Option> = Known extends Repeatable
  ? never
  : Known extends TakesValue
    ? NameOf<Known>
    : never;
type ListName<Known extends Option> = Known extends Repeatable ? NameOf<Known> : never;
/** The text of each option: one of its choices if it has some. */
type TextOf<Known extends Option> = {
  readonly [Each in Known as NameOf<Each>]: Each extends { readonly choices: readonly (infer Choice)[] }
    ? Choice
    : string;
};

/** The options of a command as a program passes them: a number stands for its text. */
export type OptionInput<Known extends Option> = {
  readonly [Each in Known as NameOf<Each>]?: Each extends Repeatable
    ? readonly string[]
    : Each extends TakesValue
      ? TextOf<Each>[NameOf<Each>] | number | undefined
      : boolean | undefined;
};

/** `session` from `<session>`, `sessions` from `[sessions...]`, `file` from `<file|->`. */
type ArgumentName<Usage extends string> = Usage extends `${'<' | '['}${infer Inner}${'>' | ']'}`
  ? Inner extends `${infer Name}...`
    ? Name
    : Inner extends `${infer Name}|-`
      ? Name
      : Inner
  : never;
type ValueOf<Known extends Argument> = {
  readonly [Each in Known as ArgumentName<Each['usage']>]: Each['usage'] extends `${string}...${string}`
    ? readonly string[]
    : Each['usage'] extends `<${string}`
      ? string
      : string | undefined;
};

/**
 * The input after a command: its arguments by the name in their usage, its options by their long name. A name that the
 * command does not define does not compile, nor does a flag read as a value. Members are properties, not methods, so
 * that a function which reads an option does not accept the arguments of a command without it.
 */
export interface Args<Known extends Option = never, Positional extends Argument = never> {
  readonly argument: <Name extends keyof ValueOf<Positional>>(name: Name) => ValueOf<Positional>[Name];
  readonly flag: (name: FlagName<Known>) => boolean;
  readonly text: <Name extends TextName<Known>>(name: Name) => TextOf<Known>[Name] | undefined;
  /** Every value of an option that may be repeated. */
  readonly texts: (name: ListName<Known>) => readonly string[];
  /** In milliseconds. */
  readonly duration: (name: TextName<Known>) => number | undefined;
  /** In milliseconds since 1970. */
  readonly time: (name: TextName<Known>, nowMs: number) => number | undefined;
  readonly count: (name: TextName<Known>, range?: { min?: number; max?: number }) => number | undefined;
  readonly isSet: (name: NameOf<Known>) => boolean;
  /** The value of any option, as typed. */
  readonly value: (name: NameOf<Known>) => OptionValue | undefined;
  /** Refuses two options that contradict each other. */
  readonly refuseBoth: (first: NameOf<Known>, second: NameOf<Known>) => void;
}

export type OptionValue = boolean | string | readonly string[];

/** Options by their long name, and the positional arguments in order. */
export interface ParsedArgs {
  readonly options: ReadonlyMap<string, OptionValue>;
  readonly positional: readonly string[];
}

/** {@link Args} at run time, where every name is a string. */
interface UncheckedArgs {
  argument(name: string): string | readonly string[] | undefined;
  flag(name: string): boolean;
  text(name: string): string | undefined;
  texts(name: string): readonly string[];
  duration(name: string): number | undefined;
  time(name: string, nowMs: number): number | undefined;
  count(name: string, range?: { min?: number; max?: number }): number | undefined;
  isSet(name: string): boolean;
  value(name: string): OptionValue | undefined;
  refuseBoth(first: string, second: string): void;
}

/** The typed view of the parsed input. The parser has checked required arguments and choices. */
export function createArgs<Known extends Option, Positional extends Argument = never>(
  { options, positional }: ParsedArgs,
  known: readonly Argument[] = [],
): Args<Known, Positional> {
  const args: UncheckedArgs = {
    argument(name) {
      const at = known.findIndex(({ usage }) => argumentName(usage) === name);
      return known[at]?.usage.includes('...') === true ? positional.slice(at) : positional[at];
    },
    flag: (name) => options.get(name) === true,
    text(name) {
      const value = options.get(name);
      return typeof value === 'string' ? value : undefined;
    },
    texts(name) {
      const value = options.get(name);
      return typeof value === 'object' ? value : [];
    },
    duration: (name) => ifGiven(args.text(name), (text) => readDuration(`--${name}`, text)),
    time: (name, nowMs) => ifGiven(args.text(name), (text) => readTime(`--${name}`, text, nowMs)),
    count: (name, range) => ifGiven(args.text(name), (text) => readCount(`--${name}`, text, range)),
    isSet(name) {
      const value = options.get(name);
      return value !== undefined && value !== false && !(Array.isArray(value) && value.length === 0);
    },
    value: (name) => options.get(name),
    refuseBoth(first, second) {
      if (args.isSet(first) && args.isSet(second))
        throw usageError(`--${first} and --${second} cannot be used together.`);
    },
  };
  return args as Args<Known, Positional>;
}

/** The handle that a command takes as an argument in place of `--as`, as typed. */
export function namedAgent({ actsAs, arguments: known }: Command, { positional }: ParsedArgs): string | undefined {
  return positional[known.findIndex(({ usage }) => argumentName(usage) === actsAs)];
}

const argumentName = (usage: string): string => usage.replace(/^[<[]|(\.\.\.|\|-)?[>\]]$/g, '');

type OptionOf<Table extends readonly Option[]> = Table[number];
/** Options of every command. */
export type GlobalOption = OptionOf<typeof GLOBAL_OPTIONS>;
/** Options of the commands that send one write for the user. */
export type WriteOption = OptionOf<typeof WRITE_OPTIONS>;
/** Options of the commands of an operator that also work from another machine. */
export type OperatorOption = OptionOf<typeof OPERATOR_OPTIONS>;
type WriteOptionOf<Changes extends Effect, OwnKeys> = Changes extends 'write'
  ? OwnKeys extends true
    ? never
    : WriteOption
  : never;

interface Definition<
  Path extends string,
  Positional extends readonly Argument[],
  Own extends readonly Option[],
  Changes extends Effect,
  OwnKeys extends boolean,
  Parsed,
> {
  /** As typed: `session list`. */
  readonly path: Path;
  readonly summary: string;
  /** More than the summary, in paragraphs. */
  readonly details?: string;
  readonly arguments?: Positional;
  readonly options?: Own;
  readonly examples: readonly [Example, Example, ...Example[]];
  readonly effect: Changes;
  /**
   * It ends something for others, or removes something that the caller cannot restore: data, a credential, a place in a
   * session.
   */
  readonly isDestructive?: boolean;
  /** The contents of stdout without JSON. */
  readonly stdout: string;
  /** The command runs until it is stopped: `--timeout` has no default. */
  readonly isEndless?: boolean;
  /** Its own default deadline, if it needs another one than other commands. */
  readonly deadlineMs?: number;
  /** With one of these options, it runs as long as its input or its own limit, and `--timeout` has no default. */
  readonly endlessWith?: readonly NameOf<NoInfer<Own>[number]>[];
  /** With one of these flags, it prints documents of more than one shape, and `--fields` is not checked. */
  readonly mixesShapesWith?: readonly FlagName<NoInfer<Own>[number]>[];
  /** The argument that names the acting agent, in place of `--as`. */
  readonly actsAs?: ArgumentName<NoInfer<Positional>[number]['usage']>;
  /** It is for the operator of a service, here or on another machine. */
  readonly isForOperators?: boolean;
  /** A signal ends it normally: it finishes its work, no matter how long that takes, and its exit code counts. */
  readonly finishesOnSignal?: boolean;
  /** After a signal or its deadline, it removes what it created, no matter how long that takes. */
  readonly tidiesUp?: boolean;
  /** Its write is not a single request of the user, so the user cannot set a key for it. */
  readonly makesOwnKeys?: OwnKeys;
  /** Turns the input into options without side effects; `nowMs` is for times that mean "ago". */
  readonly parse?: (
    args: Args<OptionOf<NoInfer<Own>> | WriteOptionOf<Changes, OwnKeys> | GlobalOption, NoInfer<Positional>[number]>,
    nowMs: number,
  ) => Parsed | Promise<Parsed>;
  readonly run: (context: Context, options: NoInfer<Parsed>) => Promise<void>;
}

/** One command: the text for help, suggestions, completions and the reference, and the function that runs it. */
export interface Command<
  Path extends string = string,
  Known extends Option = Option,
  Positional extends Argument = Argument,
> {
  readonly path: Path;
  readonly summary: string;
  readonly details: string | undefined;
  readonly arguments: readonly Positional[];
  /** The options in addition to those of every command. */
  readonly options: readonly Known[];
  readonly examples: readonly [Example, Example, ...Example[]];
  readonly effect: Effect;
  readonly isDestructive: boolean;
  readonly stdout: string;
  readonly isEndless: boolean;
  /** Undefined: that of most commands. */
  readonly deadlineMs: number | undefined;
  readonly endlessWith: readonly string[];
  readonly mixesShapesWith: readonly string[];
  readonly actsAs: string | undefined;
  readonly finishesOnSignal: boolean;
  readonly tidiesUp: boolean;
  /** Parses and runs. `insteadOfRun` is for tests: it gets the options, and the command does not run. */
  start(args: ParsedArgs, context: Context, insteadOfRun?: (options: unknown) => void): Promise<void>;
}

/**
 * Defines a command. Help and completions read definitions without running them, so the file of a definition imports
 * nothing that is slow to load, and no other definition. Large or rarely used code goes behind an `import()` in `run`.
 */
export function command<
  const Path extends string,
  const Positional extends readonly Argument[] = readonly [],
  const Own extends readonly Option[] = readonly [],
  const Changes extends Effect = Effect,
  const OwnKeys extends boolean = false,
  Parsed = Record<never, never>,
>(
  definition: Definition<Path, Positional, Own, Changes, OwnKeys, Parsed>,
): Command<Path, Own[number] | WriteOptionOf<Changes, OwnKeys>, Positional[number]> {
  const { parse, run, effect, makesOwnKeys } = definition;
  const known: readonly Positional[number][] = definition.arguments ?? [];
  const own: readonly Own[number][] = definition.options ?? [];
  const isKeyed = effect === 'write' && makesOwnKeys !== true;
  const shared = definition.isForOperators === true ? OPERATOR_OPTIONS : isKeyed ? WRITE_OPTIONS : [];
  const options: readonly Option[] = [...own, ...shared];
  return {
    path: definition.path,
    summary: definition.summary,
    details: definition.details,
    arguments: known,
    options: options as readonly (Own[number] | WriteOptionOf<Changes, OwnKeys>)[],
    examples: definition.examples,
    effect,
    isDestructive: definition.isDestructive ?? false,
    stdout: definition.stdout,
    isEndless: definition.isEndless ?? false,
    deadlineMs: definition.deadlineMs,
    endlessWith: definition.endlessWith ?? [],
    mixesShapesWith: definition.mixesShapesWith ?? [],
    actsAs: definition.actsAs,
    finishesOnSignal: definition.finishesOnSignal ?? false,
    tidiesUp: definition.tidiesUp ?? false,
    async start(args, context, insteadOfRun) {
      const parsed = parse === undefined ? ({} as Parsed) : await parse(createArgs(args, known), context.clock.now());
      if (insteadOfRun === undefined) await run(context, parsed);
      else insteadOfRun(parsed);
    },
  };
}

/** The stdout of a list. */
export const describeTable = (columns: string): string =>
  `a table; in a pipe one line per item, with tabs between the columns: ${columns}`;

/** A noun and a description of its commands. */
interface Noun {
  readonly noun: string;
  /** Accepted as a synonym. */
  readonly plural?: string;
  readonly summary: string;
}

/** The words of a command, without its definition. */
export interface CommandEntry {
  /** As typed: `session tail`. */
  readonly path: string;
  /** Other exact spellings: `tail`. */
  readonly aliases: readonly string[];
  load(): Promise<Command>;
}

/** The words of all commands. */
export interface Program {
  readonly nouns: readonly Noun[];
  readonly entries: readonly CommandEntry[];
}

/** Every spelling of a command: its path, the path with a plural noun, and its aliases. */
export function listSpellings(
  { path, aliases }: Pick<CommandEntry, 'path' | 'aliases'>,
  { nouns }: Pick<Program, 'nouns'>,
): string[] {
  const [noun = '', ...verbs] = path.split(' ');
  const plural = nouns.find((each) => each.noun === noun)?.plural;
  return [path, ...(plural !== undefined && verbs.length > 0 ? [[plural, ...verbs].join(' ')] : []), ...aliases];
}

/** A command with its other spellings. */
export type ListedCommand = Command & Pick<CommandEntry, 'aliases'>;

/** The program with the definitions of all commands, as help and completions need it. */
export interface LoadedProgram {
  readonly nouns: readonly Noun[];
  readonly commands: readonly ListedCommand[];
}

/** Loads the definition of every command. */
export async function loadCommands({ nouns, entries }: Program): Promise<LoadedProgram> {
  return { nouns, commands: await Promise.all(entries.map(loadListed)) };
}

/** Loads the definition of one command. */
export async function loadListed({ aliases, load }: CommandEntry): Promise<ListedCommand> {
  return { ...(await load()), aliases };
}

/** The parts of an option's flags. */
export interface OptionName {
  readonly short: string | undefined;
  /** Without its dashes; a negation keeps its `no-`. */
  readonly long: string;
  readonly takesValue: boolean;
}

const FLAGS = /^(?:(-\w), )?--([a-z][a-z0-9-]*)(?: <[^>]+>)?$/;

export function optionName(flags: string): OptionName {
  const match = FLAGS.exec(flags);
  if (match?.[2] === undefined) throw new TypeError(`the flags of an option are malformed: ${flags}`);
  return { short: match[1], long: match[2], takesValue: flags.endsWith('>') };
}
