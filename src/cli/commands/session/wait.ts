import type { Client } from '../../../client/client.js';
import { type EventEnvelope, isMessageEvent } from '../../../wire/event.js';
import type { Context } from '../../context/context.js';
import { type About, explain } from '../../context/explain.js';
import { CliError, UsageError } from '../../terminal/cli-error.js';
import { withProgress } from '../../terminal/progress.js';
import { readCount, readId } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { messageText } from '../message/message-text.js';
import { isMetByEvent, isMetBySession, readCondition, type WaitCondition } from './wait-condition.js';

export interface WaitOptions {
  readonly sessionId: string;
  readonly condition: WaitCondition;
  /** Undefined: from now on. */
  readonly after: number | undefined;
}

export function parse(words: Words): WaitOptions {
  const condition = words.text('for');
  const after = words.text('after');
  const sessionId = readId('session', words.arguments[0] ?? '');
  if (condition === undefined)
    throw new UsageError('What is to be waited for?', {
      next: ['asp', 'session', 'wait', sessionId, '--for', 'reply'],
    });
  return {
    sessionId,
    condition: readCondition(condition),
    after: after === undefined ? undefined : readCount('--after', after),
  };
}

/** What was waited for: the event that brought it, or nothing when the session was that way already. */
interface Met {
  readonly event: EventEnvelope | null;
}

export async function run(context: Context, options: WaitOptions): Promise<void> {
  const { globals, streams, clock } = context;
  const { sessionId, condition } = options;
  const isAllowed = streams.stderr.isTerminal && !globals.isQuiet && !globals.isAccessible;
  const { event } = await withProgress({ clock, isAllowed }, 'waiting', wait(context, options));
  const named = condition.handle === undefined ? condition.kind : `${condition.kind}:${condition.handle}`;
  await context.output.document({ session_id: sessionId, condition: named, event }, (safe) =>
    safe.event !== null && isMessageEvent(safe.event) ? messageText(safe.event.payload.content) : safe.session_id,
  );
}

async function wait(context: Context, options: WaitOptions): Promise<Met> {
  const { sessionId } = options;
  const next = ['asp', 'session', 'show', sessionId];
  const about: About = {
    subject: sessionId,
    messages: { NOT_FOUND: `${sessionId} cannot be seen by this agent.` },
    next: { NOT_FOUND: ['asp', 'session', 'list'] },
  };
  const notInTime = (message: string): CliError =>
    new CliError('ASP_TIMEOUT', { message: `${sessionId}: ${message}`, isRetryable: true, next });
  const me = await context.actingHandle();
  const client = await context.client();
  try {
    const met = await explain(about, follow(context, client, options, me));
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
