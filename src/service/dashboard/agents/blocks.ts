import { BlockRequest } from '../../../wire/trust.js';
import { toAgent } from '../../agents/agent-record.js';
import type { Parameters } from '../../authorization-server/parameters.js';
import { withNote } from '../../pages/dashboard/parts.js';
import { renderBlocks } from '../../pages/dashboard/trust-pages.js';
import type { Mistake } from '../../pages/form.js';
import { blockAgent } from '../../trust/block-agent.js';
import { listBlocks } from '../../trust/list-blocks.js';
import { unblockAgent } from '../../trust/unblock-agent.js';
import { type DashboardAnswer, moved, page, type Visit } from '../visit.js';
import { actingAs, requireAgent } from './own-agent.js';

const PER_PAGE = 50;
const MALFORMED: Mistake = { field: 'handle', message: 'Enter the address of an agent, such as @spam.bot.' };
const ITSELF: Mistake = { field: 'handle', message: 'An agent cannot block itself.' };

export async function showBlocks(visit: Visit): Promise<DashboardAnswer> {
  return blocksOf(visit, [], '');
}

export async function actBlock(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, account, part } = visit;
  const typed = (form.one('handle') ?? '').trim();
  const read = BlockRequest.safeParse({ handle: typed });
  if (!read.success) return blocksOf(visit, [MALFORMED], typed, 400);
  if (typed === `@${account.username}.${part('name')}`) return blocksOf(visit, [ITSELF], typed, 400);
  await context.database.write(async (transaction) => {
    const actor = actingAs(visit, await requireAgent(visit, transaction));
    await blockAgent(context, actor, { path: {}, body: read.data }, transaction);
  });
  return moved(withNote(addressOf(visit), 'blocked'));
}

export async function actUnblock(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context } = visit;
  const blocked = form.one('handle') ?? '';
  await context.database.write(async (transaction) => {
    const actor = actingAs(visit, await requireAgent(visit, transaction));
    await unblockAgent(context, actor, { path: { blocked } }, transaction);
  });
  return moved(withNote(addressOf(visit), 'unblocked'));
}

async function blocksOf(
  visit: Visit,
  mistakes: readonly Mistake[],
  filled: string,
  status = 200,
): Promise<DashboardAnswer> {
  const { context, csrf, query } = visit;
  const cursor = query.one('after');
  const { row, listed } = await context.database.read(async (view) => {
    const agent = await requireAgent(visit, view);
    const asked = { limit: PER_PAGE, ...(cursor !== undefined && { cursor }) };
    return { row: agent, listed: await listBlocks(context, actingAs(visit, agent), { query: asked }, view) };
  });
  const view = renderBlocks({
    agent: toAgent(row),
    csrf,
    note: mistakes.length > 0 ? undefined : query.one('note'),
    mistakes,
    now: context.clock.now(),
    blocks: listed.blocks,
    next: listed.next_cursor,
    isFirst: cursor === undefined,
    filled,
  });
  return page(view, { status });
}

const addressOf = ({ part }: Visit): string => `/dashboard/agents/${part('name')}/blocks`;
