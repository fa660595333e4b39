import type { CallResult } from '../../../client/client.js';
import { RequestError } from '../../../client/http/request-error.js';
import { abortAfter } from '../../../kit/clock.js';
import { quoteArgs } from '../../../kit/format.js';
import { randomUuid } from '../../../kit/random.js';
import { AWAITS_REPLY, CHOICES, findChoice, findInReplyTo, HOPS, isFailureNotice } from '../../../wire/message.js';
import { findOpenSessions } from '../../../wire/open-session.js';
import type { InitialMessage } from '../../../wire/schemas/requests.js';
import { printRequest, read, write } from '../../context/calls.js';
import { rememberSession } from '../../context/completion-memory.js';
import type { Context } from '../../context/context.js';
import { type ErrorContext, findErrorContext, ifNotFound, withContext } from '../../context/explain.js';
import { openRelations } from '../../context/relations.js';
import { CliError, isUsageError, usageError } from '../../errors.js';
import { nothingSent } from '../../input.js';
import { isReaderGone } from '../../terminal/streams.js';
import { fencedMessage, messageText } from '../message/message-text.js';
import type { OutputOf } from '../schema/output-shapes.js';
import { findSession, severalWith } from '../session/find-session.js';
import { readInvited, refuseOmissions, unreachableAgents } from '../session/participants.js';
import { explainRefusal, isNotFound, lookAtSession } from '../session/refusal.js';
import type { AgentLimits } from './agent-limits.js';
import type { AskOptions } from './ask.js';
import { buildContent, readLines } from './content.js';
import { findAgentLimits } from './find-agent-limits.js';
import { findHops } from './hops.js';
import type { SendOptions, Target } from './send.js';
import {
  isStoppedBySignal,
  listen,
  type Question,
  refuseOtherAnswer,
  waitForRecipients,
  waitForReply,
} from './wait.js';

type SendResult = OutputOf<'message send'>;

/** Options that most messages do not need. */
export const PLAIN_MESSAGE = {
  files: [],
  filename: undefined,
  isAsText: false,
  attachmentIds: [],
  data: [],
  parts: undefined,
  metadata: undefined,
  topic: undefined,
  continues: false,
  ends: false,
  waits: false,
  isFenced: false,
  waitsFor: undefined,
  endsAfterReply: false,
  isEdited: false,
  isByLines: false,
  isStrict: false,
} as const satisfies Partial<SendOptions>;

/** Asks one agent, and prints its answer. */
export async function ask(context: Context, { choices, expected, waitMs, ...asked }: AskOptions): Promise<void> {
  await send(context, {
    ...PLAIN_MESSAGE,
    ...asked,
    ...(choices.length > 0 && { metadata: { [CHOICES]: [...choices] } }),
    waits: true,
    endsAfterReply: asked.target.kind === 'handles',
    question: { choices, expected, waitMs },
  });
}

/** A question for one agent, on which something depends that no one else may decide. */
export interface StrictQuestion {
  readonly handle: string;
  readonly topic: string;
  readonly text: string;
  readonly choices: readonly string[];
  readonly metadata: Readonly<Record<string, string>>;
  readonly waitMs: number;
  /** Its session exists from now on. */
  readonly onSent: (sessionId: string) => Promise<void>;
}

/** How long the end of a session is tried for after its question. */
const END_WITHIN_MS = 5_000;

/**
 * The choice that the agent makes, in a session that begins with the question and ends with the wait, whatever comes of it;
 * undefined if the agent could not process the question.
 * @throws RequestError or CliError if there is no answer.
 */
