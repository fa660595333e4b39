import { type Args, command, type Option } from '../../command.js';
import { UsageError } from '../../errors.js';
import { readHandles, readTime } from '../../values.js';

const OPTIONS = [
  { flags: '--exec <command>', about: 'the command, as the shell reads it' },
  {
    flags: '--from <handles|anyone>',
    about: 'who may invite and is answered (default: agents of the same owner, and the allowlist)',
    isRepeatable: true,
  },
  { flags: '--no-join', about: 'do not join sessions' },
  { flags: '--end', about: 'end the session after the reply' },
  { flags: '-c, --count <count>', about: 'exit after N messages' },
  { flags: '--concurrency <count>', about: 'serve so many sessions at a time (4)' },
  { flags: '--command-timeout <duration>', about: 'what the command may take before it has failed (10m)' },
  { flags: '--grace <duration>', about: 'how long running commands may take to finish after Ctrl-C (default 10s)' },
  { flags: '--tries <count>', about: 'run a command that fails up to N times (default 1)' },
  {
    flags: '--on-failure <reply|skip|stop>',
    about: 'after a failed command: tell the sender, say nothing, or exit and leave the message (default reply)',
    choices: ['reply', 'skip', 'stop'],
  },
  {
    flags: '--since <time>',
    about: 'without saved progress: answer what has no reply since then, RFC 3339 or 2h (ago) (default now)',
  },
  { flags: '--cursor-file <path>', about: 'keep how far it got here, not in the state directory' },
  { flags: '--ready-file <path>', about: 'a file that exists while the agent answers' },
] as const satisfies readonly Option[];

export const run = command({
  path: 'run',
  summary: 'make an agent of a command: it answers what others send',
  details: [
    'Joins the sessions the agent is invited to, and runs a command on this machine for each message. Only agents of the',
    'same owner and those on the allowlist of the agent are answered, even if its policy is open, so that no stranger',
    'can run the command. --from names others, or anyone.',
    '',
    'The command gets the event as JSON on its standard input, its ids in ASP_EVENT_ID, ASP_SESSION_ID, ASP_SEQUENCE and',
    'ASP_ACTOR, and the number of the try in ASP_TRY. ASP_AGENT and ASP_PROFILE are set too, so that asp in the command',
    'acts as the same agent at the same service. Secrets are not handed over: for asp in the command, keep the client',
    'secret in a file (ASP_CLIENT_SECRET_FILE).',
    '',
    'The reply is what the command prints; if it prints nothing, there is none. If it fails, the sender gets a short',
    'notice (metadata.failed), which no asp run answers. If it cannot be run at all (exit 126 or 127), the run ends, and',
    'the next one takes the message.',
    '',
    'Messages of one session are answered in order. What arrives while nothing runs is answered by the next run. A',
    'message is replied to once, whatever breaks; its command may run again when the one before was cut off. One line of',
    'JSON tells of each message. Ctrl-C lets running commands finish. Two agents that answer',
    'everything answer each other for ever: print nothing when there is nothing to say.',
    '',
    'One run at a time answers as an agent: a second one ends with exit 6, unless --cursor-file gives it a place of its',
    'own, as for commands that answer different agents (--from).',
  ].join('\n'),
  options: OPTIONS,
  examples: [
    { line: 'asp run --exec "jq -r .payload.content"', about: 'an agent that says what it is told' },
    { line: 'asp run --exec ./answer.sh --from alice.bot --end', about: 'one answer for her, then the end' },
    { line: 'asp run --exec ./answer.py --tries 3 --command-timeout 2m', about: 'again when it fails' },
  ],
  effect: 'write',
  stdout: 'a line of JSON for each message: what became of it',
  makesOwnKeys: true,
  isEndless: true,
  finishesOnSignal: true,
  parse,
  run: async (context, options) => (await import('./serve-agent.js')).serveAgent(context, options),
});

const CONCURRENCY_DEFAULT = 4;
const CONCURRENCY_MAX = 256;
const COMMAND_TIMEOUT_DEFAULT_MS = 10 * 60_000;
const GRACE_DEFAULT_MS = 10_000;
const TRIES_MAX = 20;

/** Empty: agents of the same owner, and the allowlist. */
function readFrom(texts: readonly string[]): readonly string[] | 'anyone' {
  return texts.includes('anyone') ? 'anyone' : readHandles(texts);
}

export type RunOptions = ReturnType<typeof parse>;

function parse(args: Args<(typeof OPTIONS)[number]>, nowMs: number) {
  const command = args.text('exec') ?? '';
  if (command.trim() === '')
    throw new UsageError('There is no command to run.', {
      why: 'it is given with --exec.',
      next: ['asp', 'run', '--help'],
    });
  const since = args.text('since');
  return {
    sinceMs: since === undefined ? undefined : readTime('--since', since, nowMs),
    rules: {
      command,
      tries: args.count('tries', { min: 1, max: TRIES_MAX }) ?? 1,
      timeoutMs: args.duration('command-timeout') ?? COMMAND_TIMEOUT_DEFAULT_MS,
    },
    from: readFrom(args.texts('from')),
    joins: !args.flag('no-join'),
    ends: args.flag('end'),
    onFailure: args.text('on-failure') ?? 'reply',
    count: args.count('count', { min: 1 }),
    graceMs: args.duration('grace') ?? GRACE_DEFAULT_MS,
    readyFile: args.text('ready-file'),
    concurrency: args.count('concurrency', { min: 1, max: CONCURRENCY_MAX }) ?? CONCURRENCY_DEFAULT,
    cursorFile: args.text('cursor-file'),
  };
}
