import { type EventEnvelope, isMessageEvent } from '../../../wire/event.js';
import type { Message } from '../../../wire/message.js';
import type { Context } from '../../context/context.js';
import { readCount, readHandles, readId } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { readSessionEvents } from '../session/read-session-events.js';
import { messageColumns } from './message-columns.js';

export interface ListMessagesOptions {
  readonly sessionId: string;
  /** Undefined: the last ones. */
  readonly after: number | undefined;
  readonly limit: number;
  readonly from: readonly string[];
}

const LIMIT_DEFAULT = 50;
const LIMIT_MAX = 100_000;

export function parse(words: Words): ListMessagesOptions {
  for (const option of ['limit', 'all']) words.refuseBoth('last', option);
  words.refuseBoth('last', 'after');
  words.refuseBoth('limit', 'all');
  const after = words.text('after');
  const range = { min: 1, max: LIMIT_MAX };
  const limit = words.count('last', range) ?? words.count('limit', range) ?? LIMIT_DEFAULT;
  return {
    sessionId: readId('session', words.arguments[0] ?? ''),
    after: after === undefined ? undefined : readCount('--after', after),
    limit: words.flag('all') ? Number.POSITIVE_INFINITY : limit,
    from: readHandles(words.texts('from')),
  };
}

/** The last messages, or the first after a sequence; the events between them are left out. */
export async function run(context: Context, options: ListMessagesOptions): Promise<void> {
  const { sessionId, after, limit, from } = options;
  const items: Message[] = [];
  let next: string | null = null;
  for await (const event of readSessionEvents(context, sessionId, after)) {
    const message = messageOf(event, from);
    if (message === undefined) continue;
    if (after !== undefined && items.length === limit) {
      next = String(items.at(-1)?.sequence ?? after);
      break;
    }
    items.push(message);
    if (items.length > limit) items.shift();
  }
  const page = { items, next_cursor: next };
  await context.output.list(page, messageColumns(context.clock.now(), false));
  if (items.length === 0) await context.output.note('No messages.');
  else if (next !== null) await context.output.note(`There are more: --after ${next}`);
}

function messageOf(event: EventEnvelope, from: readonly string[]): Message | undefined {
  if (!isMessageEvent(event)) return undefined;
  return from.length === 0 || from.includes(event.payload.sender) ? event.payload : undefined;
}
