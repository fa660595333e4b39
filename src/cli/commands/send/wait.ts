import { abortAfter } from '../../../kit/clock.js';
import { quoteArgs } from '../../../kit/format.js';
import { sanitize } from '../../../kit/sanitize.js';
import { isMessageEvent } from '../../../wire/event.js';
import { findChoice, isFailureNotice } from '../../../wire/message.js';
import type { DeliveryReply } from '../../../wire/schemas/delivery.js';
import type { Message } from '../../../wire/schemas/message.js';
import type { Context } from '../../context/context.js';
import { explain, notFound, withScopeOptions } from '../../context/explain.js';
import { openRelations } from '../../context/relations.js';
import { CliError } from '../../errors.js';
import { showProgress } from '../../terminal/progress.js';
import { durationText } from '../../values.js';
import { fencedMessage, messageText } from '../message/message-text.js';

/** The message that was sent. */
interface Sent {
  readonly session_id: string;
  readonly message_id: string | null;
  readonly sequence: number | null;
  readonly created_session: boolean;
  readonly invited: readonly string[] | null;
}

/** A message that waits for an answer. */
export interface Question {
  /** Possible answers; if there are any, nothing else counts as the answer. */
  readonly choices: readonly string[];
  readonly expected: string | undefined;
  readonly waitMs: number | undefined;
  /** Only the agent that was asked can answer, and only within `waitMs` by the service's time. */
  readonly isStrict?: boolean;
}

/** How to wait for a reply and print it. */
export interface Waiting {
  readonly question?: Question;
  readonly isFenced: boolean;
}

/** The last message that was not the answer: the command that keeps waiting begins after it. */
interface Heard {
  sequence?: number;
}

const noteWaiting = ({ output }: Context, note: string): Promise<void> =>
  output.format === 'human' ? output.note(note) : output.detail(note);

/** Waits until every recipient has reached the state. */
export async function waitForRecipients(
  context: Context,
  { session_id: sessionId, sequence }: Sent,
  wanted: 'delivered' | 'taken',
): Promise<DeliveryReply> {
  await noteWaiting(context, `Waiting until the message is ${wanted}.`);
  const { waitForState } = await import('../session/delivery.js');
  const work = waitForState(context, { sessionId, sequence: sequence ?? 0 }, wanted);
  return showProgress(context, `waiting until it is ${wanted}`, work, { isTold: true });
}

/** The reply to the message; nothing between sending and listening is missed. */
export async function waitForReply(context: Context, sent: Sent, options: Waiting): Promise<Message> {
  const { question } = options;
  const choices = question === undefined || question.choices.length === 0 ? '' : ` (${question.choices.join(', ')})`;
  await noteWaiting(context, `Waiting for a reply in ${sent.session_id}${choices}.`);
  const heard: Heard = {};
  try {
    return await showProgress(context, 'waiting for a reply', listen(context, sent, options, heard), { isTold: true });
  } catch (error) {
    if (isStoppedBySignal(context)) await tellHowToWait(context, sent, options, heard);
    throw error;
  }
}

export const isStoppedBySignal = ({ signal, deadline }: Context): boolean =>
  signal.aborted && deadline?.hasPassed() !== true;

/** A signal ends the command without an error, which would name the command. */
async function tellHowToWait(context: Context, sent: Sent, options: Waiting, heard: Heard): Promise<void> {
  const what = options.question === undefined ? 'Your message was sent.' : 'Your question stays open.';
  await context.output.note(`${what} To keep waiting for the reply:`);
  const words = withScopeOptions(wordsThatWait(context, sent, options, heard), context.globals);
  await context.output.note(`  ${quoteArgs(words)}`);
}

/** The command that continues waiting for the reply. */
function wordsThatWait(
  { globals }: Context,
  { session_id, message_id, sequence }: Sent,
  { question, isFenced }: Waiting,
  heard: Heard,
): readonly string[] {
  const timeoutMs = question?.waitMs ?? globals.timeoutMs;
  const [reply, after] =
    heard.sequence === undefined || message_id === null
      ? ['reply', sequence ?? 0]
      : [`reply:${message_id}`, heard.sequence];
  return [
    ...['asp', 'session', 'wait', session_id, '--for', reply, '--after', String(after)],
    ...(isFenced ? ['--fence'] : []),
    // With no time, it could not wait for anything.
    ...(timeoutMs === undefined || timeoutMs === 0 ? [] : ['--timeout', durationText(timeoutMs)]),
  ];
}

/** The answer is printed already; this is the exit code. */
export function refuseOtherAnswer(reply: Message, choice: string | undefined, expected: string | undefined): void {
  if (isFailureNotice(reply) || (expected !== undefined && choice !== expected))
    throw new CliError('ASP_OTHER_ANSWER', {
      message: isFailureNotice(reply)
        ? `${reply.sender} could not process the question.`
        : `${reply.sender} answered ${choice}, not ${expected}.`,
      outcome: 'applied',
    });
}

const SENT_TEXT = { not_applied: '', applied: 'Your message was sent.', unknown: '' } as const;

