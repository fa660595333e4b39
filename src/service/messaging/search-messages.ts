import { repeat } from '../../kit/repeat.js';
import { isHandle } from '../../wire/handle.js';
import type { QueryOf, ReplyOf } from '../../wire/schemas/endpoint.js';
import type { Message } from '../../wire/schemas/message.js';
import { type AgentActor, isSearchOn, type ServiceContext } from '../core/context.js';
import type { Query } from '../core/database.js';
import { isOutage, ServiceError } from '../core/errors.js';
import { decodeCursor, encodeCursor } from '../store/cursor.js';
import { listPositions } from '../store/events.js';
import { SEARCH_INDEX_LOCK } from '../store/lock-names.js';
import {
  countCandidates,
  type FoundEventRow,
  holdsPhrases,
  indexTerms,
  listCandidates,
  listReadableSessions,
  listUnindexed,
  listUnindexedOf,
  listUnindexedOfAccount,
  type MessageTerms,
  markIndexed,
  type SearchedSession,
  type SearchScope,
  toSearchPhrases,
  toSearchTerms,
  wordsToFind,
  wordsToIndex,
} from '../store/search.js';
import { LIST_START, type ListPosition, listSessionsOfAgent } from '../store/sessions.js';
import { type AccountView, findAccountViews } from './events.js';

const BATCH = 32;
/** Writers wait for a batch of this size. */
const WORDS_PER_TRANSACTION = 5000;
/** The part of a message that can be searched. Indexing a longer one would cost many times what sending it does. */
const SEARCHED_CHARACTERS_MAX = 32 * 1024;
const PAUSE_MS = 1000;

/** Keeps the word index at most about a second behind the log; a search reads the rest itself. */
export function startIndexing(
  context: Pick<ServiceContext, 'clock' | 'database' | 'log' | 'meter'>,
): () => Promise<void> {
  const catchUp = async (): Promise<void> => {
    while (await indexMessages(context));
    context.meter.choreDone('index_messages', context.clock.now());
  };
  return repeat(context.clock, PAUSE_MS, catchUp, (error) => {
    // An outage is reported once, by the code that notices it.
    if (!isOutage(error)) context.log.error('indexing_failed', error);
  });
}

/** Indexes the words of the next events; false: there were none left. */
export async function indexMessages(context: Pick<ServiceContext, 'database'>): Promise<boolean> {
  const isBehind = await context.database.read(async (query) => (await listUnindexed(query, 1)).length > 0);
  if (!isBehind) return false;
  return await context.database.write(async (transaction) => {
    await transaction.lock([SEARCH_INDEX_LOCK]);
    const events = await listUnindexed(transaction, BATCH);
    const indexed: FoundEventRow[] = [];
    const messages: MessageTerms[] = [];
    let wordCount = 0;
    for (const event of events) {
      if (wordCount >= WORDS_PER_TRANSACTION) break;
      indexed.push(event);
      if (event.type !== 'session.message') continue;
      const terms = wordsToIndex(toMessageTerms(event.payload));
      messages.push({ position: event.position, session_id: event.session_id, terms });
      wordCount += terms.length;
    }
    if (messages.length > 0) await indexTerms(transaction, messages);
    await markIndexed(transaction, indexed);
    return events.length === BATCH || indexed.length < events.length;
  });
}

/** The words of a message: from the beginning of its text, and from the names of its parts. */
function toMessageTerms(payload: string): string[] {
  const { content } = JSON.parse(payload) as Message;
  if (typeof content === 'string') return toSearchTerms(content.slice(0, SEARCHED_CHARACTERS_MAX));
  const terms: string[] = [];
  let left = SEARCHED_CHARACTERS_MAX;
  for (const text of content.flatMap((part) => [part['text'], part['name']])) {
    if (typeof text !== 'string' || left <= 0) continue;
    terms.push(...toSearchTerms(text.slice(0, left)));
    left -= text.length;
  }
  return terms;
}

