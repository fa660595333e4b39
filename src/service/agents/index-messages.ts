import { repeat } from '../../kit/repeat.js';
import type { Message } from '../../wire/message.js';
import type { ServiceContext } from '../context.js';
import { SEARCH_INDEX_LOCK } from '../store/lock-names.js';
import { indexText, listUnindexed, markIndexed } from '../store/search-rows.js';
import { searchTermsOf } from '../store/search-text.js';

const BATCH = 100;
const PAUSE_MS = 1000;

/** Keeps the full text at most a second or so behind the log; a search reads what is between by itself. */
export function startIndexing(context: Pick<ServiceContext, 'clock' | 'database' | 'log'>): () => Promise<void> {
  const catchUp = async (): Promise<void> => {
    while (await indexMessages(context));
  };
  return repeat(context.clock, PAUSE_MS, catchUp, (error) => context.log.error('indexing_failed', error));
}

/** Takes the next events into the full text; false: there were none left. */
export async function indexMessages(context: Pick<ServiceContext, 'database'>): Promise<boolean> {
  const isBehind = await context.database.read(async (query) => (await listUnindexed(query, 1)).length > 0);
  if (!isBehind) return false;
  return await context.database.write(async (transaction) => {
    await transaction.lock([SEARCH_INDEX_LOCK]);
    const events = await listUnindexed(transaction, BATCH);
    for (const event of events)
      if (event.type === 'session.message') await indexText(transaction, event, messageTermsOf(event.payload));
    await markIndexed(transaction, events);
    return events.length === BATCH;
  });
}

/** The words of a message: of its text, and of the names of what it carries. */
export function messageTermsOf(payload: string): string[] {
  const { content } = JSON.parse(payload) as Message;
  if (typeof content === 'string') return searchTermsOf(content);
  const texts = content.flatMap((part) => [part['text'], part['name']]);
  return texts.flatMap((text) => (typeof text === 'string' ? searchTermsOf(text) : []));
}
