import { isLoopbackHost } from '../../../kit/loopback.js';
import { didYouMean } from '../../../kit/suggest.js';
import { type Args, type Argument, command, createArgs, type GlobalOption, type Option } from '../../command.js';
import type { Context } from '../../context/context.js';
import { usageError } from '../../errors.js';
import { FENCE_EACH_OPTION } from '../../options.js';
import { readHandles, readSessionName, SESSION_ABOUT } from '../../values.js';
import { findSession } from '../session/find-session.js';
import type { FollowOptions } from './follow.js';

const SESSIONS = { usage: '[sessions...]', about: SESSION_ABOUT } as const satisfies Argument;

/** Where to start and stop, what to filter, and how to print. */
const EVENT_OPTIONS = [
  {
    flags: '-n, --last <count>',
    about: 'start with the last N events of each session that is not in the --cursor-file yet (default 10)',
  },
  { flags: '--after <sequence>', about: 'events after this sequence' },
  { flags: '--since <time>', about: 'events from this time on: RFC 3339, epoch ms, or 2h (ago)' },
  { flags: '--until <time>', about: 'events up to this time' },
  { flags: '--type <types>', about: 'only these types: message, invited, joined, left, ended, …', isRepeatable: true },
  { flags: '--from <handles>', about: 'only events caused by these agents', isRepeatable: true },
  { flags: '--not-me', about: "leave out this agent's own events" },
  { flags: '-c, --count <count>', about: 'stop after N events' },
  { flags: '--cursor-file <path>', about: 'continue from the position in this file, and keep it up to date' },
  { flags: '--pretty', about: 'print lines for people' },
  { flags: '--text', about: 'print only the text of messages' },
  FENCE_EACH_OPTION,
  { flags: '--exec <command>', about: 'run a command for each event: the event on stdin, its ids in ASP_EVENT_…' },
  { flags: '--forward <url>', about: 'POST each event to this address' },
  {
    flags: '--forward-secret-file <path>',
    about: 'sign each POST with the secret in this private file, as Standard Webhooks does',
  },
  {
    flags: '--on-error <stop|skip|retry>',
    about: 'if --exec or --forward fails: exit 10 before its event, continue, or retry up to 5 times (default stop)',
    choices: ['stop', 'skip', 'retry'],
  },
] as const satisfies readonly Option[];

const FOLLOW_OPTIONS = [
  { flags: '--no-follow', about: 'print the existing events, then exit' },
  { flags: '-f, --follow', about: 'the default of tail', isHidden: true },
  {
    flags: '--idle <duration>',
    about: 'stop when nothing arrives for this long, after all pending events (exit 8 if --count was not reached)',
  },
  { flags: '--keep', about: 'keep running when the sessions have ended' },
  {
    flags: '--control',
    about: 'also print asp.ready, asp.reconnecting, asp.gap, asp.restored and asp.end lines; asp.end is the last',
  },
  { flags: '--heartbeat <duration>', about: 'print an asp.heartbeat line at this interval; implies --control' },
  { flags: '--ready-file <path>', about: 'create this file once live events arrive' },
  { flags: '--join', about: 'join every session that the agent is invited to' },
  {
    flags: '--for-agent',
    about: 'print short lines that wake the monitor of a coding agent; with --join, ignores invitations from strangers',
  },
] as const satisfies readonly Option[];

const STDOUT = 'the events, one JSON document per line; lines or texts with --pretty, --text or --fence';

/** A monitor gets messages and invitations, in one form. */
const NOT_FOR_AGENTS = [
  ...(['pretty', 'text', 'fence', 'exec', 'forward', 'type', 'control', 'heartbeat'] as const),
  ...(['json', 'jsonl', 'fields', 'jq'] as const),
];

