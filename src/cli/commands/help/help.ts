import { suggest } from '../../../kit/suggest.js';
import { findCommand } from '../../argv.js';
import {
  type CommandEntry,
  command,
  describeTable,
  type ListedCommand,
  loadCommands,
  loadListed,
  type Option,
  optionName,
} from '../../command.js';
import { usageError } from '../../errors.js';
import { GLOBAL_OPTIONS } from '../../options.js';

/** Documents do not depend on a terminal. */
const DOCUMENT_WIDTH = 80;

export const help = command({
  path: 'help',
  summary: 'show help for a command or a topic',
  arguments: [
    {
      usage: '[topic...]',
      about: 'a command, or: auth environment config json exit-codes scripting tail testing extensions agents',
    },
  ],
  examples: [
    { line: 'asp help exit-codes', about: 'what each exit code means' },
    { line: 'asp help send', about: 'the same as asp send --help' },
  ],
  effect: 'none',
  stdout: 'the page',
  parse: (args) => ({ topic: args.argument('topic') }),
  async run({ program: words, output, streams, version }, { topic }) {
    const [program, { TOPICS }, { PLAIN }, pages, { textWidth, wrapPage }] = await Promise.all([
      loadCommands(words),
      import('./topics.js'),
      import('../../terminal/style.js'),
      import('../../help.js'),
      import('../../../kit/wrap.js'),
    ]);
    const width = output.format === 'human' ? textWidth(streams.stdout) : DOCUMENT_WIDTH;
    const style = output.format === 'human' ? await output.style() : PLAIN;
    const show = (text: string): Promise<void> =>
      output.format === 'human' ? output.verbatim(text) : output.document({ topic: topic.join(' '), text }, () => text);
    const [first] = topic;
    if (first === undefined) return show(pages.overview(program, version, style, width));
    const text = topic.length === 1 && Object.hasOwn(TOPICS, first) ? TOPICS[first] : undefined;
    const { command: found, path, unknownWord } = await findCommand(words, topic);
    const shown = [
      ...(found === undefined
        ? []
        : [pages.commandHelp(found, style, width) + pages.commandsBelow(program, path.join(' '), style, width)]),
      ...(found === undefined &&
      unknownWord === undefined &&
      path[0] !== undefined &&
      (text === undefined || path[0] === first)
        ? [pages.nounHelp(program, path[0], style, width)]
        : []),
      ...(text === undefined ? [] : [wrapPage(text, width)]),
    ];
    if (shown.length > 0) return show(shown.join('\n'));
    const typed = topic.join(' ');
    const spellings = program.commands.flatMap((each) => [each.path, ...each.aliases]);
    const [near] = suggest(typed, [...Object.keys(TOPICS), ...spellings]);
    throw usageError(`'${typed}' is not a command or a topic.`, {
      why: `topics: ${Object.keys(TOPICS).join(' ')}.`,
      next: near === undefined ? ['asp', 'help'] : ['asp', 'help', ...near.split(' ')],
    });
  },
});

export const version = command({
  path: 'version',
  summary: 'show the version of asp',
  details: [
    'With --check, asks the npm registry (npm_config_registry, if set) once for the latest version, for at most 5 seconds;',
    'exit 9 if it does not answer. asp never checks for updates otherwise.',
  ].join('\n'),
  options: [{ flags: '--check', about: 'ask the npm registry for the latest version, and print it' }],
  examples: [
    { line: 'asp version', about: 'only the version' },
    { line: 'asp version --json', about: 'also the versions of Node.js and the platform' },
    { line: 'asp version --check', about: 'whether there is a newer version, and how to get it' },
  ],
  effect: 'none',
  stdout: 'the version; with --check the latest one',
  parse: (args) => ({ isCheck: args.flag('check') }),
  async run(context, { isCheck }) {
    const { version: own, output, machine } = context;
    const installed = { version: own, node: machine.nodeVersion, platform: machine.platform, arch: machine.arch };
    if (!isCheck) return output.document(installed, (safe) => safe.version);
    const { askNewest } = await import('./newest-version.js');
    const { newest, registry, isNewer } = await askNewest(context);
    const update = isNewer ? ['npm', 'install', '-g', `asp-cli@${newest}`] : null;
    await output.document({ ...installed, newest, up_to_date: !isNewer, update, registry }, (safe) => safe.newest);
    await output.note(
      update === null ? `This is asp ${own}, the latest version.` : `This is asp ${own}. ${update.join(' ')}`,
    );
  },
});