export async function askStrictly(outer: Context, question: StrictQuestion): Promise<string | undefined> {
  const { handle, topic, text, choices, metadata, waitMs, onSent } = question;
  const { clock } = outer;
  const late = (): Error => new Error('The wait is over.');
  let sessionId: string | undefined;
  const askWithin = async (signal: AbortSignal): Promise<string | undefined> => {
    const context = { ...outer, signal };
    const sent = await sendMessage(context, {
      ...PLAIN_MESSAGE,
      target: { kind: 'handles', handles: [handle] },
      topic,
      text: { kind: 'given', text },
      metadata: { ...metadata, [CHOICES]: [...choices] },
    });
    if (sent === undefined) return undefined;
    sessionId = sent.session_id;
    await onSent(sessionId);
    const reply = await listen(context, sent, {
      isFenced: false,
      question: { choices, expected: undefined, waitMs, isStrict: true },
    });
    return isFailureNotice(reply) ? undefined : findChoice(choices, messageText(reply));
  };
  try {
    return await abortAfter(clock, waitMs, late, askWithin, outer.signal);
  } finally {
    const id = sessionId;
    // A session that cannot be ended now has a question that no one waits for, and that says until when it counted.
    if (id !== undefined)
      await abortAfter(clock, END_WITHIN_MS, late, (signal) =>
        endSession({ ...outer, signal }, id, 'The question is over').catch(() => {}),
      );
  }
}

/** A message as any command sends it. */
type Sending = Omit<SendOptions, 'metadata'> & {
  readonly metadata: Readonly<Record<string, string | string[] | number>> | undefined;
  readonly question?: Question;
  /** Answers a message of the session. */
  readonly isAnswer?: boolean;
  /** Limited even if the environment does not show that a coding agent sends it. */
  readonly isForAgent?: boolean;
  readonly limits?: AgentLimits | undefined;
};

export async function send(outer: Context, named: Sending): Promise<void> {
  const options = { ...named, target: await findTarget(outer, named), limits: await findAgentLimits(outer, named) };
  if (options.isByLines) return sendLines(outer, options);
  if (options.waits || options.waitsFor !== undefined) await refuseSelf(outer, options.target);
  // Afterwards, no one could tell whether it arrived.
  if (options.waitsFor !== undefined && !outer.globals.isDryRun)
    await (await import('../session/delivery.js')).requireDelivery(outer);
  const context = options.files.length === 0 ? outer : withOneKey(outer);
  const sent = await (options.isEdited ? sendDraft(context, options) : sendMessage(context, options));
  if (sent === undefined) return;
  if (sent.created_session) await rememberSession(context, { ...sent, topic: options.topic });
  if (options.waits) await printReply(context, sent, options);
  else if (options.waitsFor !== undefined) {
    await noteSent(context, sent);
    await printSent(context, { ...sent, delivery: await waitForRecipients(context, sent, options.waitsFor) });
  } else {
    const isEndedApart = options.ends && options.target.kind === 'session';
    if (isEndedApart) await endSession(context, sent.session_id, 'The message was sent');
    const shown: SendResult = { ...sent, state: isEndedApart ? 'ended' : sent.state };
    await noteSent(context, shown);
    await printSent(context, shown);
  }
  if (options.isStrict) refuseOmissions(sent.omitted, 'The message was sent.');
}

/** Waits for the reply, and prints it even if the session cannot be ended then. */
async function printReply(context: Context, sent: SendResult, options: Sending): Promise<void> {
  const { question } = options;
  await noteSent(context, sent);
  const reply = await waitForReply(context, sent, options);
  const choice = findChoice(question?.choices ?? [], messageText(reply));
  const isMatched = findInReplyTo(reply) !== undefined;
  if (!isMatched) await context.output.detail('The reply does not say which message it answers.');
  const ended = options.endsAfterReply ? endSession(context, sent.session_id, 'The reply came') : undefined;
  const isEnded = await ended?.then(
    () => true,
    () => false,
  );
  const result: SendResult = {
    ...sent,
    state: isEnded === true ? 'ended' : sent.state,
    reply,
    reply_matched: isMatched,
    ...(choice !== undefined && { choice }),
  };
  await printSent(context, result, options.isFenced);
  await ended;
  if (question !== undefined) refuseOtherAnswer(reply, choice, question.expected);
}

