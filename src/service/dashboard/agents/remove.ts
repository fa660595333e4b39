import { toAgent } from '../../agents/agent-record.js';
import { removeAgent } from '../../agents/remove-agent.js';
import { renderRemoveAgent } from '../../pages/dashboard/agent-page.js';
import { type DashboardAnswer, movedWithNote, page, type Visit } from '../visit.js';
import { agentPathOf, requireAgent } from './own-agent.js';

export async function showRemoveAgent(visit: Visit): Promise<DashboardAnswer> {
  const row = await visit.context.database.read((view) => requireAgent(visit, view));
  return page(renderRemoveAgent({ agent: toAgent(row), csrf: visit.csrf }));
}

export async function actRemoveAgent(visit: Visit): Promise<DashboardAnswer> {
  const { context, actor } = visit;
  const path = agentPathOf(visit);
  await context.database.write((transaction) => removeAgent(context, actor, { path }, transaction));
  return movedWithNote(visit, '/dashboard/agents', 'removed');
}