export const sessionTail = command({
  path: 'session tail',
  summary: 'print events as they arrive, as JSON lines',
  details: [
    'Without a session: follows all your sessions, starting with events that were never delivered to you.',
    'With sessions: their last 10 events, then new ones, until all have ended. Each event is printed once and in order,',
    'even across reconnects; stderr reports events that could not be loaded.',
    '',
    'Each request of --forward names the agent in x-asp-agent and the event in x-asp-event-id, as the calls of a webhook do',
    '(asp webhook set --help), so one receiver can take both.',
    '',
    'With --forward-secret-file, each request has the headers webhook-id, webhook-timestamp and webhook-signature of',
    'Standard Webhooks, whose libraries can check that it comes from you. webhook-id is the id of the event, and stays the',
    'same if the event is sent again. openssl rand -base64 32 creates a secret.',
    '',
    '--exec puts the number of the attempt in ASP_TRY. With --cursor-file it also counts earlier tails: if it is 2 or',
    'more, an earlier command got the same event, and may have done some of the work.',
    '',
    '--for-agent tells a coding agent about messages and invitations, with at most 480 characters each and at most one',
    'line every two seconds. The first line says who the agent is and what is unread. Each other line says who wrote, how',
    'that agent is related to yours, and how to answer, and ends with the text as a JSON string. If the text does not',
    'fit, the line names the command that reads the rest. A message cannot forge a line or the beginning of one.',
  ].join('\n'),
  arguments: [SESSIONS],
  options: [...EVENT_OPTIONS, ...FOLLOW_OPTIONS],
  examples: [
    {
      line: 'asp tail sess_… | jq -r \'select(.type=="session.message") | .payload.content\'',
      about: 'texts as they arrive',
    },
    { line: 'asp tail --join --not-me --cursor-file inbox.json --exec ./answer.sh', about: 'a small bot' },
    {
      line: 'asp tail --type message --jq \'"\\(.payload.sender): \\(.payload.content)"\'',
      about: 'your own format for each message',
    },
    { line: 'asp tail sess_… --pretty', about: 'for people' },
    { line: 'asp tail --for-agent --join', about: 'for the monitor of a coding agent' },
    { line: 'asp tail --type message -c 1 --timeout 5m', about: 'waits for one message; exit 8 if none came' },
  ],
  effect: 'read',
  stdout: STDOUT,
  isEndless: true,
  mixesShapesWith: ['control'],
  async parse(args, nowMs) {
    args.refuseBoth('follow', 'no-follow');
    const isFollowing = !args.flag('no-follow');
    const options = await readEventOptions(args, nowMs);
    if (options.sessionIds.length === 0 && !isFollowing)
      throw usageError('--no-follow needs a session.', { next: ['asp', 'session', 'list'] });
    const heartbeatMs = args.duration('heartbeat');
    for (const other of NOT_FOR_AGENTS) args.refuseBoth('for-agent', other);
    const isForAgent = args.flag('for-agent');
    return {
      ...options,
      ...(isForAgent && { view: 'agent' as const, isNotMe: true }),
      isFollowing: isFollowing && (options.untilMs === undefined || options.untilMs > nowMs),
      idleMs: args.duration('idle'),
      isKept: args.flag('keep'),
      hasControl: args.flag('control') || heartbeatMs !== undefined,
      heartbeatMs,
      readyFile: args.text('ready-file'),
      joins: args.flag('join'),
    };
  },
  run: async (context, options) => follow(context, options),
});

export const sessionEvents = command({
  path: 'session events',
  summary: 'print the existing events of sessions',
  details: 'The same as asp tail --no-follow.',
  arguments: [{ usage: '<sessions...>', about: SESSION_ABOUT }],
  options: EVENT_OPTIONS,
  examples: [
    { line: 'asp session events sess_… --after 0', about: 'everything from the beginning' },
    { line: "asp session events sess_… -n 20 --type message | jq -r '.payload.content'", about: 'the last texts' },
  ],
  effect: 'read',
  stdout: STDOUT,
  parse: async (args, nowMs) => ({ ...(await readEventOptions(args, nowMs)), isFollowing: false }),
  run: async (context, options) => follow(context, options),
});