async function findTarget(context: Context, { target, continues }: Sending): Promise<Target> {
  if (target.kind === 'session') return { kind: 'session', sessionId: await findSession(context, target.sessionId) };
  const [handle] = target.handles;
  if (!continues || handle === undefined) return target;
  const { idempotencyKey, once } = context.globals;
  if (idempotencyKey !== undefined || once !== undefined)
    throw usageError(`--continue cannot be combined with ${once === undefined ? '--idempotency-key' : '--once'}.`, {
      why: 'a repetition would find the session that the first attempt created, and send another request.',
    });
  const me = await context.actingHandle();
  const open = await findOpenSessions(me, handle, (query) => read(context, 'listSessions', { query }));
  if (open.length > 1) throw await severalWith(context, handle, open);
  return open[0] === undefined ? target : { kind: 'session', sessionId: open[0].id };
}

/** An agent that writes only to itself would wait for no one. */
async function refuseSelf(context: Context, target: Target): Promise<void> {
  if (target.kind !== 'handles') return;
  const me = await context.knownHandle();
  if (target.handles.some((handle) => handle !== me)) return;
  throw usageError(`You act as ${me}, so no one else would get this.`, {
    why: 'to write to it from another agent, add --as with the handle of that one.',
  });
}

/** One key for uploads and message: a repetition with it attaches the same files, and the request is the same. */
function withOneKey(context: Context): Context {
  const { globals, random } = context;
  if (globals.idempotencyKey !== undefined || globals.once !== undefined || globals.isDryRun) return context;
  return { ...context, globals: { ...globals, idempotencyKey: randomUuid(random) } };
}

/** Sends the text that the user writes in an editor. A text that could not be sent stays in its file (D-205). */
async function sendDraft(context: Context, options: Sending): Promise<SendResult | undefined> {
  // A user who is not signed in should learn it before writing.
  if (!context.globals.isDryRun) await (await context.credential()).accessToken('api', { signal: context.signal });
  const { editDraft } = await import('../../terminal/editor.js');
  const unchanged = 'Nothing was sent.';
  const draft = await editDraft(context, { file: 'message.md', text: '', unchanged });
  if (draft === undefined) throw usageError(`The message is empty. ${unchanged}`);
  const { path } = draft;
  try {
    const sent = await sendMessage(context, { ...options, text: { kind: 'draft', path } });
    await draft.discard();
    return sent;
  } catch (error) {
    await context.output.note(`Your text is in ${path}. To send it: -F ${path}.`);
    throw error;
  }
}

/** One message with all its parts; undefined if its request was only printed. */
async function sendMessage(context: Context, options: Sending): Promise<SendResult | undefined> {
  const { content, uploaded, isRepeatable } = await buildContent(context, options);
  const message = { content, ...(await withMetadata(context, options)) };
  const { target, limits } = options;
  await limits?.check(message, findSessionId(target));
  if (!context.globals.isDryRun) {
    const sent = await post(context, options, message, { attachments: uploaded, isRepeatable }).catch(
      async (error: unknown) => {
        if (isStoppedBySignal(context) && error instanceof RequestError) await tellOutcome(context, error);
        throw error;
      },
    );
    await limits?.count();
    return sent;
  }
  if (target.kind === 'handles') await printRequest(context, 'createSession', { body: sessionBody(options, message) });
  else await printRequest(context, 'sendMessage', { path: { session_id: target.sessionId }, body: message });
  return undefined;
}

/** A signal ends the command without an error, which would say it. */
async function tellOutcome({ output }: Context, { outcome, idempotencyKey }: RequestError): Promise<void> {
  const again = `With --idempotency-key ${idempotencyKey}, running the command again cannot send it twice.`;
  await output.note(`${OUTCOME_TEXT[outcome]}${outcome === 'unknown' ? ` ${again}` : ''}`);
}

