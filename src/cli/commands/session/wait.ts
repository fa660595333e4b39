import { createOutageNotes } from '../../../agent/persist.js';
import { createReplyMatcher, type IsReply, isOver } from '../../../agent/reply-matcher.js';
import type { Client } from '../../../client/client.js';
import { suggest } from '../../../kit/suggest.js';
import { isMessageEvent } from '../../../wire/event.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { Session } from '../../../wire/schemas/session.js';
import type { Context } from '../../context/context.js';
import { explain, notFound } from '../../context/explain.js';
import { openRelations } from '../../context/relations.js';
import { CliError, usageError } from '../../errors.js';
import { showProgress } from '../../terminal/progress.js';
import { durationText, ifGiven, readHandle, readId } from '../../values.js';
import { fencedMessage, messageText } from '../message/message-text.js';
import { unseenSession } from './participants.js';

const KINDS = ['joined', 'message', 'reply', 'ended', 'left'] as const;

/** What to wait for; `handle`: only this agent; `messageId`: only the reply to this message. */
interface Condition {
  readonly kind: (typeof KINDS)[number];
  readonly handle: string | undefined;
  readonly messageId?: string | undefined;
}

/** `joined`, `joined:alice.bot`, `message`, `reply`, `reply:msg_…`, `ended`, `left`, `left:alice.bot`. */
export function readCondition(text: string): Condition {
  const [word = '', handle, ...rest] = text.split(':');
  const kind = KINDS.find((each) => each === word);
  if (kind === 'reply' && handle !== undefined && rest.length === 0)
    return { kind, handle: undefined, messageId: readId('message', handle) };
  const takesHandle = kind === 'joined' || kind === 'left';
  if (kind !== undefined && rest.length === 0 && (handle === undefined || takesHandle))
    return { kind, handle: ifGiven(handle, readHandle) };
  const [near] = suggest(word, KINDS);
  throw usageError(`Unknown condition '${text}' after --for.`, {
    why:
      near === undefined || near === word
        ? 'use joined, joined:<handle>, message, reply, reply:<message>, ended, left or left:<handle>.'
        : `did you mean ${near}?`,
  });
}

interface WaitOptions {
  readonly sessionId: string;
  readonly condition: Condition;
  /** Undefined: from now on. */
  readonly after: number | undefined;
  readonly isFenced: boolean;
}

/** The event that met the condition, or undefined if the session was already in that state. */
interface Met {
  readonly event: EventEnvelope | null;
}

export async function waitInSession(context: Context, options: WaitOptions): Promise<void> {
  const { sessionId, condition } = options;
  const upTo = context.deadline === undefined ? '' : ` (up to ${durationText(context.deadline.afterMs)})`;
  const text = `waiting for ${describeCondition(options)}${upTo}`;
  const { event } = await showProgress(context, text, wait(context, options));
  const named = condition.handle === undefined ? condition.kind : `${condition.kind}:${condition.handle}`;
  const fenced =
    options.isFenced && event !== null && isMessageEvent(event)
      ? await fencedMessage(context.random, openRelations(context), event.payload)
      : undefined;
  if (fenced !== undefined) return context.output.verbatim(fenced);
  await context.output.document({ session_id: sessionId, condition: named, event }, (safe) =>
    safe.event === null || !isMessageEvent(safe.event) ? safe.session_id : messageText(safe.event.payload),
  );
}

async function wait(context: Context, options: WaitOptions): Promise<Met> {
  const { sessionId } = options;
  const next = ['asp', 'session', 'show', sessionId];
  const after = context.deadline === undefined ? '' : ` after ${durationText(context.deadline.afterMs)}`;
  const me = await context.actingHandle();
  const client = await context.client();
  try {
    const met = await explain(unseenSession(sessionId), follow(context, client, options, me));
    if (met !== undefined) return met;
  } catch (error) {
    if (!context.signal.aborted) throw error;
  }
  if (!context.signal.aborted)
    throw await notFound(
      `${sessionId}: the event can no longer happen.`,
      'the session ended, this agent left it, or everyone else did.',
      next,
    );
  throw new CliError('ASP_TIMEOUT', {
    message: `Timed out${after} waiting for ${describeCondition(options)}.`,
    isRetryable: true,
    next,
  });
}

