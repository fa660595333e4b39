import { listAgents } from '../../agents/list-agents.js';
import { renderAgents } from '../../pages/dashboard/agents-page.js';
import { type DashboardAnswer, page, type Visit } from '../visit.js';

const PER_PAGE = 25;

export async function showAgents(visit: Visit): Promise<DashboardAnswer> {
  const { context, actor, account, query } = visit;
  const cursor = query.one('after');
  const listed = await context.database.read((view) =>
    listAgents(context, actor, { query: { limit: PER_PAGE, ...(cursor !== undefined && { cursor }) } }, view),
  );
  return page(
    renderAgents({
      agents: listed.agents,
      next: listed.next_cursor,
      isFirst: cursor === undefined,
      username: account.username,
      baseUrl: context.settings.addresses.baseUrl,
      note: query.one('note'),
    }),
  );
}
