import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { isObject, parseIfJson } from '../../../kit/parse-json.js';
import { readSmallFile, recall } from '../../context/completion-memory.js';
import { ALIAS_NAME, isStrings, LOCAL, PROFILE_NAME } from '../../profile/config.js';
import { type Host, type Paths, resolvePaths } from '../../profile/paths.js';
import { findExtension, listExtensions } from '../../terminal/extension.js';
import { parseHandle } from '../../values.js';
import { type Candidate, type MemoryName, offerCandidates, type Vocabulary } from './candidates.js';

/**
 * Answers `asp __complete <shell> [more] -- <words…>`, the request of the scripts in completions/: one line per
 * candidate, with a tab before its description, and a last line `:files`, `:folders` or `:` that says what else the
 * shell may offer. It contacts no service and writes nothing, so that a tab never waits and never signs anyone out.
 *
 * bash and fish pass the line up to the cursor; for bash, `more` is its word-break characters. zsh and PowerShell pass
 * the words of the line, the last one up to the cursor; for PowerShell, `more` is the number of words before it,
 * because some versions drop an empty word.
 */
export function complete(args: readonly string[], known: Vocabulary, at: Host): string {
  const [shell = '', ...rest] = args;
  const more = rest[0] === '--' ? undefined : rest.shift();
  const words = rest[0] === '--' ? rest.slice(1) : rest;
  const line = shell === 'bash' || shell === 'fish' ? readLine(shell, words[0] ?? '', more ?? '') : undefined;
  if (line?.isPath === true) return ':files\n';
  const count = shell === 'powershell' ? Number(more) : words.length - 1;
  const [shown, typed] = line === undefined ? [words.slice(0, count), words[count] ?? ''] : [line.before, line.typed];
  const place = { environment: at.environment, platform: at.machine.platform };
  const places = resolvePaths(at);
  const aliases = readAliases(places.configFile).filter(([name]) => !isCommand(known, name));
  const before = aliases.find(([name]) => name === shown[0])?.[1].concat(shown.slice(1)) ?? shown;
  const [first] = before;
  const { candidates, paths } =
    first !== undefined && findExtension(first, place) !== undefined && !isCommand(known, first)
      ? { candidates: [], paths: 'files' as const }
      : offerCandidates(known, (name) => readMemory(places, name), before, typed);
  const isName = first === undefined && !typed.startsWith('-');
  const ownNames = isName
    ? [
        ...aliases.map(([name, own]): Candidate => [name, `asp ${own.join(' ')}`]),
        ...listExtensions(place).flatMap((name): Candidate[] =>
          isCommand(known, name) || aliases.some(([alias]) => alias === name)
            ? []
            : [[name, `the program asp-${name}`]],
        ),
      ]
    : [];
  const offered = [...candidates, ...ownNames.filter(([name]) => name.startsWith(typed))];
  const lines = offered.map(([value, about]) => `${line?.spell(value) ?? value}\t${about}\n`);
  return `${lines.join('')}:${paths ?? ''}\n`;
}

/** Whether a word begins a command of asp itself. */
const isCommand = ({ commands }: Vocabulary, word: string): boolean =>
  commands.some(({ path, aliases }) => [path, ...aliases].some((spelling) => spelling.split(' ', 1)[0] === word));

function readMemory({ configFile, stateDirectory }: Paths, name: MemoryName): readonly Candidate[] {
  if (name === 'profiles') return readProfiles(configFile);
  if (name === 'aliases') return readAliases(configFile).map(([alias, words]): Candidate => [alias, words.join(' ')]);
  const logins = name === 'agents' || name === 'handles' ? readLogins(stateDirectory) : [];
  if (name === 'agents') return logins;
  const kinds = name === 'handles' ? (['handles', 'entries'] as const) : [name];
  const remembered = kinds.flatMap((kind) => recall(stateDirectory, kind));
  const isWanted = (text: string): boolean => name !== 'handles' || parseHandle(text) !== undefined;
  return [
    ...remembered.flatMap(({ name: each, about }): Candidate[] => (isWanted(each) ? [[each, about ?? '']] : [])),
    ...logins,
  ];
}

/** The members of a JSON file; none if it cannot be read. */
const readMembers = (path: string): Readonly<Record<string, unknown>> => membersOf(parseIfJson(readSmallFile(path)));

const membersOf = (value: unknown): Readonly<Record<string, unknown>> => (isObject(value) ? value : {});

function readAliases(configFile: string | undefined): [name: string, words: string[]][] {
  const { aliases } = configFile === undefined ? {} : readMembers(configFile);
  return Object.entries(membersOf(aliases)).filter(
    (entry): entry is [string, string[]] => ALIAS_NAME.test(entry[0]) && isStrings(entry[1]),
  );
}

