import type { QueryOf, ReplyOf } from '../../wire/endpoint.js';
import { isHandle } from '../../wire/handle.js';
import type { Message } from '../../wire/message.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import type { Query } from '../store/database.js';
import {
  countCandidates,
  type FoundEventRow,
  listCandidates,
  listReadableSessions,
  listUnindexedOf,
  type ReadableSessionRow,
  type SearchScope,
} from '../store/search-rows.js';
import { holdsPhrases, searchPhrasesOf, wordsToFind } from '../store/search-text.js';
import { LIST_START } from '../store/session-list-rows.js';
import { messageTermsOf } from './index-messages.js';

const SESSIONS_PER_QUERY = 64;
const TAIL_BATCH = 16;
/** A word in as many messages of a session is common; more are not counted. */
const COMMON = 256;
const CANDIDATES_MIN = 16;
const CANDIDATES_MAX = 32;
/** What one search reads of messages, and what it answers with: of large ones fewer than its limit. */
const READ_MAX_CHARACTERS = 4 * 1024 * 1024;
const ANSWER_MAX_CHARACTERS = 1024 * 1024;

/**
 * Whole words, in any case and with any accents, of messages in sessions that the caller has joined. The cost of finding
 * nothing grows with those sessions, never with what others say; whoever finds enough in the latest stops there. A session
 * that is not there, or not the caller's, holds nothing.
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

/** Looks into messages for the phrases, until it has read as much as one search may. */
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

/** The first of these that are not longer together, but at least one. */
function upTo(characters: number, events: readonly FoundEventRow[]): FoundEventRow[] {
  let left = characters;
  return events.filter(({ payload }, index) => {
    left -= payload.length;
    return left >= 0 || index === 0;
  });
}

/** In the order of their last change, so that the first that cannot hold a newer message ends the search. */
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

/** The newest of these sessions that hold every phrase. */
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

/** The rarest first, along which the others are looked for; undefined: one of them is in none of the sessions. */
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

/** The newest of what was said since words were last indexed. After an upgrade that can be everything. */
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
