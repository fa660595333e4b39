import { SEARCH_QUERY_MIN_LENGTH } from '../../wire/limit.js';
import type { ReplyOf } from '../../wire/schemas/endpoint.js';
import type { Handler, ServiceContext } from '../core/context.js';
import type { Query } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import { findAccount } from '../store/accounts.js';
import { findAgent } from '../store/agents.js';
import { decodeCursor, encodeCursor } from '../store/cursor.js';
import { listTerms, type SearchKind, type TermPosition, toSearchTerms } from '../store/search.js';
import { getPictureUrl } from './agents.js';

const WALK_STEP = 100;
const WALK_MAX = 1000;

export const WALK_START: TermPosition = { term: '', subject_id: '' };

export interface Found {
  readonly subjectIds: readonly string[];
  /** Where to continue; undefined: there are no more. */
  readonly next: TermPosition | undefined;
}

/**
 * The agents or people with words that begin with each word of `text`, at most `limit`. It walks along the words that
 * begin with the longest one, and not far: a page may have fewer than `limit` and still be followed by others.
 */
export async function findByTerms(
  query: Query,
  kind: SearchKind,
  text: string,
  after: TermPosition,
  limit: number,
): Promise<Found> {
  const terms = toSearchTerms(text);
  const [longest, ...others] = [...new Set(terms)].sort((one, other) => other.length - one.length);
  const subjectIds: string[] = [];
  // Punctuation does not count: otherwise `a*` would list everyone whose name begins with an a.
  if (longest === undefined || terms.join('').length < SEARCH_QUERY_MIN_LENGTH) return { subjectIds, next: undefined };
  let position = after;
  for (let walked = 0; walked < WALK_MAX; walked += WALK_STEP) {
    const rows = await listTerms(query, kind, [longest, ...others], position, WALK_STEP);
    for (const row of rows) {
      if (row.is_match === 1 && subjectIds.length === limit) return { subjectIds, next: position };
      if (row.is_match === 1) subjectIds.push(row.subject_id);
      position = { term: row.term, subject_id: row.subject_id };
    }
    if (rows.length < WALK_STEP) return { subjectIds, next: undefined };
  }
  return { subjectIds, next: position };
}

export const searchAgents: Handler<'searchAgents'> = async (context, actor, input, query) => {
  const { q, limit, cursor } = input.query;
  const scope = ['search-agents', actor.agentId, q];
  const [term, subjectId] = decodeCursor(scope, cursor, [WALK_START.term, WALK_START.subject_id]);
  const found = await findByTerms(query, 'agent', q, { term, subject_id: subjectId }, limit);
  return {
    agents: await readFoundAgents(context, query, found),
    next_cursor: found.next === undefined ? null : encodeCursor(scope, [found.next.term, found.next.subject_id]),
  };
};

/** Public agents only, whatever the index still contains. */
export async function readFoundAgents(
  context: Pick<ServiceContext, 'settings'>,
  query: Query,
  found: Found,
): Promise<ReplyOf<'searchAgents'>['agents']> {
  const agents: ReplyOf<'searchAgents'>['agents'] = [];
  for (const id of found.subjectIds) {
    const row = await findAgent(query, id);
    if (row === undefined || row.visibility !== 'public') continue;
    agents.push({
      type: 'agent',
      id: row.id,
      canonical_handle: row.handle,
      display_name: row.display_name,
      image_url: getPictureUrl(context.settings, row),
    });
  }
  return agents;
}

/** The best of each kind. The answer has no cursor, so the request takes none. People are those with public agents. */
export const searchDirectory: Handler<'searchDirectory'> = async (context, _actor, input, query) => {
  const { q, limit, cursor } = input.query;
  if (cursor !== undefined) throw new ServiceError('VALIDATION_ERROR', 'The directory has no further pages.');
  const people: ReplyOf<'searchDirectory'>['people'] = [];
  for (const id of (await findByTerms(query, 'person', q, WALK_START, limit)).subjectIds) {
    const row = await findAccount(query, id);
    if (row === undefined) continue;
    const { username, display_name: displayName } = row;
    people.push({ type: 'person', id, username, display_name: displayName, image_url: null });
  }
  const agents = await readFoundAgents(context, query, await findByTerms(query, 'agent', q, WALK_START, limit));
  return { agents, people, organizations: [] };
};
