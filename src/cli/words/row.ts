/** What a command changes: nothing outside this process, files of this machine, or what a service holds. */
export type Effect = 'none' | 'local' | 'read' | 'write';

/** One option. `flags` is written as a user reads it: `-m, --message <text>`. No option takes an optional value. */
export interface OptionRow {
  readonly flags: string;
  readonly about: string;
  readonly isRepeatable?: boolean;
  readonly isHidden?: boolean;
  readonly choices?: readonly string[];
  /** The environment variable that says the same. */
  readonly environment?: string;
}

/** One positional argument: `<to>` is required, `[message]` is not, `[session...]` takes the rest. */
export interface ArgumentRow {
  readonly usage: string;
  readonly about: string;
}

export interface Example {
  readonly line: string;
  readonly about: string;
}

/** One command of the tree: everything that help, suggestions, completions and the reference say is read off it. */
export interface CommandRow<Run = unknown> {
  /** As typed: `session list`. */
  readonly words: string;
  /** Other exact spellings: `tail`. */
  readonly aliases?: readonly string[];
  readonly summary: string;
  /** More than the summary, in paragraphs. */
  readonly details?: string;
  readonly arguments?: readonly ArgumentRow[];
  readonly options?: readonly OptionRow[];
  readonly examples: readonly [Example, Example, ...Example[]];
  readonly effect: Effect;
  /** The command runs until it is told to stop: `--timeout` has no default. */
  readonly isEndless?: boolean;
  /** With one of these options it runs as long as its input: `--timeout` has no default then. */
  readonly endlessWith?: readonly string[];
  /** A signal is its ordinary end: it finishes what is in work, however long that takes, and its exit code counts. */
  readonly finishesOnSignal?: boolean;
  /** After a signal or its deadline it takes away what it made, however long that takes. */
  readonly tidiesUp?: boolean;
  /** What it writes is none of a user's one request: it takes no key of theirs. */
  readonly makesOwnKeys?: boolean;
  readonly isHidden?: boolean;
  /** Imports the one file of the command. */
  readonly load: () => Promise<Run>;
}

/** A noun and what its commands are about. */
export interface GroupRow {
  readonly noun: string;
  /** Accepted in its place. */
  readonly plural?: string;
  readonly summary: string;
}

export interface Program<Run = unknown> {
  readonly groups: readonly GroupRow[];
  readonly commands: readonly CommandRow<Run>[];
}

/** An option's parts, read off its flags. */
export interface OptionName {
  readonly short: string | undefined;
  /** Without its dashes; a negation keeps its `no-`. */
  readonly long: string;
  readonly takesValue: boolean;
}

const FLAGS = /^(?:(-\w), )?--([a-z][a-z0-9-]*)(?: <[^>]+>)?$/;

export function optionName(flags: string): OptionName {
  const match = FLAGS.exec(flags);
  if (match?.[2] === undefined) throw new TypeError(`an option row is not well-formed: ${flags}`);
  return { short: match[1], long: match[2], takesValue: flags.endsWith('>') };
}