/** With `--search off`. */
export const SEARCH_OFF = 'This service does not search messages.';
const SESSIONS_PER_QUERY = 64;
const TAIL_BATCH = 16;
/** A word in this many messages of a session is common; further ones are not counted. */
const COMMON = 256;
const CANDIDATES_MIN = 16;
const CANDIDATES_MAX = 32;
/** How much one search reads, and how much it returns: fewer messages than its limit if they are large. */
const READ_MAX_CHARACTERS = 4 * 1024 * 1024;
const ANSWER_MAX_CHARACTERS = 1024 * 1024;

/** Sessions in which one request looks, so that it holds up others for milliseconds; a cursor continues after them. */
const SESSIONS_PER_REQUEST_MAX = 4096;
/** The sessions in which a search for an account looks, shared among its agents, and the least for each. */
const SESSIONS_PER_ACCOUNT_MAX = 10_000;
const SESSIONS_PER_AGENT_MIN = SESSIONS_PER_QUERY;

/**
 * Whole words, ignoring case and accents, in messages of sessions that the caller has joined. The cost of finding
 * nothing grows with those sessions, never with what others say; a search that finds enough in the latest stops there.
 * A session that does not exist, or is not the caller's, has no matches.
 */
export async function searchMessages(
  context: ServiceContext,
  actor: AgentActor,
  input: { query: QueryOf<'searchMessages'> },
  query: Query,
  sessionsMax = SESSIONS_PER_REQUEST_MAX,
): Promise<ReplyOf<'searchMessages'>> {
  if (!isSearchOn(context)) throw new ServiceError('FEATURE_NOT_AVAILABLE', SEARCH_OFF);
  const { q, limit, cursor, session_id: sessionId, counterpart } = input.query;
  if (counterpart !== undefined && !isHandle(counterpart)) throw new ServiceError('INVALID_HANDLE');
  const cursorScope = ['messages', actor.agentId, q, limit, sessionId, counterpart];
  const start = [LIST_START.changedAt, LIST_START.sessionId, 0, NO_END] as const;
  const [changedAt, lastSessionId, count, oldest] = decodeCursor(cursorScope, cursor, start);
  const phrases = toSearchPhrases(q);
  if (phrases.length === 0) return { messages: [], next_cursor: null };
  const scope = { agentId: actor.agentId, sessionId, counterpart };
  const reader = createReader(phrases);
  const readTail: ReadTail = async (after, count) => ({
    events: await listUnindexedOf(query, scope, after, count),
    isVisible: () => true,
  });
  const latest = cursor === undefined ? await searchTail(readTail, reader, limit) : [];
  const { found, next } = await searchIndexed(query, readableBy(query, scope), phrases, reader, {
    limit,
    sessionsMax,
    position: { changedAt, sessionId: lastSessionId },
    before: { count, oldest },
  });
  const newest = newestFirst([...latest, ...found]).slice(0, limit);
  return {
    messages: upTo(ANSWER_MAX_CHARACTERS, newest).map((event) => JSON.parse(event.payload) as Message),
    next_cursor: next ? encodeCursor(cursorScope, [next.changedAt, next.sessionId, next.count, next.oldest]) : null,
  };
}

/** The next sessions after a position, in the order of their last change, with what the searcher may see of them. */
type ReadSessions = (start: ListPosition, count: number) => Promise<readonly SearchableSession[]>;

/** The next events after a position whose words are not indexed yet. */
type ReadTail = (
  after: number,
  count: number,
) => Promise<{ readonly events: readonly FoundEventRow[]; isVisible(event: FoundEventRow): boolean }>;

interface SearchableSession extends SearchedSession {
  /** No message in it is newer than this. */
  readonly changed_at: number;
}

const NO_END = Number.MAX_SAFE_INTEGER;

