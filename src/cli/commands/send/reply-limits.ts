import { isMessageEvent } from '../../../wire/event.js';
import { IN_REPLY_TO, toText } from '../../../wire/message.js';
import { collectOwn, describeLimit, findReplyLimit, type Said } from '../../../wire/reply-limit.js';
import type { Context } from '../../context/context.js';
import { openRelations } from '../../context/relations.js';
import { CliError } from '../../errors.js';
import { readEventsBack } from '../session/session-events.js';

/** A session with more events than this since the last message of a person counts as if it began there. */
const EVENTS_MAX = 1_000;

/**
 * Keeps two coding agents from answering each other forever. This process remembers nothing, so the count comes from the
 * log of the session.
 * @throws CliError `ASP_LIMIT` if the message would exceed a limit.
 */
export async function refuseLoop(context: Context, me: string, sessionId: string, next: Said): Promise<void> {
  const relationOf = openRelations(context);
  const collected = collectOwn(me, async (handle) => (await relationOf(handle)) !== 'anyone');
  let left = EVENTS_MAX;
  for await (const event of readEventsBack(context, sessionId)) {
    left -= 1;
    if (left < 0 || (isMessageEvent(event) && !(await collected.add(event.payload)))) break;
  }
  const { once, idempotencyKey } = context.globals;
  const isRepeated = (once ?? idempotencyKey) !== undefined && isSame(collected.own.at(-1), next);
  // The service has the message already, and sends nothing twice.
  const limit = findReplyLimit(isRepeated ? collected.own.slice(0, -1) : collected.own, next);
  if (limit === undefined) return;
  throw new CliError('ASP_LIMIT', {
    message: `Nothing was sent to ${sessionId}: the limit ${limit} of asp reply --for-agent is reached.`,
    why: describeLimit(limit),
  });
}

const isSame = (sent: Said | undefined, next: Said): boolean =>
  sent?.metadata?.[IN_REPLY_TO] === next.metadata?.[IN_REPLY_TO] &&
  toText(sent?.content ?? '') === toText(next.content);