/** The metadata of a message. The same options give the same metadata, so a repetition has the same body. */
async function withMetadata(context: Context, { metadata, waits }: Sending): Promise<Pick<InitialMessage, 'metadata'>> {
  const hops = await findHops(context);
  const given = metadata?.[HOPS];
  const all = {
    ...metadata,
    // Counts no loop too low: the message that this answers may have fewer than the one that the program works on.
    ...(hops !== undefined && typeof given !== 'string' && { [HOPS]: Math.max(hops, Number(given ?? 0)) }),
    ...(waits && { [AWAITS_REPLY]: true }),
  };
  return Object.keys(all).length > 0 ? { metadata: all } : {};
}

const findSessionId = (target: Target): string | undefined =>
  target.kind === 'session' ? target.sessionId : undefined;

type Addressed = Pick<Sending, 'target' | 'topic' | 'ends'>;

function sessionBody({ target, topic, ends }: Addressed, message: InitialMessage) {
  return {
    invite: target.kind === 'handles' ? [...target.handles] : [],
    ...(topic === undefined ? {} : { topic }),
    initial_message: message,
    ...(ends ? { end_after_send: true } : {}),
  };
}

interface Posting {
  readonly attachments: readonly string[];
  readonly isRepeatable: boolean;
  /** Keeps the keys of several messages apart. */
  readonly suffix?: string;
}

/** Posts a message: to the session, or to the handles in a new one. */
async function post(
  context: Context,
  options: Addressed,
  message: InitialMessage,
  { attachments, isRepeatable, suffix = '' }: Posting,
): Promise<SendResult> {
  const { target, ends } = options;
  const isNew = target.kind === 'handles';
  const named = attachmentIdsOf(message).filter((id) => !attachments.includes(id));
  const known = isNew ? unreachable(target.handles, isRepeatable) : unwritable(target.sessionId, isRepeatable);
  const errorContext = withAttachments(known, named);
  const { call, sessionId } = isNew
    ? await postNew(context, sessionBody(options, message), errorContext, suffix)
    : await postInto(context, target.sessionId, message, errorContext, suffix);
  const as = (await context.knownHandle()) ?? null;
  const answered = findInReplyTo(message);
  // The agent that creates a session is in it already.
  const invitees = isNew ? target.handles.filter((handle) => handle !== as) : [];
  const isCertain = !isNew || target.handles.length === 1;
  const invited = isCertain ? invitees : await readInvited(context, sessionId, invitees);
  return {
    session_id: sessionId,
    message_id: call.reply.message_id,
    sequence: call.reply.sequence,
    state: isNew && ends ? 'ended' : 'active',
    created_session: isNew,
    invited,
    omitted: invited && invitees.filter((handle) => !invited.includes(handle)),
    attachments,
    idempotency_key: call.idempotencyKey ?? null,
    attempts: call.attempts,
    as,
    ...(answered !== undefined && { in_reply_to: answered }),
  };
}

interface Posted {
  readonly call: CallResult<{ readonly message_id: string | null; readonly sequence: number | null }>;
  readonly sessionId: string;
}

async function postNew(
  context: Context,
  body: ReturnType<typeof sessionBody>,
  errorContext: ErrorContext,
  suffix: string,
): Promise<Posted> {
  const call = await write(context, 'createSession', { body }, errorContext, suffix);
  return { call, sessionId: call.reply.session_id };
}

async function postInto(
  context: Context,
  sessionId: string,
  body: InitialMessage,
  errorContext: ErrorContext,
  suffix: string,
): Promise<Posted> {
  const path = { session_id: sessionId };
  const call = await write(context, 'sendMessage', { path, body }, errorContext, suffix).catch(async (error) => {
    throw await explainRefusal(context, sessionId, error);
  });
  return { call, sessionId };
}

const OUTCOME_TEXT = {
  not_applied: 'Nothing was sent.',
  applied: 'It was sent.',
  unknown: 'It may have been sent.',
} as const;

const unwritable = (sessionId: string, isRepeatable: boolean): ErrorContext => ({
  subject: sessionId,
  isRepeatable,
  outcomeText: OUTCOME_TEXT,
  ...ifNotFound(
    `This agent cannot write to ${sessionId}.`,
    ['asp', 'session', 'show', sessionId],
    'the service gives the same answer for an unknown session, an ended one, and one that this agent has not joined.',
  ),
});

