import { type ListedCommand, type LoadedProgram, listSpellings, type Option, optionName } from '../../command.js';

/** A candidate and its description; the second is empty if there is none. */
export type Candidate = readonly [value: string, about: string];

/** Values that the program knows itself. */
type ListName =
  | 'codes'
  | 'conditions'
  | 'endpoints'
  | 'keys'
  | 'kinds'
  | 'methods'
  | 'programs'
  | 'schemas'
  | 'scopes'
  | 'shells'
  | 'skilled'
  | 'systems'
  | 'topics'
  | 'triggers'
  | 'types';
/** Values that this machine knows. `agents` are the signed-in ones. */
export type MemoryName =
  | 'agents'
  | 'aliases'
  | 'attachments'
  | 'blocked'
  | 'entries'
  | 'handles'
  | 'profiles'
  | 'sessions';
type Kind = ListName | MemoryName | 'commands' | 'fields' | 'files' | 'folders' | 'settingValues';

/** Everything that the build knows about the program, as plain data. */
export interface Vocabulary {
  readonly nouns: LoadedProgram['nouns'];
  readonly commands: readonly Pick<ListedCommand, 'path' | 'aliases' | 'summary' | 'arguments' | 'options'>[];
  /** Options of every command. */
  readonly everywhere: readonly Option[];
  readonly lists: Readonly<Record<ListName, readonly Candidate[]>>;
  /** The values of settings that have only a few. */
  readonly settings: Readonly<Record<string, readonly Candidate[]>>;
  /** For `--fields`: the members in the output of each command. */
  readonly fields: Readonly<Record<string, readonly string[]>>;
}

/** The candidates at a position; `paths`: the shell offers these itself. */
export interface Offer {
  readonly candidates: readonly Candidate[];
  readonly paths?: 'files' | 'folders';
}

/** Placeholders for which only the user knows a value. */
const UNKNOWABLE = [
  ...'- @file account address amount client-id contact count cursor duration faults header id ids json key'.split(' '),
  ...'key=value message n name name=json name=text pattern sequence size text time url user value'.split(' '),
];

/** The meaning of a placeholder. A word without a row here is literal: the `memory` of `<dir|memory>`. */
const PLACEHOLDERS: Readonly<Record<string, readonly Kind[]>> = {
  to: ['handles', 'sessions'],
  handle: ['handles'],
  handles: ['handles'],
  entries: ['handles'],
  blocked: ['blocked'],
  session: ['sessions', 'handles'],
  recording: ['sessions', 'handles', 'files'],
  sessions: ['sessions', 'handles'],
  att_id: ['attachments'],
  file: ['files'],
  path: ['files'],
  paths: ['files'],
  command: ['files'],
  cmd: ['files'],
  dir: ['folders'],
  code: ['codes'],
  condition: ['conditions'],
  kinds: ['kinds'],
  list: ['scopes'],
  names: ['fields'],
  method: ['methods'],
  program: ['programs'],
  shell: ['shells'],
  system: ['systems'],
  topic: ['topics', 'commands'],
  event: ['triggers'],
  types: ['types'],
  ...Object.fromEntries(UNKNOWABLE.map((name) => [name, []])),
};

/** Commands for which a placeholder means something else. */
const AT_COMMAND: Readonly<Record<string, readonly Kind[]>> = {
  ...Object.fromEntries(
    ['auth login', 'auth logout', 'auth refresh', 'agent use', 'agent update', 'agent remove'].map((path) => [
      `${path} <handle>`,
      ['agents', 'handles'],
    ]),
  ),
  ' <handle>': ['agents', 'handles'],
  ' <name>': ['profiles'],
  'alias set <name>': [],
  'alias set <words>': ['commands'],
  'alias remove <name>': ['aliases'],
  'profile show <name>': ['profiles'],
  'profile set <name>': ['profiles'],
  'profile remove <name>': ['profiles'],
  'profile use <name>': ['profiles'],
  // A new name.
  'agent create <handle>': [],
  'serve agent add <handle>': [],
  'serve <handle>': [],
  'allowlist remove <entries>': ['entries'],
  'attachment show <id>': ['attachments'],
  'attachment download <ids>': ['attachments'],
  'api <path>': ['endpoints'],
  'commands <command>': ['commands'],
  'schema <name>': ['schemas'],
  'skill install <program>': ['skilled'],
  'config get <key>': ['keys'],
  'config set <key>': ['keys'],
  'config unset <key>': ['keys'],
  'config set <value>': ['settingValues'],
};