function readableBy(query: Query, scope: SearchScope): ReadSessions {
  return async (position, count) => {
    const rows = await listReadableSessions(query, scope, position, count);
    return rows.map((row) => ({ ...row, until: NO_END }));
  };
}

/** A message that an account's agents could see, with the session that it is in. */
export interface FoundMessage {
  readonly session: AccountView['participations'][0];
  readonly sequence: number;
  readonly message: Message;
}

/**
 * The same for an account: messages that any of its agents could see while it took part in sessions that
 * these of its agents list. Partial: some of an agent's sessions were not searched.
 */
export async function searchAccountMessages(
  query: Query,
  accountId: string,
  { q, agentIds, limit }: { readonly q: string; readonly agentIds: readonly string[]; readonly limit: number },
  sessionsMax = SESSIONS_PER_ACCOUNT_MAX,
): Promise<{ readonly messages: readonly FoundMessage[]; readonly isPartial: boolean }> {
  const phrases = toSearchPhrases(q);
  if (phrases.length === 0) return { messages: [], isPartial: false };
  const reader = createReader(phrases);
  const views = new Map<string, AccountView | undefined>();
  const readViews = async (sessionIds: readonly string[]): Promise<void> => {
    const missing = sessionIds.filter((id) => !views.has(id));
    const found = await findAccountViews(query, accountId, missing);
    for (const id of missing) views.set(id, found.get(id));
  };
  const isVisible = ({ session_id: id, sequence }: FoundEventRow): boolean => {
    const view = views.get(id);
    const isAsked = view?.participations.some(({ agent_id: agentId }) => agentIds.includes(agentId)) === true;
    return isAsked && sequence <= view.through;
  };
  const readTail: ReadTail = async (after, count) => {
    const events = await listUnindexedOfAccount(query, accountId, after, count);
    await readViews(events.map(({ session_id: id }) => id));
    return { events, isVisible };
  };
  let found = await searchTail(readTail, reader, limit);
  let isPartial = false;
  const searched = new Set<string>();
  const share = Math.max(SESSIONS_PER_AGENT_MIN, Math.floor(sessionsMax / Math.max(1, agentIds.length)));
  for (const agentId of agentIds) {
    const readSessions: ReadSessions = async (position, wanted) => {
      const rows = await listSessionsOfAgent(query, agentId, undefined, position, wanted);
      await readViews(rows.map(({ id }) => id));
      const cuts = rows.flatMap(({ id, last_sequence: last }) => {
        const through = views.get(id)?.through ?? 0;
        return through > 0 && through < last ? [{ session_id: id, sequence: through }] : [];
      });
      const positions = await listPositions(query, cuts);
      return rows.map(({ id, changed_at, last_sequence: last }) => {
        const through = searched.has(id) ? 0 : (views.get(id)?.through ?? 0);
        searched.add(id);
        const until = through === 0 ? 0 : through >= last ? NO_END : (positions.get(id) ?? -1) + 1;
        return { session_id: id, changed_at, until };
      });
    };
    const ofAgent = await searchIndexed(query, readSessions, phrases, reader, {
      ...FROM_START,
      limit,
      sessionsMax: share,
    });
    found = newestFirst([...found, ...ofAgent.found]);
    isPartial ||= ofAgent.next !== undefined;
  }
  const messages = found.flatMap((event): FoundMessage[] => {
    const view = views.get(event.session_id);
    if (view === undefined || !isVisible(event)) return [];
    const message = JSON.parse(event.payload) as Message;
    return [{ session: view.participations[0], sequence: event.sequence, message }];
  });
  return { messages: messages.slice(0, limit), isPartial };
}