/** Waits for the reply without announcing it. */
export async function listen(context: Context, sent: Sent, waiting: Waiting, heard: Heard = {}): Promise<Message> {
  const { question } = waiting;
  const { session_id: sessionId } = sent;
  const next = (): readonly string[] => wordsThatWait(context, sent, waiting, heard);
  const what = (): string => (heard.sequence === undefined ? 'no reply' : 'none of the choices');
  const notInTime = (): CliError =>
    new CliError('ASP_TIMEOUT', {
      message: `${sessionId}: ${what()} arrived in time. Your message was sent.`,
      outcome: 'applied',
      next: next(),
    });
  const findInTime = async (signal: AbortSignal): Promise<Message> => {
    const reply = await findReply({ ...context, signal }, sent, waiting, heard);
    if (reply === undefined) throw notInTime();
    return reply;
  };
  const finding =
    question?.waitMs === undefined
      ? findInTime(context.signal)
      : abortAfter(context.clock, question.waitMs, notInTime, findInTime, context.signal);
  try {
    return await finding;
  } catch (error) {
    if (context.signal.aborted) throw notInTime();
    const advice = { INTERNAL_ERROR: next(), ASP_UNREACHABLE: next() };
    return explain({ subject: sessionId, outcomeText: SENT_TEXT, next: advice }, Promise.reject(error));
  }
}

/** Undefined if the connection was closed first. */
async function findReply(
  context: Context,
  sent: Sent,
  { question, isFenced }: Waiting,
  heard: Heard,
): Promise<Message | undefined> {
  const { signal } = context;
  const { session_id: sessionId, message_id, created_session: isNew } = sent;
  const sequence = sent.sequence ?? 0;
  const handle = isNew && sent.invited?.length === 1 ? sent.invited[0] : undefined;
  const isStrict = question?.isStrict === true;
  const [me, client] = [await context.actingHandle(), await context.client()];
  const [{ createReplyMatcher, isOver }, { createOutageNotes }] = await Promise.all([
    import('../../../agent/reply-matcher.js'),
    import('../../../agent/persist.js'),
  ]);
  const asked = { me, sessionId, sequence, messageId: message_id ?? undefined, handle, signal };
  const isReply = createReplyMatcher(client, asked);
  const noteOutage = createOutageNotes(context);
  // Reads the message again, to get its id or the service's time.
  const after = message_id === null || isStrict ? Math.max(0, sequence - 1) : sequence;
  let read = after;
  let lastAt: number | undefined;
  for await (const item of client.tail({ sessions: [{ sessionId, after }], handle: me, signal })) {
    await noteOutage(item);
    if (item.kind === 'end') throw await noReply(sessionId, item.reason === 'left' ? 'left' : 'ended');
    if (item.kind === 'event') read = item.event.sequence;
    const mayBeOver = item.kind === 'event' ? item.event.type === 'session.left' : item.kind === 'ready' && !isNew;
    if (mayBeOver && (await isOver(client, { me, sessionId, sequence: read, signal })))
      throw await noReply(sessionId, item.kind === 'event' ? 'othersLeft' : 'noOneElse');
    if (item.kind !== 'event' || !isMessageEvent(item.event)) continue;
    const reply = item.event.payload;
    if (reply.sender === me) lastAt ??= reply.created_at + (question?.waitMs ?? 0);
    const isLate = lastAt === undefined || reply.created_at > lastAt;
    if (!(await isReply(reply)) || (isStrict && (reply.sender !== handle || isLate))) continue;
    if (question === undefined || (await isAnswer(context, question, reply, isFenced))) return reply;
    heard.sequence = reply.sequence;
  }
  return undefined;
}

const NO_REPLY = {
  left: ['this agent left the session before a reply came', 'only joined agents get messages.'],
  ended: ['the session ended without a reply', 'no reply can come unless someone reopens the session.'],
  othersLeft: ['everyone else left without a reply', 'no reply can come unless someone is invited again.'],
  noOneElse: ['no one else is in the session', 'no reply can come unless someone is invited.'],
} as const;

/** Why no reply can come anymore. */
function noReply(sessionId: string, reason: keyof typeof NO_REPLY): Promise<Error> {
  const [what, why] = NO_REPLY[reason];
  return notFound(`${sessionId}: ${what}.`, why, ['asp', 'session', 'show', sessionId], {
    outcome: { not_applied: 'applied' },
    outcomeText: SENT_TEXT,
  });
}

/** Someone who is asked to choose may say something else first; the person who asked sees it. */
async function isAnswer(context: Context, { choices }: Question, reply: Message, isFenced: boolean): Promise<boolean> {
  const { output, random } = context;
  const text = messageText(reply);
  if (choices.length === 0 || isFailureNotice(reply) || findChoice(choices, text) !== undefined) return true;
  // Its lines must not look like ours.
  const said = sanitize(text).replaceAll('\n', '\n  ');
  const shown = isFenced ? await fencedMessage(random, openRelations(context), reply) : `${reply.sender} said: ${said}`;
  // A note for people is one line.
  for (const note of output.format === 'human' ? shown.split('\n') : [shown]) await output.note(note);
  await output.note(`That is not one of the choices (${choices.join(', ')}). Still waiting.`);
  return false;
}
