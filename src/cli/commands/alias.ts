import { quoteArgs } from '../../kit/format.js';
import { findCommand, type Request } from '../argv.js';
import { type Argument, command, describeTable } from '../command.js';
import type { Context } from '../context/context.js';
import { notFound } from '../context/explain.js';
import { usageError } from '../errors.js';
import { ALIAS_NAME, type Config, readConfig } from '../profile/config.js';
import { type Host, resolvePaths } from '../profile/paths.js';

const NAME = { usage: '<name>', about: 'lowercase letters, digits and hyphens' } as const satisfies Argument;

/** The alias as it is shown. */
const toView = (name: string, words: readonly string[]) => ({ name, words: [...words] });

/**
 * The arguments with the alias replaced by its words; undefined if the command is not an alias. Built-in commands come
 * first, and the words of an alias are not expanded again, so no alias can refer to itself.
 */
export async function expandAlias(
  { typed, unknownWord: name, unknownAt }: Request,
  argv: readonly string[],
  host: Host,
): Promise<readonly string[] | undefined> {
  if (name === undefined || typed.length > 0 || !ALIAS_NAME.test(name)) return undefined;
  const words = findAlias(await readConfig(resolvePaths(host).configFile), name);
  return words === undefined ? undefined : [...argv.slice(0, unknownAt), ...words, ...argv.slice(unknownAt + 1)];
}

/** Only an own member: every object has a `constructor`. */
function findAlias({ aliases }: Config, name: string): readonly string[] | undefined {
  return Object.hasOwn(aliases, name) ? aliases[name] : undefined;
}

/** Refuses a name that asp uses itself, and words that do not form a command of asp. */
async function checkAlias({ program, config }: Context, name: string, words: readonly string[]): Promise<void> {
  if (!ALIAS_NAME.test(name))
    throw usageError(`'${name}' is not a valid alias.`, {
      why: 'an alias has 1 to 50 lowercase letters, digits and hyphens, and begins with a letter.',
    });
  const taken = await findCommand(program, [name]);
  if (taken.unknownWord === undefined)
    throw usageError(`'${name}' is a command of asp, and those come first.`, { why: 'choose another name.' });
  const { typed, unknownWord } = await findCommand(program, words);
  if (typed.length > 0 && unknownWord === undefined) return;
  const [only = '', ...others] = words;
  const isQuoted = others.length === 0 && only.includes(' ');
  const parts = isQuoted ? splitArgs(only) : undefined;
  const other = findAlias(await config(), only);
  if (other !== undefined)
    throw usageError(`'${only}' is an alias, and an alias cannot begin with another one.`, {
      next: ['asp', 'alias', 'set', name, '--', ...other, ...others],
    });
  throw usageError(`asp ${quoteArgs(words)} is not a command.`, {
    why: isQuoted ? 'pass its arguments one by one, after --.' : undefined,
    next:
      parts !== undefined ? ['asp', 'alias', 'set', name, '--', ...parts] : isQuoted ? undefined : ['asp', 'commands'],
  });
}

/** The words that a POSIX shell makes of a text, without expansions; undefined if a quote is not closed. */
function splitArgs(text: string): string[] | undefined {
  const words: string[] = [];
  let word: string | undefined;
  for (const [part] of text.matchAll(PART)) {
    if (/^["']$|^\\$/.test(part)) return undefined;
    if (/^\s/.test(part)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else word = (word ?? '') + withoutQuotes(part);
  }
  return word === undefined ? words : [...words, word];
}

/** Spaces, a quoted part, an escaped character, or a run of others; a character alone is what nothing closes. */
const PART = /\s+|'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"\\]+|./gs;

function withoutQuotes(part: string): string {
  if (part.startsWith("'")) return part.slice(1, -1);
  // Within double quotes, a backslash escapes only these characters.
  if (part.startsWith('"')) return part.slice(1, -1).replace(/\\([$`"\\])/g, '$1');
  return part.startsWith('\\') ? part.slice(1) : part;
}

export const aliasSet = command({
  path: 'alias set',
  summary: 'create a shortcut for a command',
  details:
    'Put -- before the command. Arguments after the alias are added to its end, and options can come before the alias. ' +
    'Built-in commands come first, and an alias comes before a program asp-<name> on your PATH.',
  arguments: [NAME, { usage: '<words...>', about: 'an asp command with its arguments and options' }],
  examples: [
    { line: 'asp alias set new -- session list --state invited', about: 'then: asp new --json' },
    { line: "asp alias set up -- send @ops.bot 'Is it up?' --wait", about: 'a question that you ask every day' },
  ],
  effect: 'local',
  stdout: 'the name',
  parse: (args) => ({ name: args.argument('name'), words: args.argument('words') }),
  async run(context, { name, words }) {
    await checkAlias(context, name, words);
    const { before: old } = await context.changeConfig((config) => ({
      ...config,
      aliases: { ...config.aliases, [name]: words },
    }));
    const before = findAlias(old, name);
    if (before !== undefined && quoteArgs(before) !== quoteArgs(words))
      await context.output.note(`It was: asp ${quoteArgs(before)}`);
    await context.output.document(toView(name, words), (safe) => safe.name);
  },
});

export const aliasList = command({
  path: 'alias list',
  summary: 'list your aliases',
  examples: [
    { line: 'asp alias list', about: 'each alias with its command' },
    { line: 'asp alias list --json', about: 'each command as a list of arguments' },
  ],
  effect: 'none',
  stdout: describeTable('name, command'),
  async run({ config, output }) {
    const items = Object.entries((await config()).aliases).map(([name, words]) => toView(name, words));
    await output.list({ items, next_cursor: null }, [
      { title: 'name', value: ({ name }) => name },
      { title: 'command', value: ({ words }) => quoteArgs(words), isFlexible: true },
    ]);
    if (items.length === 0) await output.note('No aliases. To add one: asp alias set <name> -- <command>');
  },
});

export const aliasRemove = command({
  path: 'alias remove',
  summary: 'remove an alias',
  arguments: [NAME],
  examples: [
    { line: 'asp alias remove up', about: 'asp up is no longer a command' },
    { line: 'asp alias remove up --json', about: 'also its former command' },
  ],
  effect: 'local',
  stdout: 'the name',
  parse: (args) => ({ name: args.argument('name') }),
  async run(context, { name }) {
    const next = ['asp', 'alias', 'list'];
    const { before } = await context.changeConfig(async (config) => {
      if (findAlias(config, name) === undefined)
        throw await notFound(`There is no alias '${name}'.`, 'it is not in the settings file.', next);
      const { [name]: _, ...aliases } = config.aliases;
      return { ...config, aliases };
    });
    const words = findAlias(before, name) ?? [];
    await context.output.document({ ...toView(name, words), removed: true }, (safe) => safe.name);
  },
});