const NAMED_MAX = 5;

function unreachable(handles: readonly string[], isRepeatable: boolean): ErrorContext {
  const [first = ''] = handles;
  const named =
    handles.length > NAMED_MAX
      ? `${handles.slice(0, NAMED_MAX).join(', ')} and ${handles.length - NAMED_MAX} more`
      : handles.join(', ');
  const message = handles.length === 1 ? `${first} could not be reached.` : `None of ${named} could be reached.`;
  return { ...unreachableAgents(first, named, message), isRepeatable, outcomeText: OUTCOME_TEXT };
}

/** The attachments that a message refers to. */
const attachmentIdsOf = ({ content }: InitialMessage): string[] =>
  typeof content === 'string'
    ? []
    : content.flatMap((part) => ('attachment_id' in part ? (part.attachment_id ?? []) : []));

/** The service gives the same answer for an attachment that this agent cannot use, so the error must not blame only the recipient. */
function withAttachments(context: ErrorContext, ids: readonly string[]): ErrorContext {
  const [first] = ids;
  if (first === undefined) return context;
  const named = ids.length === 1 ? first : 'one of the attachments';
  const message = `${context.subject} or ${named} could not be reached.`;
  const reason = 'the service does not say which; an unused attachment is deleted after an hour.';
  return { ...context, ...ifNotFound(message, ['asp', 'attachment', 'show', first], reason) };
}

/** A separate request, unless someone else has ended the session since. `done` says what was done before it. */
async function endSession(context: Context, sessionId: string, done: string): Promise<void> {
  const about: ErrorContext = {
    subject: sessionId,
    again: ['asp', 'session', 'end', sessionId],
    outcomeText: {
      not_applied: `${done}; the session was not ended.`,
      unknown: `${done}; the session may have ended.`,
      applied: '',
    },
    outcome: { not_applied: 'applied' },
  };
  try {
    await write(context, 'endSession', { path: { session_id: sessionId } }, about);
  } catch (error) {
    const seen = isNotFound(error) ? await lookAtSession(context, sessionId) : undefined;
    if (seen?.session.state !== 'ended') throw error;
  }
}

/** One message for each line of standard input, in order. If the service limits them, each waits as long as it asks. */
async function sendLines(outer: Context, options: Sending): Promise<void> {
  if (outer.globals.isDryRun) throw usageError('--lines cannot be combined with --dry-run.');
  const context = withOneKey(outer);
  let target: Target = options.target;
  let omitted: readonly string[] | null = [];
  let sentCount = 0;
  try {
    for await (const line of readLines(context)) {
      const message = { content: line, ...(await withMetadata(context, options)) };
      const addressed = { target, topic: options.topic, ends: false };
      // The lines of a program, not of a model: all together count as one message.
      if (sentCount === 0) await options.limits?.check(message, findSessionId(target));
      const posting = { attachments: [], isRepeatable: false, suffix: `/${sentCount + 1}` };
      const sent = await post(context, addressed, message, posting);
      if (sentCount === 0) await options.limits?.count();
      sentCount += 1;
      if (sent.created_session) {
        omitted = sent.omitted;
        await rememberSession(context, { ...sent, topic: options.topic });
      }
      target = { kind: 'session', sessionId: sent.session_id };
      // One note for many lines.
      if (sentCount === 1) await noteSent(context, sent);
      await printSent(context, sent);
    }
    if (sentCount > 1 && context.output.format === 'human') await context.output.note(`Sent ${sentCount} messages.`);
  } catch (error) {
    throw explainLine(context, error, { sentCount, isKeyGiven: context === outer });
  }
  if (sentCount === 0) throw usageError('Standard input was empty. Nothing was sent.');
  if (options.ends && target.kind === 'session') await endSession(context, target.sessionId, 'The messages were sent');
  if (options.isStrict) refuseOmissions(omitted, 'The messages were sent.');
}

