import { repeat } from '../../kit/repeat.js';
import { isHandle } from '../../wire/handle.js';
import type { QueryOf, ReplyOf } from '../../wire/schemas/endpoint.js';
import type { Message } from '../../wire/schemas/message.js';
import type { AgentActor, ServiceContext } from '../core/context.js';
import type { Query } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import { SEARCH_INDEX_LOCK } from '../store/lock-names.js';
import {
  countCandidates,
  type FoundEventRow,
  holdsPhrases,
  indexWords,
  listCandidates,
  listReadableSessions,
  listUnindexed,
  listUnindexedOf,
  markIndexed,
  type ReadableSessionRow,
  type SearchScope,
  searchPhrasesOf,
  searchTermsOf,
  wordsToFind,
  wordsToIndex,
} from '../store/search.js';
import { LIST_START } from '../store/sessions.js';

const BATCH = 32;
/** Writers wait for this many. */
const WORDS_PER_TRANSACTION = 5000;
/** The part of a message that can be searched. Indexing a longer one would cost many times what sending it does. */
const SEARCHED_CHARACTERS_MAX = 32 * 1024;
const PAUSE_MS = 1000;

/** Keeps the word index at most about a second behind the log; a search reads the rest itself. */
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

/** The words of a message: from the beginning of its text, and from the names of its parts. */
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

const SESSIONS_PER_QUERY = 64;
const TAIL_BATCH = 16;
/** A word in this many messages of a session is common; further ones are not counted. */
const COMMON = 256;
const CANDIDATES_MIN = 16;
const CANDIDATES_MAX = 32;
/** How much one search reads, and how much it returns: fewer messages than its limit if they are large. */
const READ_MAX_CHARACTERS = 4 * 1024 * 1024;
const ANSWER_MAX_CHARACTERS = 1024 * 1024;

/**
 * Whole words, ignoring case and accents, in messages of sessions that the caller has joined. The cost of finding
 * nothing grows with those sessions, never with what others say; a search that finds enough in the latest stops there.
 * A session that does not exist, or is not the caller's, has no matches.
 */
export async function searchMessages(
  _context: ServiceContext,
  actor: AgentActor,
  input: { query: QueryOf<'searchMessages'> },
  query: Query,
): Promise<ReplyOf<'searchMessages'>> {
  const { q, limit, session_id: sessionId, counterpart } = input.query;
  if (counterpart !== undefined && !isHandle(counterpart)) throw new ServiceError('INVALID_HANDLE');
  const phrases = searchPhrasesOf(q);
  if (phrases.length === 0) return { messages: [] };
  const scope = { agentId: actor.agentId, sessionId, counterpart };
  const reader = createReader(phrases);
  const found = [
    ...(await searchTail(query, scope, reader, limit)),
    ...(await searchIndexed(query, scope, phrases, reader, limit)),
  ];
  const newest = found.sort((one, other) => other.position - one.position).slice(0, limit);
  return { messages: upTo(ANSWER_MAX_CHARACTERS, newest).map((event) => JSON.parse(event.payload) as Message) };
}

/** Searches messages for the phrases, until it has read as much as one search may. */
interface Reader {
  readonly isTired: boolean;
  holds(event: FoundEventRow): boolean;
}

function createReader(phrases: readonly string[][]): Reader {
  let left = READ_MAX_CHARACTERS;
  return {
    get isTired() {
      return left <= 0;
    },
    holds({ payload }) {
      left -= payload.length;
      return left > 0 && holdsPhrases(messageTermsOf(payload), phrases);
    },
  };
}

/** The first ones that fit within the limit together, at least one. */
function upTo(characters: number, events: readonly FoundEventRow[]): FoundEventRow[] {
  let left = characters;
  return events.filter(({ payload }, index) => {
    left -= payload.length;
    return left >= 0 || index === 0;
  });
}

/** In the order of their last change, so that the first one that cannot contain a newer message ends the search. */
async function searchIndexed(
  query: Query,
  scope: SearchScope,
  phrases: readonly string[][],
  reader: Reader,
  limit: number,
): Promise<FoundEventRow[]> {
  let found: FoundEventRow[] = [];
  let place = LIST_START;
  while (true) {
    const sessions = await listReadableSessions(query, scope, place, SESSIONS_PER_QUERY);
    const last = sessions.at(-1);
    const oldest = found[limit - 1];
    if (last === undefined) return found;
    if (oldest !== undefined && oldest.created_at > (sessions[0]?.changed_at ?? 0)) return found;
    found.push(...(await searchSessions(query, sessions, phrases, reader, limit)));
    found = found.sort((one, other) => other.position - one.position).slice(0, limit);
    if (sessions.length < SESSIONS_PER_QUERY || reader.isTired) return found;
    place = { changedAt: last.changed_at, sessionId: last.session_id };
  }
}

/** The newest messages of these sessions that contain every phrase. */
async function searchSessions(
  query: Query,
  sessions: readonly ReadableSessionRow[],
  phrases: readonly string[][],
  reader: Reader,
  limit: number,
): Promise<FoundEventRow[]> {
  const ids = new Set(sessions.map(({ session_id }) => session_id));
  const words = await sortByRarity(query, [...ids], wordsToFind(phrases));
  if (words === undefined) return [];
  const found: FoundEventRow[] = [];
  let before = Number.MAX_SAFE_INTEGER;
  let count = Math.min(limit, CANDIDATES_MIN);
  while (true) {
    const candidates = await listCandidates(query, [...ids], words, before, count);
    for (const event of candidates) if (ids.has(event.session_id) && reader.holds(event)) found.push(event);
    const last = candidates.at(-1);
    const isOver = last === undefined || candidates.length < count || reader.isTired;
    if (isOver || found.length >= limit) return found.slice(0, limit);
    before = last.position;
    count = Math.min(2 * count, CANDIDATES_MAX);
  }
}

/** The rarest first; the others are checked along it. Undefined: one of them is in none of the sessions. */
async function sortByRarity(
  query: Query,
  sessionIds: readonly string[],
  words: readonly string[],
): Promise<[string, ...string[]] | undefined> {
  const [only, ...others] = words;
  if (only === undefined) return undefined;
  if (others.length === 0) return [only];
  const counted: { word: string; count: number }[] = [];
  for (const word of words) {
    const count = await countCandidates(query, sessionIds, word, COMMON);
    if (count === 0) return undefined;
    counted.push({ word, count });
  }
  counted.sort((one, other) => one.count - other.count);
  return counted.map(({ word }) => word) as [string, ...string[]];
}

/** The newest messages since words were last indexed. After an upgrade that can be all of them. */
async function searchTail(query: Query, scope: SearchScope, reader: Reader, limit: number): Promise<FoundEventRow[]> {
  const found: FoundEventRow[] = [];
  let position = 0;
  while (true) {
    const events = await listUnindexedOf(query, scope, position, TAIL_BATCH);
    for (const event of events) {
      position = event.position;
      if (reader.holds(event)) found.push(event);
      if (found.length > limit) found.shift();
    }
    if (events.length < TAIL_BATCH || reader.isTired) return found;
  }
}