async function follow(context: Context, options: FollowOptions): Promise<void> {
  const sessionIds: string[] = [];
  // One after the other: each may need an answer.
  for (const name of options.sessionIds) sessionIds.push(await findSession(context, name));
  const { followSessions } = await import('./follow.js');
  await followSessions(context, { ...options, sessionIds: [...new Set(sessionIds)] });
}

async function readEventOptions(
  args: Args<(typeof EVENT_OPTIONS)[number] | GlobalOption, typeof SESSIONS>,
  nowMs: number,
) {
  const texts = args.argument('sessions').flatMap((text) => text.split(','));
  const sessionIds = [...new Set(texts.map(readSessionName))];
  for (const [one, other] of [
    ['last', 'after'],
    ['last', 'since'],
    ['after', 'since'],
    ['exec', 'forward'],
    ['exec', 'pretty'],
    ['exec', 'text'],
    ['exec', 'fence'],
    ['exec', 'jq'],
    ['forward', 'jq'],
  ] as const)
    args.refuseBoth(one, other);
  if (args.isSet('on-error') && !args.isSet('exec') && !args.isSet('forward'))
    throw usageError('--on-error needs --exec or --forward.');
  if (args.isSet('forward-secret-file') && !args.isSet('forward'))
    throw usageError('--forward-secret-file needs --forward.');
  const beginning = (['last', 'after', 'since'] as const).find((option) => args.isSet(option));
  if (sessionIds.length === 0 && beginning !== undefined)
    throw usageError(`--${beginning} needs a session.`, {
      why: 'without a session, tail starts where the last connection ended, or at the position in --cursor-file.',
      next: ['asp', 'session', 'list'],
    });
  const { EVENT_TYPES } = await import('../../../wire/event.js');
  return {
    sessionIds,
    untilMs: args.time('until', nowMs),
    view: chooseView(args),
    last: args.count('last'),
    after: args.count('after'),
    sinceMs: args.time('since', nowMs),
    types: args
      .texts('type')
      .flatMap((text) => text.split(','))
      .map((text) => readType(text, EVENT_TYPES)),
    from: readHandles(args.texts('from')),
    isNotMe: args.flag('not-me'),
    count: args.count('count', { min: 1 }),
    cursorFile: args.text('cursor-file'),
    command: args.text('exec'),
    onError: args.text('on-error') ?? 'stop',
    forwardUrl: readForwardUrl(args.text('forward')),
    forwardSecretFile: args.text('forward-secret-file'),
  };
}

const VIEWS = ['pretty', 'text', 'fence'] as const;
export type View = 'lines' | 'agent' | (typeof VIEWS)[number];

function chooseView(args: Args<(typeof EVENT_OPTIONS)[number] | GlobalOption>): View {
  for (const [index, view] of VIEWS.entries()) {
    for (const other of VIEWS.slice(index + 1)) args.refuseBoth(view, other);
    for (const option of ['json', 'jsonl', 'fields', 'jq'] as const) args.refuseBoth(view, option);
  }
  return VIEWS.find((view) => args.flag(view)) ?? 'lines';
}

/** `message` and `session.message` are the same; an unknown type is accepted if it contains a dot. */
function readType(text: string, known: readonly string[]): string {
  const type = text.includes('.') ? text : `session.${text}`;
  if (known.includes(type) || text.includes('.')) return type;
  const why = didYouMean(type, known) ?? `types: ${known.join(', ')}.`;
  throw usageError(`'${text}' is not an event type.`, { why });
}

/** An address to post events to: encrypted, or on this machine. */
function readForwardUrl(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopbackHost(url.hostname))) return url.href;
  throw usageError(`--forward '${text}' is not an https address.`, { why: 'http works only on this machine.' });
}

export type EventOptions = Awaited<ReturnType<typeof readEventOptions>>;

/** The options of `asp tail` without any: all sessions, from where the last connection ended. */
export const allSessions = (): Promise<EventOptions> =>
  readEventOptions(createArgs({ options: new Map(), positional: [] }, [SESSIONS]), 0);