const isBadLine = (error: unknown): error is CliError =>
  isUsageError(error) || (error instanceof CliError && error.code === 'ASP_FILE_TOO_LARGE');

/**
 * The line that could not be sent, and how to send the rest: each line's key is derived from one key for all of them,
 * so the same lines can be passed again.
 */
function explainLine(
  { globals, signal }: Context,
  error: unknown,
  { sentCount, isKeyGiven }: { sentCount: number; isKeyGiven: boolean },
): unknown {
  const hasReaderLeft = isReaderGone(error) || isReaderGone(signal.reason);
  const isOurs = error instanceof RequestError || isBadLine(error) || signal.aborted || hasReaderLeft;
  if (!isOurs) return error;
  const outcome = error instanceof RequestError ? error.outcome : 'not_applied';
  const key =
    globals.once === undefined ? ['--idempotency-key', globals.idempotencyKey ?? ''] : ['--once', globals.once];
  const why = `pass the same lines again with ${quoteArgs(key)}: lines that were sent are not sent again.`;
  if (hasReaderLeft) {
    const inDoubt = outcome === 'unknown' ? ` Line ${sentCount + 1} may have been sent.` : '';
    return new CliError('ASP_PARTIAL', {
      message: `Standard output was closed, so later lines were not sent. Sent: ${sentCount}.${inDoubt}`,
      why,
      outcome: outcome === 'unknown' ? 'unknown' : 'applied',
    });
  }
  if (sentCount === 0) {
    if (isBadLine(error)) return nothingSent(error);
    const context = findErrorContext(error);
    if (outcome !== 'unknown' || context === undefined || !(error instanceof RequestError)) return error;
    return withContext(error, { ...context, reasons: { [error.code]: why } });
  }
  const reason = signal.aborted || !(error instanceof Error) ? 'timed out' : error.message.replace(/[.!?]$/, '');
  const what = outcome === 'unknown' ? 'may have been sent' : 'was not sent';
  return new CliError('ASP_PARTIAL', {
    message: `Line ${sentCount + 1} ${what}: ${reason}. Sent before it: ${sentCount}.`,
    why,
    outcome: outcome === 'unknown' ? 'unknown' : 'applied',
    // Without the key, the same lines would be sent a second time.
    isRetryable: isKeyGiven && error instanceof RequestError && error.isRetryable,
    cause: error,
  });
}

async function noteSent({ output }: Context, sent: SendResult): Promise<void> {
  if (output.format !== 'human') return;
  const as = sent.as === null ? '' : ` as ${sent.as}`;
  const end = sent.state === 'ended' ? '; session ended' : '';
  await output.note(`${describeSent(sent)}${as}${end}.${sent.attempts > 1 ? ` (${sent.attempts} tries)` : ''}`);
  if (sent.omitted !== null && sent.omitted.length > 0) await output.note(`Left out: ${sent.omitted.join(', ')}.`);
}

/** An agent that creates a session with only itself sends to no one. */
function describeSent({ created_session, invited, omitted, session_id }: SendResult): string {
  if (!created_session || invited === null) return `Sent to ${session_id}`;
  if (invited.length > 0) return `Sent to ${invited.join(', ')}`;
  return `Written to ${session_id}${omitted !== null && omitted.length > 0 ? '' : ', which has no other members,'}`;
}

/** The main id, or the reply. */
async function printSent(context: Context, sent: SendResult, isFenced = false): Promise<void> {
  const { output, random } = context;
  if (isFenced && sent.choice !== undefined) return output.text(sent.choice);
  if (isFenced && sent.reply !== undefined)
    return output.verbatim(await fencedMessage(random, openRelations(context), sent.reply));
  await output.document(sent, (safe) => {
    if (safe.choice !== undefined) return safe.choice;
    if (safe.reply !== undefined) return messageText(safe.reply);
    return safe.created_session || safe.message_id === null ? safe.session_id : safe.message_id;
  });
}
