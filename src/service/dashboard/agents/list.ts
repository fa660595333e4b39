import { listAgents } from '../../agents/list-agents.js';
import { renderAgents } from '../../pages/dashboard/agents-page.js';
import { type DashboardAnswer, page, type Visit } from '../visit.js';

const PER_PAGE = 25;

export async function showAgents(visit: Visit): Promise<DashboardAnswer> {
  const { context, actor } = visit;
  const cursor = visit.query.one('after');
  const query = { limit: PER_PAGE, ...(cursor !== undefined && { cursor }) };
  const { agents, next_cursor: next } = await context.database.read((view) =>
    listAgents(context, actor, { query }, view),
  );
  return page(renderAgents({ agents, next }));
}
