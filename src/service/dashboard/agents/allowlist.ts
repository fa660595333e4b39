import { AddAllowlistRequest } from '../../../wire/trust.js';
import { toAgent } from '../../agents/agent-record.js';
import type { Parameters } from '../../authorization-server/parameters.js';
import { withNote } from '../../pages/dashboard/parts.js';
import { renderAllowlist } from '../../pages/dashboard/trust-pages.js';
import type { Mistake } from '../../pages/form.js';
import { listAllowlistPage } from '../../store/allowlist-rows.js';
import { decodeCursor, encodeCursor } from '../../store/cursor.js';
import { addToAllowlist } from '../../trust/add-to-allowlist.js';
import { removeFromAllowlist } from '../../trust/remove-from-allowlist.js';
import { type DashboardAnswer, moved, page, type Visit } from '../visit.js';
import { actingAs, agentPathOf, requireAgent } from './own-agent.js';

const PER_PAGE = 50;
const MALFORMED: Mistake = {
  field: 'entry',
  message: 'Enter addresses such as @bob.helper, or @bob.* for all agents of @bob.',
};

export async function showAllowlist(visit: Visit): Promise<DashboardAnswer> {
  return allowlistOf(visit, [], '');
}

export async function actAllowlist(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context } = visit;
  const typed = form.one('entry') ?? '';
  const read = AddAllowlistRequest.safeParse({ entries: typed.split(/[\s,]+/).filter((entry) => entry !== '') });
  if (!read.success) return allowlistOf(visit, [MALFORMED], typed, 400);
  const path = agentPathOf(visit);
  await context.database.write(async (transaction) => {
    const actor = actingAs(visit, await requireAgent(visit, transaction));
    await addToAllowlist(context, actor, { path, body: read.data }, transaction);
  });
  return moved(withNote(`/dashboard/agents/${path.name}/allowlist`, 'listed'));
}

export async function actRemoveEntry(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context } = visit;
  const path = agentPathOf(visit);
  await context.database.write(async (transaction) => {
    const actor = actingAs(visit, await requireAgent(visit, transaction));
    await removeFromAllowlist(context, actor, { path: { ...path, entry: form.one('entry') ?? '' } }, transaction);
  });
  return moved(withNote(`/dashboard/agents/${path.name}/allowlist`, 'listed'));
}

async function allowlistOf(
  visit: Visit,
  mistakes: readonly Mistake[],
  filled: string,
  status = 200,
): Promise<DashboardAnswer> {
  const { context, csrf, query } = visit;
  const cursor = query.one('after');
  const { row, entries } = await context.database.read(async (view) => {
    const agent = await requireAgent(visit, view);
    const [after] = decodeCursor(['allowlist', agent.id], cursor, ['']);
    return { row: agent, entries: await listAllowlistPage(view, agent.id, after, PER_PAGE + 1) };
  });
  const shown = entries.slice(0, PER_PAGE);
  const last = shown.at(-1);
  const hasMore = entries.length > PER_PAGE && last !== undefined;
  const view = renderAllowlist({
    agent: toAgent(row),
    csrf,
    note: mistakes.length > 0 ? undefined : query.one('note'),
    mistakes,
    now: context.clock.now(),
    entries: shown,
    next: hasMore ? encodeCursor(['allowlist', row.id], [last]) : null,
    isFirst: cursor === undefined,
    filled,
  });
  return page(view, { status });
}
