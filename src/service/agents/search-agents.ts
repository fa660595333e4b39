import type { QueryOf, ReplyOf } from '../../wire/endpoint.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { findAgent } from '../store/agent-rows.js';
import { decodeCursor, encodeCursor } from '../store/cursor.js';
import type { Query } from '../store/database.js';
import { type Found, findByWords, WALK_START } from './find-by-words.js';

export async function searchAgents(
  _context: ServiceContext,
  actor: AgentActor,
  input: { query: QueryOf<'searchAgents'> },
  query: Query,
): Promise<ReplyOf<'searchAgents'>> {
  const { q, limit, cursor } = input.query;
  const scope = ['search-agents', actor.agentId, q];
  const [term, subjectId] = decodeCursor(scope, cursor, [WALK_START.term, WALK_START.subject_id]);
  const found = await findByWords(query, 'agent', q, { term, subject_id: subjectId }, limit);
  return {
    agents: await readFoundAgents(query, found),
    next_cursor: found.next === undefined ? null : encodeCursor(scope, [found.next.term, found.next.subject_id]),
  };
}

/** Public agents alone, whatever the words still say. */
export async function readFoundAgents(query: Query, found: Found): Promise<ReplyOf<'searchAgents'>['agents']> {
  const agents: ReplyOf<'searchAgents'>['agents'] = [];
  for (const id of found.subjectIds) {
    const row = await findAgent(query, id);
    if (row === undefined || row.visibility !== 'public') continue;
    agents.push({
      type: 'agent',
      id: row.id,
      canonical_handle: row.handle,
      display_name: row.display_name,
      image_url: row.image_url,
    });
  }
  return agents;
}
