import type { QueryOf, ReplyOf } from '../../wire/endpoint.js';
import { isHandle } from '../../wire/handle.js';
import type { Message } from '../../wire/message.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import type { Query } from '../store/database.js';
import {
  type FoundEventRow,
  listReadableSessions,
  listUnindexed,
  type ReadableSessionRow,
  searchIndex,
} from '../store/search-rows.js';
import { holdsPhrases, searchPhrasesOf } from '../store/search-text.js';
import { messageTermsOf } from './index-messages.js';

const SESSIONS_PER_QUERY = 64;
const TAIL_BATCH = 1000;

/**
 * Whole words, in any case and with any accents, of messages in sessions that the caller has joined. The cost grows with
 * those sessions, never with what others say. A session that is not there, or not the caller's, holds nothing.
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
  const sessions = await listReadableSessions(query, actor.agentId, { sessionId, counterpart });
  const found = [
    ...(await searchTail(query, sessions, phrases)),
    ...(await searchIndexed(query, sessions, phrases, limit)),
  ];
  const newest = found.sort((one, other) => other.position - one.position).slice(0, limit);
  return { messages: newest.map((event) => JSON.parse(event.payload) as Message) };
}

/** In the order of their last change, so that the first that cannot hold a newer message ends the search. */
async function searchIndexed(
  query: Query,
  sessions: readonly ReadableSessionRow[],
  phrases: readonly string[][],
  limit: number,
): Promise<FoundEventRow[]> {
  let found: FoundEventRow[] = [];
  for (let start = 0; start < sessions.length; start += SESSIONS_PER_QUERY) {
    const oldest = found[limit - 1];
    if (oldest !== undefined && oldest.created_at > (sessions[start]?.changed_at ?? 0)) break;
    const ids = sessions.slice(start, start + SESSIONS_PER_QUERY).map((session) => session.session_id);
    found.push(...(await searchIndex(query, ids, phrases, limit)));
    found = found.sort((one, other) => other.position - one.position).slice(0, limit);
  }
  return found;
}

/** What was said since the full text was last brought up to date. */
async function searchTail(
  query: Query,
  sessions: readonly ReadableSessionRow[],
  phrases: readonly string[][],
): Promise<FoundEventRow[]> {
  const readable = new Set(sessions.map((session) => session.session_id));
  const found: FoundEventRow[] = [];
  let position = 0;
  while (true) {
    const events = await listUnindexed(query, position, TAIL_BATCH);
    for (const event of events) {
      position = event.position;
      if (event.type !== 'session.message' || !readable.has(event.session_id)) continue;
      if (holdsPhrases(messageTermsOf(event.payload), phrases)) found.push(event);
    }
    if (events.length < TAIL_BATCH) return found;
  }
}