function describeCondition({ sessionId, condition: { kind, handle = 'another agent' } }: WaitOptions): string {
  if (kind === 'joined') return `${handle} to join ${sessionId}`;
  if (kind === 'left') return `${handle} to leave ${sessionId}`;
  return kind === 'ended' ? `${sessionId} to end` : `a ${kind} in ${sessionId}`;
}

/** Live first, then the state: a change between the two shows up in one of them. */
async function follow(
  context: Context,
  client: Client,
  { sessionId, condition, after }: WaitOptions,
  me: string,
): Promise<Met | undefined> {
  const { signal } = context;
  const { kind, messageId } = condition;
  // The reply answers our own message at `after`: read it again for its id.
  const isReplyTo = kind === 'reply' && messageId === undefined && after !== undefined && after > 0;
  const from = isReplyTo ? after - 1 : (after ?? (messageId === undefined ? undefined : 0));
  const start = from === undefined ? { sessionId, last: 0 } : { sessionId, after: from };
  const isReply = createReplyMatcher(client, { me, sessionId, sequence: after, messageId, signal });
  const noteOutage = createOutageNotes(context);
  let read = from;
  for await (const item of client.tail({ sessions: [start], handle: me, signal })) {
    await noteOutage(item);
    const { event } = item.kind === 'event' ? item : { event: undefined };
    if (event !== undefined && isOfUnknown(condition, event)) {
      const { reply } = await client.call('getSession', { path: { session_id: sessionId }, signal });
      if (isMetBySession(condition, reply, me)) return { event };
    } else if (event !== undefined && (await isMetByEvent(condition, event, me, isReply))) return { event };
    read = event?.sequence ?? read;
    const mayBeOver = kind === 'reply' && (item.kind === 'ready' || event?.type === 'session.left');
    if (mayBeOver && read !== undefined && (await isOver(client, { me, sessionId, sequence: read, signal })))
      return undefined;
    if (item.kind !== 'ready' && item.kind !== 'end') continue;
    const { reply } = await client.call('getSession', { path: { session_id: sessionId }, signal });
    if (isMetBySession(condition, reply, me)) return { event: null };
    // An ended session can still be reopened, but this does not wait for that.
    if (item.kind === 'end' || reply.state === 'ended') return undefined;
  }
  return undefined;
}

/** Whether the service does not name the agent that joined or left: then the session shows it. */
const isOfUnknown = ({ kind }: Condition, { type, payload }: EventEnvelope): boolean =>
  (kind === 'joined' || kind === 'left') && type === `session.${kind}` && typeof payload['agent'] !== 'string';

/** Whether a session is already in the state; messages are only waited for. */
function isMetBySession({ kind, handle }: Condition, session: Session, me: string): boolean {
  if (kind === 'ended') return session.state === 'ended';
  if (kind !== 'joined' && kind !== 'left') return false;
  const isMeant = (one: string): boolean => (handle === undefined ? one !== me : one === handle);
  return session.participants.some((participant) => participant.status === kind && isMeant(participant.handle));
}

async function isMetByEvent(
  { kind, handle }: Condition,
  event: EventEnvelope,
  me: string,
  isReply: IsReply,
): Promise<boolean> {
  if (kind === 'message') return isMessageEvent(event);
  if (kind === 'reply') return isMessageEvent(event) && isReply(event.payload);
  if (event.type !== `session.${kind}`) return false;
  if (kind === 'ended') return true;
  const { agent } = event.payload;
  return handle === undefined ? agent !== me : agent === handle;
}
