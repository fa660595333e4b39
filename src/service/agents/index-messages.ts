import { repeat } from '../../kit/repeat.js';
import type { Message } from '../../wire/message.js';
import type { ServiceContext } from '../context.js';
import { SEARCH_INDEX_LOCK } from '../store/lock-names.js';
import { type FoundEventRow, indexWords, listUnindexed, markIndexed } from '../store/search-rows.js';
import { searchTermsOf, wordsToIndex } from '../store/search-text.js';

const BATCH = 32;
/** Writers wait for as many. */
const WORDS_PER_TRANSACTION = 5000;
/** What of a message can be searched. Words of a longer one would cost many times what sending it does. */
const SEARCHED_CHARACTERS_MAX = 32 * 1024;
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

/** The words of a message: of the beginning of its text, and of the names of what it carries. */
export function messageTermsOf(payload: string): string[] {
  const { content } = JSON.parse(payload) as Message;
  if (typeof content === 'string') return searchTermsOf(content.slice(0, SEARCHED_CHARACTERS_MAX));
  const terms: string[] = [];
  let left = SEARCHED_CHARACTERS_MAX;
  for (const text of content.flatMap((part) => [part['text'], part['name']])) {
    if (typeof text !== 'string' || left <= 0) continue;
    terms.push(...searchTermsOf(text.slice(0, left)));
    left -= text.length;
  }
  return terms;
}