function newestFirst(events: readonly FoundEventRow[]): FoundEventRow[] {
  return [...new Map(events.map((event) => [event.position, event])).values()].sort(
    (one, other) => other.position - one.position,
  );
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
      return left > 0 && holdsPhrases(toMessageTerms(payload), phrases);
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

/** Matches, of which none is older than `oldest`. */
interface Matches {
  readonly count: number;
  readonly oldest: number;
}

/** Where a search begins, what earlier requests of it have found, and how far it goes. */
interface Span {
  readonly position: ListPosition;
  readonly before: Matches;
  readonly limit: number;
  readonly sessionsMax: number;
}

const FROM_START: Pick<Span, 'position' | 'before'> = { position: LIST_START, before: { count: 0, oldest: NO_END } };

interface Found {
  readonly found: readonly FoundEventRow[];
  /** Where to search on; undefined: no other session can contain a wanted message. */
  readonly next?: ListPosition & Matches;
}

/** In the order of their last change, so that the first one that cannot contain a newer message ends the search. */
async function searchIndexed(
  query: Query,
  readSessions: ReadSessions,
  phrases: readonly string[][],
  reader: Reader,
  { position: start, before, limit, sessionsMax }: Span,
): Promise<Found> {
  let found: FoundEventRow[] = [];
  let position = start;
  for (let searched = 0; ; searched += SESSIONS_PER_QUERY) {
    const sessions = await readSessions(position, SESSIONS_PER_QUERY);
    const last = sessions.at(-1);
    const oldest = found.at(-1)?.created_at ?? NO_END;
    const matches =
      found.length < limit
        ? { count: before.count + found.length, oldest: Math.min(before.oldest, oldest) }
        : { count: limit, oldest };
    const isEnough = matches.count >= limit && matches.oldest > (sessions[0]?.changed_at ?? 0);
    if (last === undefined || isEnough) return { found };
    if (searched >= sessionsMax) return { found, next: { ...position, ...matches } };
    found.push(...(await searchSessions(query, sessions, phrases, reader, limit)));
    found = found.sort((one, other) => other.position - one.position).slice(0, limit);
    if (sessions.length < SESSIONS_PER_QUERY || reader.isTired) return { found };
    position = { changedAt: last.changed_at, sessionId: last.session_id };
  }
}

/** The newest messages of these sessions that contain every phrase. */
async function searchSessions(
  query: Query,
  all: readonly SearchableSession[],
  phrases: readonly string[][],
  reader: Reader,
  limit: number,
): Promise<FoundEventRow[]> {
  const sessions = all.filter(({ until }) => until > 0);
  if (sessions.length === 0) return [];
  const ids = new Set(sessions.map(({ session_id }) => session_id));
  const terms = await sortByRarity(query, [...ids], wordsToFind(phrases));
  if (terms === undefined) return [];
  const found: FoundEventRow[] = [];
  let before = Number.MAX_SAFE_INTEGER;
  let count = Math.min(limit, CANDIDATES_MIN);
  while (true) {
    const candidates = await listCandidates(query, sessions, terms, before, count);
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
  terms: readonly string[],
): Promise<[string, ...string[]] | undefined> {
  const [only, ...others] = terms;
  if (only === undefined) return undefined;
  if (others.length === 0) return [only];
  const counted: { word: string; count: number }[] = [];
  for (const word of terms) {
    const count = await countCandidates(query, sessionIds, word, COMMON);
    if (count === 0) return undefined;
    counted.push({ word, count });
  }
  counted.sort((one, other) => one.count - other.count);
  return counted.map(({ word }) => word) as [string, ...string[]];
}

/** The newest messages since words were last indexed. After an upgrade that can be all of them. */
async function searchTail(readTail: ReadTail, reader: Reader, limit: number): Promise<FoundEventRow[]> {
  const found: FoundEventRow[] = [];
  let position = 0;
  while (true) {
    const { events, isVisible } = await readTail(position, TAIL_BATCH);
    for (const event of events) {
      position = event.position;
      if (isVisible(event) && reader.holds(event)) found.push(event);
      if (found.length > limit) found.shift();
    }
    if (events.length < TAIL_BATCH || reader.isTired) return found;
  }
}
