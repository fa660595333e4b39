import type { QueryOf, ReplyOf } from '../../wire/endpoint.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { findAccount } from '../store/account-rows.js';
import type { Query } from '../store/database.js';
import { findByWords, WALK_START } from './find-by-words.js';
import { readFoundAgents } from './search-agents.js';

/** The best of each kind; its answer has no cursor, so there is none that it could take. People are those with public agents. */
export async function searchDirectory(
  _context: ServiceContext,
  _actor: AgentActor,
  input: { query: QueryOf<'searchDirectory'> },
  query: Query,
): Promise<ReplyOf<'searchDirectory'>> {
  const { q, limit, cursor } = input.query;
  if (cursor !== undefined) throw new ServiceError('VALIDATION_ERROR', 'The directory has no further pages.');
  const people: ReplyOf<'searchDirectory'>['people'] = [];
  for (const id of (await findByWords(query, 'person', q, WALK_START, limit)).subjectIds) {
    const row = await findAccount(query, id);
    if (row === undefined) continue;
    const { username, display_name: displayName } = row;
    people.push({ type: 'person', id, username, display_name: displayName, image_url: null });
  }
  const agents = await readFoundAgents(query, await findByWords(query, 'agent', q, WALK_START, limit));
  return { agents, people, organizations: [] };
}