/** Placeholders that accept several values in one word, separated by commas. */
const WITH_COMMAS = 'to handle handles sessions ids entries blocked list names types kinds'.split(' ');

interface ParsedLine {
  /** In its canonical spelling; empty until a command is complete. */
  readonly path: string;
  readonly command: Vocabulary['commands'][number] | undefined;
  /** The words of the path, as typed. */
  readonly typed: readonly string[];
  readonly args: readonly string[];
  readonly usedOptions: ReadonlySet<string>;
  /** The option whose value comes next. */
  readonly pending: Option | undefined;
  readonly isAfterDashes: boolean;
}

/** The candidates for `typed`, after the words before it. `recall` returns what this machine knows, on demand. */
export function offerCandidates(
  known: Vocabulary,
  recall: (name: MemoryName) => readonly Candidate[],
  before: readonly string[],
  typed: string,
): Offer {
  const parsed = parseLine(known, before);
  const { command, pending, path } = parsed;
  if (parsed.isAfterDashes) return { candidates: [] };
  const ask: Ask = { known, recall, parsed };
  if (pending !== undefined) return offerValue(ask, pending, typed);
  const [, attached = '', flag = ''] = /^((--[^=]+)=|-\w(?=.))/.exec(typed) ?? [];
  if (attached !== '') {
    const option = findOption(known, command, flag || attached);
    if (option !== undefined && optionName(option.flags).takesValue)
      return withPrefix(attached, offerValue(ask, option, typed.slice(attached.length)));
  }
  if (typed.startsWith('-')) return { candidates: offerOptions(known, parsed, typed) };
  const words = parsed.args.length > 0 ? [] : offerCommands(known, parsed.typed, typed);
  const positional = command?.arguments ?? [];
  const last = positional.at(-1)?.usage.includes('...') === true ? positional.length - 1 : positional.length;
  const argument = positional[Math.min(parsed.args.length, last)];
  if (argument === undefined) return { candidates: words };
  const values = offerKinds(ask, path, argument.usage, typed, parsed.args);
  return { ...values, candidates: [...words, ...values.candidates] };
}

/** Plural nouns are offered to those who type them. */
function offerCommands(known: Vocabulary, before: readonly string[], typed: string): Candidate[] {
  const words = nextArgs(commandNames(known), before, typed);
  return words.length > 0 ? words : nextArgs(pluralNames(known), before, typed);
}

interface Ask {
  readonly known: Vocabulary;
  readonly recall: (name: MemoryName) => readonly Candidate[];
  readonly parsed: ParsedLine;
}

function parseLine(known: Vocabulary, words: readonly string[]): ParsedLine {
  const spellings = known.commands.flatMap((command) =>
    listSpellings(command, known).map((spelling) => ({ spelling, command })),
  );
  const typed: string[] = [];
  const args: string[] = [];
  const usedOptions = new Set<string>();
  let command: ParsedLine['command'];
  let pending: Option | undefined;
  for (const word of words) {
    if (pending !== undefined) {
      pending = undefined;
      continue;
    }
    if (word === '--')
      return { path: command?.path ?? '', command, typed, args, usedOptions, pending, isAfterDashes: true };
    if (word.startsWith('-') && word !== '-') {
      pending = readOptions(known, command, word, usedOptions);
      continue;
    }
    const next = [...typed, word];
    const fitting = args.length > 0 ? [] : spellings.filter(({ spelling }) => isBelow(spelling, next));
    if (fitting.length === 0) args.push(word);
    else {
      typed.push(word);
      command = fitting.find(({ spelling }) => spelling === next.join(' '))?.command;
    }
  }
  return { path: command?.path ?? '', command, typed, args, usedOptions, pending, isAfterDashes: false };
}

const isBelow = (spelling: string, words: readonly string[]): boolean =>
  `${spelling} `.startsWith(words.map((word) => `${word} `).join(''));

/**
 * Records the options in a word such as `--json`, `--topic=x` or `-qm`; returns the option whose value is the next
 * word, if one lacks its value.
 */
