import type { Client } from '../../../client/client.js';
import { LIST_LIMIT_MAX } from '../../../wire/limit.js';
import { CLOSE_CODES } from '../../../wire/realtime.js';
import { type Args, type Argument, command, type Option } from '../../command.js';
import type { Context } from '../../context/context.js';
import { explain, ifNotFound, notFound } from '../../context/explain.js';
import { usageError } from '../../errors.js';
import { readDuration, readHandle } from '../../values.js';
import { callService } from './operate.js';

export const serveClockAdvance = command({
  path: 'serve clock advance',
  summary: 'let time pass at a local service started with --clock',
  details: [
    'Tokens, signed addresses, limits and invitations expire, and the service does at once everything that falls due in',
    'that time. Programs that use the service keep the time of this machine. 0s shows the time of the service.',
  ].join('\n'),
  arguments: [{ usage: '<duration>', about: 'how far to jump: 15m, 24h, 30d' }],
  examples: [
    { line: 'asp serve clock advance 15m', about: 'every access token expires' },
    { line: 'asp serve clock advance 0s', about: 'the time of the service' },
  ],
  effect: 'local',
  stdout: 'the time of the service',
  parse: (args) => ({ ms: readDuration('<duration>', args.argument('duration')) }),
  async run(context, { ms }) {
    const { now } = await callService(context, 'advanceClock', { body: { by_ms: ms } });
    await context.output.document({ now }, (safe) => new Date(safe.now).toISOString());
  },
});

/** Events that the made-up agent causes as an ordinary client. */
const DEEDS = ['message', 'invitation', 'end'] as const;
/** Faults that the next calls get, named as in --inject. */
const FAULTS = ['429', '500', '502', '503', '504', 'lost', 'cut'] as const;
export const TRIGGER_EVENTS = [...DEEDS, 'drop', 'expire', ...FAULTS] as const;

const MADE_UP_AGENT = '@trigger.agent';
const TIMES_MAX = 1_000;

const TRIGGER_ARGUMENTS = [
  { usage: '<event>', about: `one of ${TRIGGER_EVENTS.join(', ')}` },
] as const satisfies readonly Argument[];
const TRIGGER_OPTIONS = [
  { flags: '--to <handle>', about: 'the agent that it happens to; not for failing calls, which can come from anyone' },
  { flags: '--from <handle>', about: `who writes, invites or ends (default ${MADE_UP_AGENT}, which is added)` },
  {
    flags: '--code <n>',
    about: `with drop: the close code, ${CLOSE_CODES.join(', ')} (default: the connection ends without one)`,
  },
  { flags: '--times <count>', about: 'with a failing call: the next N (default 1)' },
] as const satisfies readonly Option[];

export const serveTrigger = command({
  path: 'serve trigger',
  summary: 'cause an event that programs must handle',
  details: [
    'message: an agent writes to --to, in a session that both have joined, or else with an invitation.',
    'invitation: an agent invites --to to a new session.',
    'end: an agent ends the last session that it shares with --to, or a new one.',
    'drop: the sockets of --to close.',
    'expire: the access tokens that --to has used expire, and its sockets close with 1008.',
    '429 … 504: the next call is refused with this status before anything is done.',
    'lost: the next call is carried out, and answered with 500.',
    'cut: the next call is carried out, and its connection ends without an answer.',
    'All but the first three need a service for tests: one started with --demo, --inject or --data memory. To fail calls ' +
      'at random, start it with --inject.',
  ].join('\n\n'),
  arguments: TRIGGER_ARGUMENTS,
  options: TRIGGER_OPTIONS,
  examples: [
    { line: 'asp serve trigger message --to alice.bot', about: 'does Alice’s program answer?' },
    { line: 'asp serve trigger drop --to alice.bot --code 1001', about: 'does it reconnect?' },
    { line: 'asp serve trigger 503 --times 2', about: 'does it try again?' },
  ],
  effect: 'local',
  stdout: 'the session, or how many sockets, tokens or calls are affected',
  parse: parseTrigger,
  run: trigger,
});

type Triggering = ReturnType<typeof parseTrigger>;