export const commands = command({
  path: 'commands',
  summary: 'list every command with its arguments, its options and what it changes',
  arguments: [{ usage: '[command...]', about: 'only this command and those below it: send, session, serve agent' }],
  examples: [
    { line: 'asp commands', about: 'a table' },
    { line: 'asp commands session --json', about: 'everything about the session commands' },
    {
      line: 'asp commands --json | jq \'.items[] | select(.effect=="destructive") | .words\'',
      about: 'the commands that delete something or end it for others',
    },
  ],
  details: 'With --json, global_options lists what every command has in addition to its own options.',
  effect: 'none',
  stdout: describeTable('command, effect, summary'),
  parse: (args) => ({ typed: args.argument('command') }),
  async run({ program, output }, { typed }) {
    const { path } = await findCommand(program, typed);
    const below = program.entries.filter((each) => isBelow(each, path));
    const items = (await Promise.all(below.map(loadListed))).map(describeCommand);
    if (items.length === 0 || path.length < typed.length)
      throw usageError(`'${typed.join(' ')}' is not a command of asp.`, { next: ['asp', 'commands'] });
    // Once for all commands: repeated in each, they were nine tenths of the document.
    const page = { items, global_options: describeOptions(GLOBAL_OPTIONS), next_cursor: null };
    await output.list(page, [
      { title: 'command', value: ({ words }) => words.join(' ') },
      {
        title: 'effect',
        value: ({ effect }) => effect,
        isFlexible: 'last',
        paint: (text, _, style) => style.dim(text),
      },
      { title: 'summary', value: ({ summary }) => summary, isFlexible: 'wrap', isOptional: 'below' },
    ]);
  },
});

const isBelow = ({ path }: CommandEntry, words: readonly string[]): boolean =>
  words.every((word, index) => path.split(' ')[index] === word);

const describeCommand = (each: ListedCommand) => ({
  words: each.path.split(' '),
  aliases: each.aliases.map((alias) => alias.split(' ')),
  summary: each.summary,
  effect: each.isDestructive ? 'destructive' : each.effect,
  endless: each.isEndless,
  stdout: each.stdout,
  arguments: each.arguments.map(({ usage, about }) => ({
    name: usage.replace(/[<>[\].]/g, ''),
    required: usage.startsWith('<'),
    repeatable: usage.includes('...'),
    about,
  })),
  options: describeOptions(each.options),
  examples: each.examples,
});

const describeOptions = (options: readonly Option[]) =>
  options.flatMap((option) => (option.isHidden === true ? [] : [describeOption(option)]));

function describeOption({ flags, about, isRepeatable, choices, environment }: Option) {
  const { short, long, takesValue } = optionName(flags);
  return {
    name: `--${long}`,
    short: short ?? null,
    value: takesValue ? (/<([^>]+)>$/.exec(flags)?.[1] ?? null) : null,
    repeatable: isRepeatable === true,
    choices: choices ?? null,
    environment: environment ?? null,
    about,
  };
}

export const explain = command({
  path: 'explain',
  summary: 'explain an error code',
  arguments: [{ usage: '<code>', about: 'NOT_FOUND, ASP_TIMEOUT, invalid_client' }],
  examples: [
    { line: 'asp explain NOT_FOUND', about: 'why the service does not say more' },
    { line: 'asp explain ASP_UNREACHABLE --json', about: 'with its exit code, for a script' },
  ],
  effect: 'none',
  stdout: 'the exit code, the meaning of the error and what helps',
  parse: async (args) => ({ code: (await import('./explain.js')).readCode(args.argument('code')) }),
  run: async (context, { code }) => (await import('./explain.js')).printMeaning(context, code),
});

export const schema = command({
  path: 'schema',
  summary: "print the JSON Schema of a command's output, an event or an object",
  details: 'Without a name, lists the names. Later versions add fields but never remove them.',
  arguments: [{ usage: '[name...]', about: 'a name: send, session list, session.message, event, error' }],
  examples: [
    { line: 'asp schema session.message', about: 'an event' },
    { line: 'asp schema session list > session-list.schema.json', about: 'the output of a command with --json' },
  ],
  effect: 'none',
  stdout: 'the JSON Schema; without a name, a table of names',
  parse(args) {
    const names = args.argument('name');
    return { name: names.length === 0 ? undefined : names.join(' ') };
  },
  run: async (context, { name }) => (await import('../schema/schemas.js')).printSchema(context, name),
});
