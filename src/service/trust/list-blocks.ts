import type { QueryOf, ReplyOf } from '../../wire/endpoint.js';
import type { Block } from '../../wire/trust.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { type BlockRow, listBlockRows } from '../store/block-rows.js';
import { decodeCursor, encodeCursor } from '../store/cursor.js';
import type { Query } from '../store/database.js';

export async function listBlocks(
  _context: ServiceContext,
  actor: AgentActor,
  input: { query: QueryOf<'listBlocks'> },
  query: Query,
): Promise<ReplyOf<'listBlocks'>> {
  const { limit, cursor } = input.query;
  const scope = ['blocks', actor.agentId];
  const [createdAt, handle] = decodeCursor(scope, cursor, [Number.MAX_SAFE_INTEGER, '']);
  const rows = await listBlockRows(query, actor.agentId, { createdAt, handle }, limit + 1);
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  const hasMore = rows.length > limit && last !== undefined;
  const nextCursor = hasMore ? encodeCursor(scope, [last.created_at, last.blocked_handle]) : null;
  return { blocks: page.map(toBlock), next_cursor: nextCursor };
}

export function toBlock(row: BlockRow): Block {
  return {
    blocked_agent_id: row.blocked_agent_id,
    blocked_handle: row.blocked_handle,
    created_at: row.created_at,
  };
}
