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
const TAIL_BATCH = 128;
/** A word in as many messages of a session is common; more are not counted. */
const COMMON = 256;
const CANDIDATES_MAX = 128;

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
  const found = [
    ...(await searchTail(query, scope, phrases, limit)),
    ...(await searchIndexed(query, scope, phrases, limit)),
  ];
  const newest = found.sort((one, other) => other.position - one.position).slice(0, limit);
  return { messages: newest.map((event) => JSON.parse(event.payload) as Message) };
}

/** In the order of their last change, so that the first that cannot hold a newer message ends the search. */
async function searchIndexed(
  query: Query,
  scope: SearchScope,
  phrases: readonly string[][],
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
    found.push(...(await searchSessions(query, sessions, phrases, limit)));
    found = found.sort((one, other) => other.position - one.position).slice(0, limit);
    if (sessions.length < SESSIONS_PER_QUERY) return found;
    place = { changedAt: last.changed_at, sessionId: last.session_id };
  }
}

/** The newest of these sessions that hold every phrase. */
async function searchSessions(
  query: Query,
  sessions: readonly ReadableSessionRow[],
  phrases: readonly string[][],
  limit: number,
): Promise<FoundEventRow[]> {
  const ids = new Set(sessions.map(({ session_id }) => session_id));
  const words = await sortByRarity(query, [...ids], wordsToFind(phrases));
  if (words === undefined) return [];
  const found: FoundEventRow[] = [];
  let before = Number.MAX_SAFE_INTEGER;
  let count = limit;
  while (true) {
    const candidates = await listCandidates(query, [...ids], words, before, count);
    for (const event of candidates)
      if (ids.has(event.session_id) && holdsPhrases(messageTermsOf(event.payload), phrases)) found.push(event);
    const last = candidates.at(-1);
    if (last === undefined || candidates.length < count || found.length >= limit) return found.slice(0, limit);
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
async function searchTail(
  query: Query,
  scope: SearchScope,
  phrases: readonly string[][],
  limit: number,
): Promise<FoundEventRow[]> {
  const found: FoundEventRow[] = [];
  let position = 0;
  while (true) {
    const events = await listUnindexedOf(query, scope, position, TAIL_BATCH);
    for (const event of events) {
      position = event.position;
      if (holdsPhrases(messageTermsOf(event.payload), phrases)) found.push(event);
      if (found.length > limit) found.shift();
    }
    if (events.length < TAIL_BATCH) return found;
  }
}
