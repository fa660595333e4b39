import type { Relation } from '../../../wire/relation.js';
import { HOPS_DEFAULT, MODEL_MESSAGES_PER_HOUR, REPLIES_DEFAULT } from '../../../wire/reply-limit.js';
import { type Args, command, type Option } from '../../command.js';
import { usageError } from '../../errors.js';
import { readHandle, readHandles } from '../../values.js';

/** How much an agent may do before a person has to take a look; shared with `asp mcp`. */
export const LIMIT_OPTIONS = [
  {
    flags: '--max-replies <count>',
    about: 'stop answering in a session after N replies without a message from --human (default 20, 0: no limit)',
  },
  { flags: '--human <handles>', about: 'agents that people use to write messages', isRepeatable: true },
  {
    flags: '--max-replies-per-hour <count>',
    about: 'stop answering after N replies within an hour (0: no limit; default 0, but 200 with --acp and in asp mcp)',
  },
  {
    flags: '--max-hops <count>',
    about: 'do not answer after a chain of N automatic replies (default 50, 0: no limit)',
  },
] as const satisfies readonly Option[];

/** `perHour` is the default. */
export function readLimits(args: Args<(typeof LIMIT_OPTIONS)[number]>, perHour = 0) {
  return {
    replies: args.count('max-replies', { min: 0 }) ?? REPLIES_DEFAULT,
    repliesPerHour: args.count('max-replies-per-hour', { min: 0 }) ?? perHour,
    hops: args.count('max-hops', { min: 0 }) ?? HOPS_DEFAULT,
    humans: readHandles(args.texts('human')),
  };
}

/** The kinds of tool calls that the Agent Client Protocol knows. */
export const KINDS = ['read', 'edit', 'delete', 'move', 'search', 'execute', 'think', 'fetch', 'other'];

/** The rights of a message at a command: to start it, and to get its output as the reply. */
const RIGHTS = ['run', 'reply'];

/** Whose messages a permission is for, and the relations that this means. */
const WHOSE: ReadonlyMap<string, readonly Relation[]> = new Map([
  ['same-owner', ['same owner']],
  ['allowlisted', ['on your allowlist']],
  ['anyone', ['same owner', 'on your allowlist', 'anyone']],
]);

/** The kinds of permission, or the rights, that a message gets, by its sender's relation. */
export type Allowed = ReadonlyMap<Relation, ReadonlySet<string>>;

/** `read,search` is for everyone who is answered, `same-owner=edit` only for some; all of them add up. */
function readAllowed(texts: readonly string[], protocol: '--acp' | '--exec'): Allowed {
  const [known, noun] = protocol === '--acp' ? [KINDS, 'kind of permission'] : [RIGHTS, 'right'];
  const allowed = new Map<Relation, Set<string>>();
  for (const text of texts) {
    const [, whose = 'anyone', list = ''] = /^(?:([^=]*)=)?(.*)$/s.exec(text) ?? [];
    const relations = WHOSE.get(whose);
    if (relations === undefined)
      throw usageError(`--allow '${text}': '${whose}' is not a relation.`, {
        why: `write one of ${[...WHOSE.keys()].join(', ')} before the =.`,
      });
    for (const kind of list.split(',').map((one) => one.trim())) {
      if (!known.includes(kind))
        throw usageError(`--allow '${text}': '${kind}' is not a ${noun}.`, {
          why: `with ${protocol}, write ${known.join(', ')}.`,
        });
      for (const relation of relations) allowed.set(relation, (allowed.get(relation) ?? new Set()).add(kind));
    }
  }
  return allowed;
}

