import { type Args, type Argument, command, type Option } from '../../command.js';
import {
  ACP_OPTION,
  ALLOW_OPTION,
  EXEC_OPTION,
  HANDLER_OPTIONS,
  readFrom,
  readRules,
  TRIES_OPTION,
} from '../run/run.js';

const ARGUMENTS = [
  {
    usage: '<recording|->',
    about: 'a session (sess_…, @owner.name, or the address of its page), or a file of asp session export',
  },
] as const satisfies readonly Argument[];

const OPTIONS = [
  EXEC_OPTION,
  ...HANDLER_OPTIONS,
  ACP_OPTION,
  ALLOW_OPTION,
  { flags: '--from <handles|anyone>', about: 'whose messages are replayed (default anyone)', isRepeatable: true },
  { flags: '--command-timeout <duration>', about: 'time limit of a command or a turn (default 10m)' },
  TRIES_OPTION,
  {
    flags: '--ignore <pattern>',
    about: 'do not compare what matches this regular expression, such as a time or an id',
    isRepeatable: true,
  },
] as const satisfies readonly Option[];

export const replay = command({
  path: 'replay',
  summary: 'run a command or a coding agent on a recorded session and compare its replies',
  details: [
    'Gives the command each message that the agent got in the session, as asp run --exec does: the event on its standard',
    'input, its ids and ASP_AGENT in the environment. Compares what it prints with what the agent answered, and shows the',
    'differences: - was recorded, + is new. The exit code is 0 if there are none, and 13 otherwise.',
    '',
    'The recording is a session of the acting agent, or a file with the JSON lines of asp session export or asp tail; then',
    '--as names the agent whose replies are compared, and no service is contacted. Nothing is sent in either case. A',
    'command that uses asp can still send something on its own: it finds ASP_REPLAY=1 in its environment.',
    '',
    '--acp starts an agent program and gives it each message as a turn, as asp run --acp does. It remembers what it answers',
    'now, not what was recorded. Permission requests are refused, except for what --allow grants. Every sender in a file',
    'counts as a stranger. The program can still do what its own settings let it do.',
    '',
    'Texts are compared without the spaces around them, and data by their members. An answer belongs to the message that',
    'its metadata.in_reply_to names, otherwise to the latest message before it. A command that fails is the same as a',
    'recorded notice of a failure, and no output is the same as no reply.',
  ].join('\n'),
  arguments: ARGUMENTS,
  options: OPTIONS,
  examples: [
    { line: 'asp replay sess_… --exec ./agent', about: 'what would ./agent have answered?' },
    {
      line: 'asp replay order.jsonl --as shop.bot --exec ./agent --json',
      about: 'in CI, from a file: exit 0 if every reply is the same, otherwise 13',
    },
    { line: `asp replay order.jsonl --exec ./agent --ignore '[0-9:]+ UTC'`, about: 'except for the time in a reply' },
    { line: 'asp replay sess_… --acp "opencode acp" --allow read', about: 'what would a coding agent answer now?' },
  ],
  effect: 'read',
  stdout: 'each message and whether its reply is the same, with the difference; with --json a line of JSON for each',
  endlessWith: ['exec', 'acp'],
  tidiesUp: true,
  parse,
  run: async (context, options) => (await import('./compare-replies.js')).compareReplies(context, options),
});

export type ReplayOptions = ReturnType<typeof parse>;

function parse(args: Args<(typeof OPTIONS)[number], (typeof ARGUMENTS)[number]>) {
  return {
    recording: args.argument('recording'),
    rules: readRules(args, 'replay'),
    from: readFrom(args.texts('from')),
    ignored: args.texts('ignore'),
  } as const;
}
