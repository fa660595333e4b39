import type { Client } from '../../../client/client.js';
import { type EventEnvelope, isMessageEvent } from '../../../wire/event.js';
import type { Session } from '../../../wire/session.js';
import type { Context } from '../../context/context.js';
import { explain } from '../../context/explain.js';
import { CliError, UsageError } from '../../errors.js';
import { suggest } from '../../suggest.js';
import { showProgress } from '../../terminal/progress.js';
import { readHandle } from '../../values.js';
import { messageText } from '../message/message-text.js';
import { unseenSession } from './facts.js';

const KINDS = ['joined', 'message', 'reply', 'ended', 'left'] as const;

/** What to wait for; `handle`: that this very agent joined or left. */
interface Condition {
  readonly kind: (typeof KINDS)[number];
  readonly handle: string | undefined;
}

/** `joined`, `joined:alice.bot`, `message`, `reply`, `ended`, `left`, `left:alice.bot`. */
export function readCondition(text: string): Condition {
  const [word = '', handle, ...rest] = text.split(':');
  const kind = KINDS.find((each) => each === word);
  const takesHandle = kind === 'joined' || kind === 'left';
  if (kind !== undefined && rest.length === 0 && (handle === undefined || takesHandle))
    return { kind, handle: handle === undefined ? undefined : readHandle(handle) };
  const [near] = suggest(word, KINDS);
  throw new UsageError(`--for '${text}' is nothing to wait for.`, {
    why:
      near === undefined || near === word
        ? 'it is joined, joined:<handle>, message, reply, ended, left or left:<handle>.'
        : `did you mean ${near}?`,
  });
}

interface WaitOptions {
  readonly sessionId: string;
  readonly condition: Condition;
  /** Undefined: from now on. */
  readonly after: number | undefined;
}

/** What met the condition: an event, or nothing when the session was that way already. */
interface Met {
  readonly event: EventEnvelope | null;
}

export async function waitInSession(context: Context, options: WaitOptions): Promise<void> {
  const { sessionId, condition } = options;
  const { event } = await showProgress(context, 'waiting', wait(context, options));
  const named = condition.handle === undefined ? condition.kind : `${condition.kind}:${condition.handle}`;
  await context.output.document({ session_id: sessionId, condition: named, event }, (safe) =>
    safe.event !== null && isMessageEvent(safe.event) ? messageText(safe.event.payload.content) : safe.session_id,
  );
}

async function wait(context: Context, options: WaitOptions): Promise<Met> {
  const { sessionId } = options;
  const next = ['asp', 'session', 'show', sessionId];
  const notInTime = (message: string): CliError =>
    new CliError('ASP_TIMEOUT', { message: `${sessionId}: ${message}`, isRetryable: true, next });
  const me = await context.actingHandle();
  const client = await context.client();
  try {
    const met = await explain(unseenSession(sessionId), follow(context, client, options, me));
    if (met !== undefined) return met;
  } catch (error) {
    if (!context.signal.aborted) throw error;
  }
  throw notInTime(
    context.signal.aborted ? 'it did not come in time.' : 'the session ended before it came, or this agent left it.',
  );
}

/** Live first, then the state: what happens between the two is seen in one of them. */
async function follow(
  context: Context,
  client: Client,
  { sessionId, condition, after }: WaitOptions,
  me: string,
): Promise<Met | undefined> {
  const { signal } = context;
  const start = after === undefined ? { sessionId, last: 0 } : { sessionId, after };
  for await (const item of client.tail({ sessions: [start], handle: me, signal })) {
    if (item.kind === 'event' && isMetByEvent(condition, item.event, me)) return { event: item.event };
    if (item.kind !== 'ready' && item.kind !== 'end') continue;
    const { reply } = await client.call('getSession', { path: { session_id: sessionId }, signal });
    if (isMetBySession(condition, reply, me)) return { event: null };
    // A session that is over can still be reopened, but nobody waits for that here.
    if (item.kind === 'end' || reply.state === 'ended') return undefined;
  }
  return undefined;
}

/** Whether a session is that way already; messages are only waited for. */
function isMetBySession({ kind, handle }: Condition, session: Session, me: string): boolean {
  if (kind === 'ended') return session.state === 'ended';
  if (kind !== 'joined' && kind !== 'left') return false;
  const isMeant = (one: string): boolean => (handle === undefined ? one !== me : one === handle);
  return session.participants.some((participant) => participant.status === kind && isMeant(participant.handle));
}

function isMetByEvent({ kind, handle }: Condition, event: EventEnvelope, me: string): boolean {
  if (kind === 'message') return isMessageEvent(event);
  if (kind === 'reply') return isMessageEvent(event) && event.payload.sender !== me;
  if (event.type !== `session.${kind}`) return false;
  if (kind === 'ended') return true;
  const { agent } = event.payload;
  return handle === undefined ? agent !== me : agent === handle;
}