export const EXEC_OPTION = {
  flags: '--exec <command>',
  about: 'the command, run by the shell',
} as const satisfies Option;
/** What a command of --exec gets, and how it answers. */
export const HANDLER_OPTIONS = [
  {
    flags: '--lines',
    about: 'with --exec: keep the command running; each message and each reply is a line of JSON',
  },
  {
    flags: '--reply-json',
    about: 'with --exec: the output is a reply as JSON, which can have parts, files and metadata',
  },
  {
    flags: '--recent <count>',
    about: 'with --exec: add the last N messages before this one to the input (at most 100)',
  },
] as const satisfies readonly Option[];
export const TRIES_OPTION = {
  flags: '--tries <count>',
  about: 'run a command that fails up to N times (default 1)',
} as const satisfies Option;
export const FROM_OPTION = {
  flags: '--from <handles|anyone>',
  about: 'who can invite the agent and get answers (default: agents of the same owner, and the allowlist)',
  isRepeatable: true,
} as const satisfies Option;
export const COUNT_OPTION = { flags: '-c, --count <count>', about: 'exit after N messages' } as const satisfies Option;
export const READY_FILE_OPTION = {
  flags: '--ready-file <path>',
  about: 'a file that exists while the agent answers',
} as const satisfies Option;

export const ACP_OPTION = {
  flags: '--acp <command>',
  about: 'an agent program that speaks the Agent Client Protocol, instead of --exec',
} as const satisfies Option;
export const ALLOW_OPTION = {
  flags: '--allow <kinds>',
  about:
    'with --acp: grant these kinds of permission requests (default: none); with --exec: run, reply (default: both); same-owner=edit or allowlisted=run grants them only for messages from those agents',
  isRepeatable: true,
} as const satisfies Option;

const OPTIONS = [
  EXEC_OPTION,
  ...HANDLER_OPTIONS,
  ACP_OPTION,
  ALLOW_OPTION,
  {
    flags: '--ask <handle>',
    about: 'with --acp: ask this agent about the other permission requests; only its answer grants one',
  },
  {
    flags: '--ask-wait <duration>',
    about: 'how long --ask waits before the request is refused (default 10m)',
  },
  FROM_OPTION,
  { flags: '--no-join', about: 'do not join sessions' },
  {
    flags: '--shared',
    about: 'share the messages with other runs of this agent, on this or other machines',
  },
  { flags: '--end', about: 'end the session after the reply' },
  COUNT_OPTION,
  { flags: '--concurrency <count>', about: 'handle this many sessions at a time (default 4)' },
  { flags: '--command-timeout <duration>', about: 'time limit of a command or a turn (default 10m)' },
  { flags: '--grace <duration>', about: 'how long running commands may take to finish after Ctrl-C (default 10s)' },
  TRIES_OPTION,
  {
    flags: '--on-failure <reply|skip|stop>',
    about: 'after a failed command: notify the sender, stay silent, or exit and leave the message (default reply)',
    choices: ['reply', 'skip', 'stop'],
  },
  {
    flags: '--since <time>',
    about: 'without saved progress: answer messages without a reply since then, RFC 3339 or 2h (ago) (default now)',
  },
  ...LIMIT_OPTIONS,
  {
    flags: '--max-tokens <count>',
    about: 'with --acp: stop answering when turns have used N tokens (default: no limit)',
  },
  {
    flags: '--max-cost <amount>',
    about: 'with --acp: stop answering when turns have cost this much in the currency that the program reports',
  },
  {
    flags: '--on-limit <skip|stop>',
    about: 'at a limit: do not answer, or exit with 11 (default skip)',
    choices: ['skip', 'stop'],
  },
  { flags: '--cursor-file <path>', about: 'store the progress here instead of in the state directory' },
  READY_FILE_OPTION,
] as const satisfies readonly Option[];