function parseTrigger(args: Args<(typeof TRIGGER_OPTIONS)[number], (typeof TRIGGER_ARGUMENTS)[number]>) {
  const text = args.argument('event');
  const event = TRIGGER_EVENTS.find((candidate) => candidate === text);
  if (event === undefined)
    throw usageError(`'${text}' is not an event.`, { why: `the events are ${TRIGGER_EVENTS.join(', ')}.` });
  const fault = FAULTS.find((candidate) => candidate === event);
  const deed = DEEDS.find((candidate) => candidate === event);
  const refuse = (option: 'to' | 'from' | 'code' | 'times', isUsed: boolean): void => {
    if (args.isSet(option) && !isUsed) throw usageError(`--${option} has no meaning with ${event}.`);
  };
  refuse('to', fault === undefined);
  refuse('from', deed !== undefined);
  refuse('code', event === 'drop');
  refuse('times', fault !== undefined);
  const to = args.text('to');
  if (to === undefined && fault === undefined)
    throw usageError(`${event} needs an agent.`, { why: 'name the one that it happens to with --to.' });
  const codeText = args.text('code');
  const code = CLOSE_CODES.find((candidate) => String(candidate) === codeText);
  if (codeText !== undefined && code === undefined)
    throw usageError(`--code ${codeText} is not a code that the service closes sockets with.`, {
      why: `the codes are ${CLOSE_CODES.join(', ')}.`,
    });
  return {
    event,
    deed,
    fault,
    to: to === undefined ? '' : readHandle(to),
    from: readHandle(args.text('from') ?? MADE_UP_AGENT),
    code,
    times: args.count('times', { min: 1, max: TIMES_MAX }) ?? 1,
  };
}

async function trigger(context: Context, options: Triggering): Promise<void> {
  const { event, deed, fault, to, code, times } = options;
  if (deed !== undefined) {
    const done = await actAs(context, options, (client) => doDeed(context, client, { ...options, deed }));
    return context.output.document({ event, ...done, count: null }, (safe) => safe.session_id);
  }
  const status = Number(fault);
  const body =
    fault !== undefined
      ? { event: 'fault', fault: Number.isNaN(status) ? fault : status, times }
      : { event, handle: to, ...(code !== undefined && { code }) };
  const { count } = await callService(context, 'triggerEvent', { body });
  if (count === 0)
    throw await notFound(
      `${to} has ${event === 'drop' ? 'no open socket' : 'used no access token that is still valid'}. Nothing happened.`,
      'its program must be connected to this service.',
      ['asp', 'serve', 'agent', 'list'],
    );
  await context.output.document({ event, session_id: null, message_id: null, count }, (safe) => String(safe.count));
}

/** As that agent, whose credentials are gone afterwards. */
async function actAs<Done>(
  context: Context,
  { from }: Triggering,
  work: (client: Client) => Promise<Done>,
): Promise<Done> {
  const { callOperator, connectAsLocal, requireLocalService } = await import('../../context/operator.js');
  const record = await requireLocalService(context);
  const { client, clientId } = await connectAsLocal(context, record, from);
  try {
    return await work(client);
  } finally {
    await callOperator(context, record, 'revokeOperatorClient', { path: { client: clientId } });
  }
}

/** What came of it. */
interface Deed {
  readonly session_id: string;
  readonly message_id: string | null;
}

const TEXT = 'Hello! asp serve trigger wrote this.';

async function doDeed(
  { signal }: Context,
  client: Client,
  { deed, from, to }: Triggering & { readonly deed: (typeof DEEDS)[number] },
): Promise<Deed> {
  const create = async (more: object): Promise<Deed> => {
    const unreachable = ifNotFound(
      `${to} could not be reached by ${from}.`,
      ['asp', 'serve', 'agent', 'list'],
      'it is unknown or paused, or its allowlist or blocks keep that agent out: --from names another.',
    );
    const call = client.call('createSession', { body: { invite: [to], ...more }, signal });
    return (await explain(unreachable, call)).reply;
  };
  const message = { initial_message: { content: TEXT } };
  if (deed === 'invitation') return create({});
  const { reply } = await client.call('listSessions', { query: { state: 'active', limit: LIST_LIMIT_MAX }, signal });
  const shared = reply.sessions.filter(({ participants }) =>
    participants.some(
      ({ handle, status }) => handle === to && (status === 'joined' || (deed === 'end' && status === 'invited')),
    ),
  );
  const sessionId = shared[0]?.id;
  if (sessionId === undefined) return create(deed === 'end' ? { ...message, end_after_send: true } : message);
  const path = { session_id: sessionId };
  if (deed === 'end') {
    await client.call('endSession', { path, signal });
    return { session_id: sessionId, message_id: null };
  }
  const sent = await client.call('sendMessage', { path, body: { content: TEXT }, signal });
  return { session_id: sessionId, message_id: sent.reply.message_id };
}