function readOptions(
  known: Vocabulary,
  command: ParsedLine['command'],
  word: string,
  usedOptions: Set<string>,
): Option | undefined {
  const note = (flag: string): Option | undefined => {
    const option = findOption(known, command, flag);
    if (option === undefined) return undefined;
    usedOptions.add(optionName(option.flags).long);
    return optionName(option.flags).takesValue ? option : undefined;
  };
  if (word.startsWith('--')) {
    const [flag = ''] = word.split('=', 1);
    const option = note(flag);
    return flag === word ? option : undefined;
  }
  for (const [at, letter] of [...word.slice(1)].entries()) {
    const option = note(`-${letter}`);
    if (option !== undefined) return at === word.length - 2 ? option : undefined;
  }
  return undefined;
}

const optionsAt = ({ everywhere }: Vocabulary, command: ParsedLine['command']): readonly Option[] =>
  [...(command?.options ?? []), ...everywhere].filter(({ isHidden }) => isHidden !== true);

function findOption(known: Vocabulary, command: ParsedLine['command'], flag: string): Option | undefined {
  return optionsAt(known, command).find(({ flags }) => {
    const { short, long } = optionName(flags);
    return flag === short || flag === `--${long}`;
  });
}

function offerOptions(known: Vocabulary, { command, usedOptions }: ParsedLine, typed: string): Candidate[] {
  const left = optionsAt(known, command).filter(
    ({ flags, isRepeatable }) => isRepeatable === true || !usedOptions.has(optionName(flags).long),
  );
  const long = left.map(({ flags, about }): Candidate => [`--${optionName(flags).long}`, about]);
  const short = left.flatMap(({ flags, about }): Candidate[] => {
    const { short: name } = optionName(flags);
    return name === undefined ? [] : [[name, about]];
  });
  return matching([...long, ...short], typed);
}

const matching = (candidates: readonly Candidate[], typed: string): Candidate[] =>
  candidates.filter(([value]) => value.startsWith(typed));

const withPrefix = (prefix: string, offer: Offer): Offer => ({
  ...offer,
  candidates: offer.candidates.map(([value, about]) => [prefix + value, about]),
});

const commandNames = ({ commands, nouns }: Vocabulary): Candidate[] => [
  ...nouns.map(({ noun, summary }): Candidate => [noun, summary]),
  ...commands.flatMap(({ path, aliases, summary }) =>
    [path, ...aliases].map((spelling): Candidate => [spelling, summary]),
  ),
];

const pluralNames = (known: Vocabulary): Candidate[] =>
  known.nouns.flatMap(({ noun, plural, summary }): Candidate[] =>
    plural === undefined
      ? []
      : [
          [plural, summary],
          ...known.commands
            .filter(({ path }) => path.startsWith(`${noun} `))
            .map(({ path, summary: about }): Candidate => [plural + path.slice(noun.length), about]),
        ],
  );

/**
 * The next words of the names that begin with the words so far; a word that is not the last of a name is described by
 * what follows it.
 */
function nextArgs(names: readonly Candidate[], before: readonly string[], typed: string): Candidate[] {
  const found = new Map<string, string>();
  const following = new Map<string, string[]>();
  for (const [name, about] of names) {
    if (!isBelow(name, before)) continue;
    const [word, ...more] = name.split(' ').slice(before.length);
    if (word === undefined || !word.startsWith(typed)) continue;
    if (more.length === 0) found.set(word, found.get(word) || about);
    else following.set(word, [...(following.get(word) ?? []), ...more.slice(0, 1)]);
  }
  for (const [word, more] of following) if (!found.has(word)) found.set(word, [...new Set(more)].join(', '));
  return [...found].sort(([one], [other]) => (one < other ? -1 : 1));
}

function offerValue(ask: Ask, option: Option, typed: string): Offer {
  if (option.choices !== undefined)
    return {
      candidates: matching(
        option.choices.map((choice) => [choice, '']),
        typed,
      ),
    };
  const [, placeholder = ''] = /(<[^>]+>)$/.exec(option.flags) ?? [];
  const isOwn = ask.parsed.command?.options.includes(option) === true;
  return offerKinds(ask, isOwn ? ask.parsed.path : '', placeholder, typed, []);
}