export const run = command({
  path: 'run',
  summary: 'turn a command or a coding agent into an agent that answers messages',
  details: [
    'Joins the sessions that the agent is invited to, and runs a command on this machine for each message. It answers',
    'only agents of the same owner and those on the allowlist of the agent, even if its policy is open, so that',
    'strangers cannot run the command. --from names others, or anyone.',
    '',
    'The command gets the event as JSON on its standard input, its ids in ASP_EVENT_ID, ASP_SESSION_ID, ASP_SEQUENCE and',
    'ASP_ACTOR, and the number of the attempt in ASP_TRY. If that is 2 or more, an earlier command got the same message,',
    'perhaps before a kill -9 of asp run, and may have done part of the work. ASP_AGENT and ASP_PROFILE are set too, so',
    'that asp in the command acts as the same agent at the same service. An answer that it waits for, as asp ask does, is',
    'not a new message, and what it sends continues the chain that --max-hops limits (ASP_HOPS). Secrets are not passed',
    'on: to use asp in the command, put the client secret in a file (ASP_CLIENT_SECRET_FILE).',
    '',
    'The reply is the output of the command; without output, there is no reply. The output ends 2 s after the command has',
    'exited, even if a process that it started keeps it open. If the command fails, or the service refuses the reply, the',
    'sender gets a short notice (metadata.failed), which no asp run answers. If the command cannot be run at all (exit 126',
    'or 127), the run ends, and the next one takes the message.',
    '',
    'Each message that is answered starts the command and gets its output. --allow same-owner=run,reply grants this only to agents',
    'of the same owner, allowlisted=run to others on the allowlist, and anyone=run to everyone. Without run, a message',
    'starts no command and gets no reply. Without reply, the command runs, and neither its output nor a notice is sent.',
    'A note on stderr says so each time.',
    '',
    'With --reply-json, the output is one JSON object. content is text, or parts as in asp send --parts; files lists the',
    'paths of files to upload (at most 5); metadata is added to the reply, except for what asp sets itself; "end": true',
    'ends the session; error says why the message could not be processed. Without content and files, nothing is sent.',
    '',
    'The event has a member asp. Its relation is "same owner", "on your allowlist" or "anyone", and try and hops are',
    'ASP_TRY and ASP_HOPS. With --recent, its recent lists the messages before this one, oldest first (at most 1 MiB in',
    'all).',
    '',
    'With --lines, the command starts once and keeps running. It reads a line for each message, the same event, and',
    'prints a line with the reply: JSON as for --reply-json, plus the event_id of the message. It must flush each',
    'line. It gets one message at a time; while all are busy, another one starts, up to --concurrency. In the meantime,',
    '{"event_id": …, "taken": true} says that it is working on the message. Logs go to stderr: any other line fails the',
    'message. A command that prints such a line, or takes longer than --command-timeout, is stopped. The next message',
    'starts another one. When the run ends, so does its input.',
    '',
    '--acp starts an agent program, such as a coding agent, and gives it each message as a turn. The reply is the last',
    'text of the turn. Each session has its own session in the program, which continues after a restart if the program',
    'supports it. If the program is slow to open sessions, one new session and up to three from the last hour are opened',
    'before a message needs them. If the program ends, it starts again at once; if it ends four times without a turn,',
    'it starts again only when a message needs it. The program sees who sent the message, how that agent is related to',
    'yours, and that it is not the user speaking. What it sends with asp during a turn continues the chain of --max-hops,',
    'unless the message has its own idempotency key. ASP_HOPS_FILE names the file with the hops of the turn.',
    'Permission requests are refused. --allow grants some kinds, as declared by the program:',
    `${KINDS.join(', ')}.`,
    'With same-owner= or allowlisted= before the kinds, it grants them only for messages from agents of the same',
    'owner, or from others on the allowlist; anyone= is the default.',
    '--ask sends every other request, as a question with choices in its own session, to the agent that it names, usually',
    'one that a person answers for. The question appears on the Needs you page of the dashboard and in asp chat. The answer',
    'of that agent counts for this one request. Without an answer in time, or if the session ends or the run stops, the',
    'request is refused.',
    'The settings of the program decide what it does without asking. The JSON lines report tokens and costs under turn.',
    '',
    'Messages of one session are answered in order. The next run answers messages that arrive while none is running. Each',
    'message gets one reply, whatever happens, but its command may run again if it was cut off; then ASP_TRY, or the',
    'input of the turn, says so. One line of JSON reports each message. Ctrl-C lets running commands finish.',
    '',
    'Two agents that answer everything would answer each other forever, so there are limits: --max-replies in a',
    'session until an agent in --human writes there, --max-hops in a chain of automatic replies (counted in',
    'metadata.hops), and the same reply to automatic replies: twice in a row at most, not a third time. With --acp, there',
    'are also at most 200 replies within an hour (--max-replies-per-hour), because each is the work of a model. A message',
    'beyond a limit gets no reply. Its outcome is "limited", its code names the limit, and a note says how to continue;',
    '--on-limit stop ends the run with exit code 11 instead. The counts survive a restart, except for tokens and costs.',
    '',
    'Without --shared, only one run on a machine can answer as an agent: a second one exits with 6, unless it has its own',
    'progress file (--cursor-file), for example to answer different agents (--from).',
    '',
    'With --shared, several runs answer as one agent, each with its own progress file. Only one of them works in a session',
    'at a time. If it stops or is killed, another one takes over within 15 seconds. If it only loses the service for that',
    'long, both may run their command for the same message. The message still gets only one reply. A program that keeps',
    'running (--lines) must not rely on what it saw before, because messages of one session go to different runs.',
  ].join('\n'),
  options: OPTIONS,
  examples: [
    { line: 'asp run --exec "jq -r .payload.content"', about: 'an agent that repeats every message' },
    { line: 'asp run --exec ./answer.sh --from alice.bot --end', about: 'answers Alice, then ends the session' },
    { line: 'asp run --exec ./answer.py --tries 3 --command-timeout 2m', about: 'retries a failed command' },
    { line: 'asp run --exec ./report.py --reply-json', about: 'a program that answers with files' },
    { line: 'asp run --exec "node bot.js" --lines --recent 20', about: 'a program that keeps running' },
    {
      line: 'asp run --exec ./deploy.sh --allow same-owner=run,reply',
      about: 'only agents of the same owner start it',
    },
    { line: 'asp run --exec ./answer.py --shared', about: 'one of several runs, each on its own machine' },
    { line: 'asp run --acp "opencode acp" --allow read', about: 'a coding agent that may read files' },
    {
      line: 'asp run --acp "opencode acp" --allow read --allow same-owner=edit,execute',
      about: 'it may change files for agents of the same owner',
    },
    { line: 'asp run --acp "opencode acp" --allow read --ask alice.phone', about: 'asks Alice about everything else' },
  ],
  effect: 'write',
  stdout: 'a line of JSON with the result of each message',
  makesOwnKeys: true,
  isEndless: true,
  finishesOnSignal: true,
  parse,
  run: async (context, options) => (await import('./run-agent.js')).runAgent(context, options),
});

