import { repeat } from '../../kit/repeat.js';
import type { Message } from '../../wire/message.js';
import type { ServiceContext } from '../context.js';
import { SEARCH_INDEX_LOCK } from '../store/lock-names.js';
import { type FoundEventRow, indexWords, listUnindexed, markIndexed } from '../store/search-rows.js';
import { searchTermsOf, wordsToIndex } from '../store/search-text.js';

const BATCH = 100;
/** A message of the greatest length has some ten thousands; writers wait for as many. */
const WORDS_PER_TRANSACTION = 5000;
const PAUSE_MS = 1000;

/** Keeps the words of messages at most a second or so behind the log; a search reads what is between by itself. */
export function startIndexing(context: Pick<ServiceContext, 'clock' | 'database' | 'log'>): () => Promise<void> {
  const catchUp = async (): Promise<void> => {
    while (await indexMessages(context));
  };
  return repeat(context.clock, PAUSE_MS, catchUp, (error) => context.log.error('indexing_failed', error));
}

/** Indexes the words of the next events; false: there were none left. */
export async function indexMessages(context: Pick<ServiceContext, 'database'>): Promise<boolean> {
  const isBehind = await context.database.read(async (query) => (await listUnindexed(query, 1)).length > 0);
  if (!isBehind) return false;
  return await context.database.write(async (transaction) => {
    await transaction.lock([SEARCH_INDEX_LOCK]);
    const events = await listUnindexed(transaction, BATCH);
    const indexed: FoundEventRow[] = [];
    let wordCount = 0;
    for (const event of events) {
      if (wordCount >= WORDS_PER_TRANSACTION) break;
      indexed.push(event);
      if (event.type !== 'session.message') continue;
      const words = wordsToIndex(messageTermsOf(event.payload));
      await indexWords(transaction, event, words);
      wordCount += words.length;
    }
    await markIndexed(transaction, indexed);
    return events.length === BATCH || indexed.length < events.length;
  });
}

/** The words of a message: of its text, and of the names of what it carries. */
export function messageTermsOf(payload: string): string[] {
  const { content } = JSON.parse(payload) as Message;
  if (typeof content === 'string') return searchTermsOf(content);
  const texts = content.flatMap((part) => [part['text'], part['name']]);
  return texts.flatMap((text) => (typeof text === 'string' ? searchTermsOf(text) : []));
}
