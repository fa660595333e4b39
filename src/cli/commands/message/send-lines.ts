import { wait } from '../../../kit/clock.js';
import { RATE_LIMIT } from '../../../wire/limit.js';
import type { Context } from '../../context/context.js';
import { UsageError } from '../../terminal/cli-error.js';
import { endSession, sendMessage } from './deliver.js';
import { readLines } from './message-source.js';
import type { SendOptions, Target } from './send-options.js';
import { showSent } from './send-result.js';

/** How far into its window a stream of messages may run ahead of its limit. */
const { count, window_ms: windowMs } = RATE_LIMIT.sendMessage;

/** One message for each line of standard input, in order, no faster than the session's limit. */
export async function sendLines(context: Context, options: SendOptions): Promise<void> {
  const { clock, signal, globals } = context;
  if (globals.idempotencyKey !== undefined || globals.once !== undefined)
    throw new UsageError('--lines sends many messages: a key cannot stand for all of them.');
  if (globals.isDryRun) throw new UsageError('--lines cannot be combined with --dry-run.');
  const sentAt: number[] = [];
  let target: Target = options.target;
  for await (const line of readLines(context)) {
    const oldest = sentAt.length < count ? undefined : sentAt.shift();
    const delayMs = oldest === undefined ? 0 : oldest + windowMs - clock.monotonic();
    if (delayMs > 0) await wait(clock, delayMs, signal);
    const message = { content: line, ...(options.metadata && { metadata: { ...options.metadata } }) };
    const result = await sendMessage(context, { target, topic: options.topic, ends: false }, message, false);
    sentAt.push(clock.monotonic());
    target = { kind: 'session', sessionId: result.session_id };
    await showSent(context, result);
  }
  if (sentAt.length === 0) throw new UsageError('Standard input held no line. Nothing was sent.');
  if (options.ends && target.kind === 'session') await endSession(context, target.sessionId, 'The messages were sent');
}