const ASK_WAIT_DEFAULT_MS = 10 * 60_000;
const CONCURRENCY_DEFAULT = 4;
export const CONCURRENCY_MAX = 256;
const COMMAND_TIMEOUT_DEFAULT_MS = 10 * 60_000;
const GRACE_DEFAULT_MS = 10_000;
const TRIES_MAX = 20;
const RECENT_MAX = 100;

/** Empty: agents of the same owner, and the allowlist. */
export function readFrom(texts: readonly string[]): readonly string[] | 'anyone' {
  return texts.includes('anyone') ? 'anyone' : readHandles(texts);
}

/** The command to run, and how asp talks to it. `recent`: how many earlier messages its input has. */
export type RunRules = { readonly command: string; readonly tries: number; readonly timeoutMs: number } & (
  | {
      readonly protocol: 'exec';
      readonly repliesAs: 'text' | 'json';
      readonly recent: number;
      /** Undefined: all rights for everyone who is answered. */
      readonly allow: Allowed | undefined;
    }
  | { readonly protocol: 'lines'; readonly recent: number; readonly allow: Allowed | undefined }
  | { readonly protocol: 'acp'; readonly allow: Allowed; readonly ask: AskRule | undefined }
);

/** Who answers the permission requests that are not granted, and how long that may take. */
export interface AskRule {
  readonly handle: string;
  readonly waitMs: number;
}

