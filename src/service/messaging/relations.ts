import { type Relation, relateHandles } from '../../wire/relation.js';
import type { AgentActor } from '../core/context.js';
import type { Query } from '../core/database.js';
import { findDecided } from '../store/allowlists.js';

/** The relation of each of these agents to the acting one. */
export async function relateTo(
  query: Query,
  { agentId, handle: me }: AgentActor,
  handles: readonly string[],
): Promise<Readonly<Record<string, Relation>>> {
  const others = handles.filter((handle) => relateHandles(me, handle) === undefined);
  const decided = others.length === 0 ? undefined : await findDecided(query, agentId, others);
  const relate = (handle: string): Relation =>
    relateHandles(me, handle) ?? (decided?.get(handle)?.isListed === true ? 'on your allowlist' : 'anyone');
  return Object.fromEntries(handles.map((handle) => [handle, relate(handle)]));
}