/** The kinds and the literal words of `<file|->`, `[handles...]`, `<dir|memory>`. */
export function readPlaceholder(path: string, usage: string): { name: string; kinds: Kind[]; literals: string[] } {
  const name = usage.replace(/^[<[]|(\.\.\.)?[>\]]$/g, '');
  const parts = name.split('|');
  const findKinds = (part: string): readonly Kind[] | undefined =>
    AT_COMMAND[`${path} <${part}>`] ?? PLACEHOLDERS[part];
  return {
    name: parts[0] ?? '',
    kinds: parts.flatMap((part) => findKinds(part) ?? []),
    literals: parts.filter((part) => findKinds(part) === undefined),
  };
}

function offerKinds(ask: Ask, path: string, usage: string, typed: string, usedOptions: readonly string[]): Offer {
  const { name, kinds, literals } = readPlaceholder(path, usage);
  const paths = kinds.includes('files') ? 'files' : kinds.includes('folders') ? 'folders' : undefined;
  // A shell offers files if it gets nothing else.
  const words = literals.filter((word) => (paths === undefined || typed !== '') && word.startsWith(typed));
  const comma = WITH_COMMAS.includes(name) ? typed.lastIndexOf(',') + 1 : 0;
  const listed = [...usedOptions.flatMap((each) => each.split(',')), ...typed.slice(0, comma).split(',')];
  const found = kinds.flatMap((kind) => listValues(ask, kind, typed.slice(comma)));
  const unique = new Map(found.toReversed());
  const values = [...new Set(found.map(([value]) => value))]
    .filter((value) => !listed.some((each) => each.replace(/^@/, '') === value.replace(/^@/, '')))
    .map((value): Candidate => [typed.slice(0, comma) + value, unique.get(value) ?? '']);
  const candidates = [...values, ...words.map((word): Candidate => [word, ''])];
  return { candidates, ...(paths !== undefined && { paths }) };
}

const HANDLES: readonly Kind[] = ['agents', 'blocked', 'entries', 'handles'];

function listValues({ known, recall, parsed }: Ask, kind: Kind, typed: string): Candidate[] {
  const { args, path } = parsed;
  switch (kind) {
    case 'files':
    case 'folders':
      return [];
    case 'commands':
      return nextArgs(commandNames(known), args, typed);
    case 'schemas':
    case 'topics':
      return nextArgs(known.lists[kind], args, typed);
    case 'fields':
      return matching(
        (known.fields[path] ?? []).map((field) => [field, '']),
        typed,
      );
    case 'settingValues':
      return offerSetting(known, recall, args[0] ?? '', typed);
    case 'keys':
      return matching(settingKeys(known, recall), typed);
    case 'conditions': {
      const [condition = '', handle] = typed.split(':');
      if (handle === undefined || !['joined', 'left'].includes(condition)) break;
      return asTyped(recall('handles'), handle).map(([value, about]) => [`${condition}:${value}`, about]);
    }
  }
  if (HANDLES.includes(kind)) return asTyped(recall(kind as MemoryName), typed);
  return matching(kind in known.lists ? known.lists[kind as ListName] : recall(kind as MemoryName), typed);
}

/** A handle is offered with its @ if the user typed it: some shells treat a bare @ specially. */
function asTyped(handles: readonly Candidate[], typed: string): Candidate[] {
  const spelled = handles.map(
    ([handle, about]): Candidate => [typed.startsWith('@') ? handle : handle.slice(1), about],
  );
  return matching(spelled, typed);
}

/** The settings, including those of the existing profiles. */
function settingKeys({ lists }: Vocabulary, recall: Ask['recall']): Candidate[] {
  const profiles = recall('profiles').filter(([name]) => name !== 'local');
  return lists.keys.flatMap(([key, about]) =>
    key.includes('<name>')
      ? profiles.map(([name]): Candidate => [key.replace('<name>', name), about])
      : [[key, about] as const],
  );
}

function offerSetting({ settings }: Vocabulary, recall: Ask['recall'], key: string, typed: string): Candidate[] {
  if (key === 'default_profile') return matching(recall('profiles'), typed);
  if (key === 'local_agent' || key.endsWith('.agent'))
    return asTyped([...recall('agents'), ...recall('handles')], typed);
  return matching(settings[key] ?? [], typed);
}