/** The rules of a command, or of an agent program that asks no one for permission. */
export function readRules(
  args: Args<
    | (typeof EXEC_OPTION | typeof ACP_OPTION | typeof ALLOW_OPTION | typeof TRIES_OPTION)
    | (typeof HANDLER_OPTIONS)[number]
    | ({ readonly flags: '--command-timeout <duration>' } & Option)
  >,
  noun: 'run' | 'replay',
): RunRules {
  const [program, exec, allow] = [args.text('acp'), args.text('exec'), args.texts('allow')];
  const command = program ?? exec ?? '';
  if (command.trim() === '')
    throw usageError('There is no command to run.', {
      why: 'set it with --exec or --acp.',
      next: ['asp', noun, '--help'],
    });
  if (program !== undefined && exec !== undefined) throw usageError('--exec and --acp cannot be used together.');
  const tries = readTries(args);
  for (const option of ['lines', 'reply-json', 'recent'] as const)
    if (program !== undefined && args.isSet(option)) throw usageError(`--${option} needs --exec.`);
  if (program !== undefined)
    return { ...tries, command, protocol: 'acp', allow: readAllowed(allow, '--acp'), ask: undefined };
  const rights = allow.length === 0 ? undefined : readAllowed(allow, '--exec');
  const recent = args.count('recent', { min: 1, max: RECENT_MAX }) ?? 0;
  if (!args.flag('lines')) {
    const repliesAs = args.flag('reply-json') ? 'json' : 'text';
    return { ...tries, command, protocol: 'exec', repliesAs, recent, allow: rights };
  }
  if (args.flag('reply-json'))
    throw usageError('--lines and --reply-json cannot be used together.', {
      why: 'with --lines, each reply is JSON already.',
    });
  return { ...tries, command, protocol: 'lines', recent, allow: rights };
}

function readAskingRules(args: RunArgs): RunRules {
  const rules = readRules(args, 'run');
  const ask = args.text('ask');
  for (const budget of ['max-tokens', 'max-cost'] as const)
    if (args.isSet(budget) && rules.protocol !== 'acp') throw usageError(`--${budget} needs --acp.`);
  if (args.isSet('ask-wait') && ask === undefined) throw usageError('--ask-wait needs --ask.');
  if (ask === undefined) return rules;
  if (rules.protocol !== 'acp') throw usageError('--ask needs --acp.');
  return { ...rules, ask: { handle: readHandle(ask), waitMs: args.duration('ask-wait') ?? ASK_WAIT_DEFAULT_MS } };
}

/** How often and how long a command runs for a message. */
function readTries(args: Args<typeof TRIES_OPTION | ({ readonly flags: '--command-timeout <duration>' } & Option)>) {
  return {
    tries: args.count('tries', { min: 1, max: TRIES_MAX }) ?? 1,
    timeoutMs: args.duration('command-timeout') ?? COMMAND_TIMEOUT_DEFAULT_MS,
  };
}

/** Money, as people write it: 5 or 2.50. */
function readAmount(text: string | undefined): number {
  if (text === undefined) return 0;
  if (/^\d{1,9}(\.\d{1,6})?$/.test(text) && Number(text) > 0) return Number(text);
  throw usageError(`--max-cost '${text}' is not a valid amount.`, { why: 'write a number, such as 5 or 2.50.' });
}

export type RunOptions = ReturnType<typeof parse>;

type RunArgs = Args<(typeof OPTIONS)[number]>;

function parse(args: RunArgs, nowMs: number) {
  const rules = readAskingRules(args);
  if (args.flag('shared') && args.isSet('count')) throw usageError('--shared and --count cannot be used together.');
  if (args.flag('shared') && rules.protocol === 'acp')
    throw usageError('--shared and --acp cannot be used together.', {
      why: 'the program of each run would remember only its own turns.',
    });
  return {
    sinceMs: args.time('since', nowMs),
    rules,
    from: readFrom(args.texts('from')),
    joins: !args.flag('no-join'),
    isShared: args.flag('shared'),
    ends: args.flag('end'),
    limits: {
      ...readLimits(args, rules.protocol === 'acp' ? MODEL_MESSAGES_PER_HOUR : 0),
      tokens: args.count('max-tokens', { min: 0 }) ?? 0,
      cost: readAmount(args.text('max-cost')),
    },
    onLimit: args.text('on-limit') ?? 'skip',
    onFailure: args.text('on-failure') ?? 'reply',
    count: args.count('count', { min: 1 }),
    graceMs: args.duration('grace') ?? GRACE_DEFAULT_MS,
    readyFile: args.text('ready-file'),
    concurrency: args.count('concurrency', { min: 1, max: CONCURRENCY_MAX }) ?? CONCURRENCY_DEFAULT,
    cursorFile: args.text('cursor-file'),
  };
}
