import { listAgents } from '../../agents/list-agents.js';
import { renderAgents } from '../../pages/dashboard/agents-page.js';
import { askedOf, listedOf } from '../listed.js';
import { type DashboardAnswer, page, type Visit } from '../visit.js';

export async function showAgents(visit: Visit): Promise<DashboardAnswer> {
  const { context, actor, account, note } = visit;
  const { agents, next_cursor: next } = await context.database.read((view) =>
    listAgents(context, actor, { query: askedOf(visit) }, view),
  );
  return page(
    renderAgents({
      listed: listedOf(visit, agents, next),
      username: account.username,
      baseUrl: context.settings.addresses.baseUrl,
      note,
    }),
  );
}
