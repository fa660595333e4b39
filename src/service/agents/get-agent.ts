import type { PathOf, ReplyOf } from '../../wire/endpoint.js';
import { splitHandle } from '../../wire/handle.js';
import type { Actor, ServiceContext } from '../context.js';
import { findAccount } from '../store/account-rows.js';
import { listSharedSessions } from '../store/agent-rows.js';
import { blocksAnyOf } from '../store/block-rows.js';
import type { Query } from '../store/database.js';
import { toAgent, toAgentSummary } from './agent-record.js';
import { findVisibleAgent } from './visible-agent.js';

/** An agent sees the latest sessions that it has joined and the other is in; an account token is nobody's participant. */
export async function getAgent(
  _context: ServiceContext,
  actor: Actor,
  input: { path: PathOf<'getAgent'> },
  query: Query,
): Promise<ReplyOf<'getAgent'>> {
  const row = await findVisibleAgent(query, actor, input.path);
  const isOwner = row.account_id === actor.accountId;
  const mayEdit = isOwner && (actor.kind === 'account' || actor.agentId === row.id);
  const isOther = actor.kind === 'agent' && actor.agentId !== row.id;
  const shared = isOther ? await listSharedSessions(query, actor.agentId, row.id) : [];
  const isShunned = !isOwner && (await blocksAnyOf(query, row.id, await ownerOf(query, actor)));
  const summary = toAgentSummary(row);
  return {
    // Who was blocked is not to follow when the other comes and goes.
    agent: isOwner ? toAgent(row) : { ...summary, is_online: summary.is_online && !isShunned },
    shared_sessions: shared.map((session) => ({ ...session })),
    viewer: { relationship: isOwner ? 'owner' : 'none', can_edit: mayEdit },
  };
}

async function ownerOf(query: Query, actor: Actor): Promise<string> {
  if (actor.kind === 'agent') return splitHandle(actor.handle).owner;
  return (await findAccount(query, actor.accountId))?.username ?? '';
}