function readProfiles(configFile: string | undefined): Candidate[] {
  const { profiles } = configFile === undefined ? {} : readMembers(configFile);
  return [
    ...Object.entries(membersOf(profiles)).flatMap(([name, entry]): Candidate[] =>
      PROFILE_NAME.test(name) ? [[name, textIn(entry, 'base_url')]] : [],
    ),
    [LOCAL, 'the service on this machine'],
  ];
}

function textIn(value: unknown, member: string): string {
  const text = membersOf(value)[member];
  return typeof text === 'string' ? text : '';
}

const LOGINS_MAX = 200;

/** The signed-in agents, from the list of logins, which contains no secrets. */
function readLogins(stateDirectory: string | undefined): Candidate[] {
  if (stateDirectory === undefined) return [];
  const folder = join(stateDirectory, 'logins');
  try {
    const files = readdirSync(folder).filter((file) => file.endsWith('.json'));
    return files.slice(0, LOGINS_MAX).flatMap((file): Candidate[] => {
      const login = readMembers(join(folder, file));
      const handle = textIn(login, 'handle');
      return parseHandle(handle) === handle ? [[handle, `signed in at ${textIn(login, 'baseUrl')}`]] : [];
    });
  } catch {
    return [];
  }
}

/** A line of bash or fish up to the cursor. */
interface Line {
  /** The words between the program and the cursor, without their quotes. */
  readonly before: readonly string[];
  /** The word at the cursor up to the cursor, without its quotes. */
  readonly typed: string;
  /** A file name is expected, regardless of the program: the word follows `>` or `<`. */
  readonly isPath: boolean;
  /** A value for that word in the form that the shell expects. */
  spell(value: string): string;
}

interface Word {
  text: string;
  /** Where bash begins to replace: after the last word-break character, or the open quote. */
  from: number;
  /** The quote that is still open. */
  quote: string;
  isRedirection: boolean;
}

const PLAIN = /[^\w@%+=:,./-]/g;
const SPECIAL: Readonly<Record<string, RegExp>> = { '"': /["$`\\]/g, "'": /[']/g };

/** Splits a line like the shell. Parts that only the shell can evaluate (`$variables`, `$(commands)`) stay as typed. */
export function readLine(shell: 'bash' | 'fish', line: string, breaks: string): Line {
  const args: Word[] = [];
  let word: Word | undefined;
  const begin = (isRedirection = false): Word => {
    const begun = { text: '', from: 0, quote: '', isRedirection };
    args.push(begun);
    return begun;
  };
  for (let at = 0; at < line.length; at += 1) {
    const character = line.charAt(at);
    const quote = word?.quote ?? '';
    const next = line.charAt(at + 1);
    if (quote === '' && /\s/.test(character)) word = undefined;
    else if (quote === '' && /[<>]/.test(character)) {
      if (word === undefined || (!word.isRedirection && !/^\d+$|^&$/.test(word.text))) word = begin(true);
      word.isRedirection = true;
      if (!/[<>&]/.test(next)) word = undefined;
    } else {
      word ??= begin();
      const escapes =
        quote === '' || (quote === '"' && /["$`\\]/.test(next)) || (shell === 'fish' && /['\\]/.test(next));
      if (character === '\\' && escapes && next !== '') {
        word.text += next;
        at += 1;
      } else if (character === quote) word.quote = '';
      else if (quote === '' && (character === '"' || character === "'")) {
        word.quote = character;
        word.from = word.text.length;
      } else {
        // bash keeps an @ with the word that it begins (rl_special_prefixes).
        if (quote === '' && character === '@' && breaks.includes('@')) word.from = word.text.length;
        word.text += character;
        if (quote === '' && character !== '@' && breaks.includes(character)) word.from = word.text.length;
      }
    }
  }
  const current = word ?? { text: '', from: 0, quote: '' };
  const earlier = word === undefined ? args : args.slice(0, -1);
  const plain = earlier.filter(({ isRedirection }, at) => !isRedirection && earlier[at - 1]?.isRedirection !== true);
  const named = plain.findIndex(({ text }) => /(^|\/)asp(\.js)?$/.test(text));
  const special = SPECIAL[current.quote] ?? PLAIN;
  return {
    before: plain.slice(Math.max(named, 0) + 1).map(({ text }) => text),
    typed: current.text,
    isPath: earlier.at(-1)?.isRedirection === true,
    // fish writes the quotes itself.
    spell: (value) => (shell === 'fish' ? value : value.slice(current.from).replace(special, '\\$&')),
  };
}
