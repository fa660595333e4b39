import { MESSAGE_SEARCH_LIMIT_MAX, SEARCH_LIMIT_DEFAULT } from '../../../wire/limit.js';
import type { Context } from '../../context/context.js';
import { read } from '../../context/write.js';
import { readHandle, readId, readSearchText } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { messageColumns } from './message-columns.js';

export interface SearchMessagesOptions {
  readonly text: string;
  readonly sessionId: string | undefined;
  readonly counterpart: string | undefined;
  readonly limit: number;
}

export function parse(words: Words): SearchMessagesOptions {
  const session = words.text('session');
  const counterpart = words.text('with');
  return {
    text: readSearchText(words.arguments.join(' ')),
    sessionId: session === undefined ? undefined : readId('session', session),
    counterpart: counterpart === undefined ? undefined : readHandle(counterpart),
    limit: words.count('limit', { min: 1, max: MESSAGE_SEARCH_LIMIT_MAX }) ?? SEARCH_LIMIT_DEFAULT,
  };
}

export async function run(context: Context, options: SearchMessagesOptions): Promise<void> {
  const { text: q, sessionId, counterpart, limit } = options;
  const query = {
    q,
    limit,
    ...(sessionId !== undefined && { session_id: sessionId }),
    ...(counterpart !== undefined && { counterpart }),
  };
  const { messages } = await read(context, 'searchMessages', { query });
  const page = { items: messages, next_cursor: null };
  await context.output.list(page, messageColumns(context.clock.now(), sessionId === undefined));
  if (messages.length === 0) await context.output.note('No message matches in the sessions this agent has joined.');
}
