import { backoffMs, wait } from '../../../kit/clock.js';
import type { DeliveryReply, DeliveryState, Recipient } from '../../../wire/schemas/delivery.js';
import { read } from '../../context/calls.js';
import type { Context } from '../../context/context.js';
import { type ErrorContext, findErrorContext } from '../../context/explain.js';
import { CliError } from '../../errors.js';
import { relativeTime } from '../../terminal/relative-time.js';
import type { Style } from '../../terminal/style.js';
import { explainRefusal, isNotFound } from './refusal.js';
import { readLastMessages, readSessionMessages } from './session-events.js';

/** A state changes seldom, and asking counts against the agent's rate limit. */
const POLL_MS = 1_000;
const FIRST_POLL_MS = 100;

const ORDER: readonly DeliveryState[] = ['stored', 'delivered', 'taken', 'answered'];
const hasReached = ({ state }: Recipient, wanted: DeliveryState): boolean =>
  ORDER.indexOf(state) >= ORDER.indexOf(wanted);

/** Recipients that left will not get any further. */
const listMissing = ({ recipients }: DeliveryReply, wanted: DeliveryState): Recipient[] =>
  recipients.filter((one) => one.status !== 'left' && !hasReached(one, wanted));

/** The delivery of a message. This needs a service with delivery states, and a joined agent. */
async function readDelivery(
  context: Context,
  sessionId: string,
  sequence: number,
  errorContext: ErrorContext = {},
): Promise<DeliveryReply> {
  const explained = {
    subject: sessionId,
    ...errorContext,
    messages: {
      NOT_FOUND: `${sessionId}: the delivery of its messages is not known.`,
      ASP_NOT_OFFERED: `${sessionId}: the service does not report the delivery of messages.`,
    },
    reasons: { NOT_FOUND: 'this agent has not joined the session.' },
    next: { NOT_FOUND: ['asp', 'session', 'show', sessionId] },
  };
  try {
    return await read(context, 'getDelivery', { path: { session_id: sessionId }, query: { sequence } }, explained);
  } catch (error) {
    const refusal = await explainRefusal(context, sessionId, error);
    // An ended session can still be queried.
    const isEnded = findErrorContext(refusal)?.messages?.['NOT_FOUND']?.endsWith('has ended.');
    throw isEnded === true ? error : refusal;
  }
}

/** An id that no session has. */
const NO_SESSION = `sess_${'0'.repeat(26)}`;

/** Refuses to continue if the service does not report the delivery of messages. @throws RequestError `ASP_NOT_OFFERED` */
export async function requireDelivery(context: Context): Promise<void> {
  const about: ErrorContext = {
    messages: { ASP_NOT_OFFERED: 'The service does not report the delivery of messages. Nothing was sent.' },
    reasons: { ASP_NOT_OFFERED: 'without --wait-for, the message can be sent; --wait waits for its reply.' },
  };
  const asked = read(context, 'getDelivery', { path: { session_id: NO_SESSION }, query: { sequence: 1 } }, about);
  await asked.catch((error: unknown) => {
    if (!isNotFound(error)) throw error;
  });
}

/** The delivery of the agent's last message in a session, or else of the last message; undefined if there is none. */
export async function readLastDelivery(context: Context, sessionId: string): Promise<DeliveryReply | undefined> {
  const me = await context.actingHandle();
  const messages = await readLastMessages(context, sessionId);
  let found = messages.findLast(({ sender }) => sender === me);
  // Others have written a lot since: the agent's own last message is further back.
  if (found === undefined && messages.length > 0 && (messages[0]?.sequence ?? 1) > 1)
    for await (const message of readSessionMessages(context, sessionId)) if (message.sender === me) found = message;
  const sequence = (found ?? messages.at(-1))?.sequence;
  return sequence === undefined ? undefined : readDelivery(context, sessionId, sequence);
}

/** A line for each recipient; its values are safe already. */
export function deliveryText({ sequence, recipients }: DeliveryReply, style: Style, nowMs: number): string {
  const width = Math.max(...recipients.map(({ handle }) => handle.length), 0);
  const paint = { stored: style.dim, delivered: style.yellow, taken: style.green, answered: style.green };
  const describe = ({ state, taken_at: at, answered_sequence: answer, reports_taken: reports }: Recipient): string => {
    if (state === 'answered') return `${paint[state](state)} (sequence ${answer})`;
    if (state === 'taken' && at !== null) return `${paint[state](state)} ${relativeTime(at, nowMs)}`;
    return `${paint[state](state)}${reports ? '' : style.dim(' (does not report what it takes)')}`;
  };
  return [
    `message ${sequence}`,
    ...recipients.map((one) => `  ${one.handle.padEnd(width)}  ${describe(one)}`),
    ...(recipients.length === 0 ? ['  no one else can see it'] : []),
  ].join('\n');
}

/** A message that waits for its recipients. */
export interface Awaited {
  readonly sessionId: string;
  readonly sequence: number;
}

/**
 * Waits until every recipient that has not left has reached the state, and at least one has. @throws CliError
 * `ASP_TIMEOUT`, or an error if that can never happen
 */
export async function waitForState(
  context: Context,
  { sessionId, sequence }: Awaited,
  wanted: 'delivered' | 'taken',
): Promise<DeliveryReply> {
  const { clock, signal } = context;
  const next = ['asp', 'session', 'show', sessionId, '--delivery'];
  let last: DeliveryReply | undefined;
  try {
    for (let polls = 0; ; polls += 1) {
      last = await readDelivery(context, sessionId, sequence, { outcome: { not_applied: 'applied' } });
      const { recipients } = last;
      const missing = listMissing(last, wanted);
      if (missing.length === 0 && recipients.some((one) => hasReached(one, wanted))) return last;
      if (missing.length === 0) {
        const left = `${joinHandles(recipients)} left before the message was ${wanted}`;
        const message = `${recipients.length === 0 ? 'No one else is in the session' : left}. Your message was sent.`;
        throw new CliError('ASP_PARTIAL', { message, outcome: 'applied', next });
      }
      const silent = wanted === 'taken' && missing.filter(({ reports_taken: reports }) => !reports);
      if (silent !== false && silent.length === missing.length)
        throw new CliError('ASP_PARTIAL', {
          message: `${joinHandles(silent)} ${silent.length === 1 ? 'does' : 'do'} not report what is taken. Your message was sent.`,
          why: 'wait for delivery or for the reply instead.',
          outcome: 'applied',
          next,
        });
      await wait(clock, backoffMs(FIRST_POLL_MS, polls, POLL_MS), signal);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    const missing = last === undefined ? [] : listMissing(last, wanted);
    const states = missing.map(({ handle, state }) => `${handle} (${state})`).join(', ');
    throw new CliError('ASP_TIMEOUT', {
      message: `The message was not ${wanted} in time${states === '' ? '' : `: ${states}`}. Your message was sent.`,
      outcome: 'applied',
      next,
    });
  }
}

const joinHandles = (recipients: readonly Recipient[]): string => recipients.map(({ handle }) => handle).join(', ');
