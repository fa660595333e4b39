import type { QueryOf, ReplyOf } from '../../wire/endpoint.js';
import { isHandle } from '../../wire/handle.js';
import type { Message } from '../../wire/message.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import type { Query } from '../store/database.js';
import {
  type FoundEventRow,
  listReadableSessions,
  listUnindexedOf,
  type SearchScope,
  searchIndex,
} from '../store/search-rows.js';
import { holdsPhrases, searchPhrasesOf } from '../store/search-text.js';
import { LIST_START } from '../store/session-list-rows.js';
import { messageTermsOf } from './index-messages.js';

const SESSIONS_PER_QUERY = 64;
const TAIL_BATCH = 1000;

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
  const found = [...(await searchTail(query, scope, phrases)), ...(await searchIndexed(query, scope, phrases, limit))];
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
    const ids = sessions.map((session) => session.session_id);
    found.push(...(await searchIndex(query, ids, phrases, limit)));
    found = found.sort((one, other) => other.position - one.position).slice(0, limit);
    if (sessions.length < SESSIONS_PER_QUERY) return found;
    place = { changedAt: last.changed_at, sessionId: last.session_id };
  }
}

/** What was said since the full text was last brought up to date. */
async function searchTail(query: Query, scope: SearchScope, phrases: readonly string[][]): Promise<FoundEventRow[]> {
  const found: FoundEventRow[] = [];
  let position = 0;
  while (true) {
    const events = await listUnindexedOf(query, scope, position, TAIL_BATCH);
    for (const event of events) {
      position = event.position;
      if (holdsPhrases(messageTermsOf(event.payload), phrases)) found.push(event);
    }
    if (events.length < TAIL_BATCH) return found;
  }
}
