import { type Block, BlockRequest } from '../../../wire/trust.js';
import type { Parameters } from '../../authorization-server/parameters.js';
import { renderBlocks } from '../../pages/dashboard/trust-pages.js';
import type { Mistake } from '../../pages/form.js';
import { blockAgent } from '../../trust/block-agent.js';
import { listBlocks } from '../../trust/list-blocks.js';
import { unblockAgent } from '../../trust/unblock-agent.js';
import { askedOf, listedOf } from '../listed.js';
import { type DashboardAnswer, mistaken, type Refusal, type Visit } from '../visit.js';
import { changeTrustList, showTrustList, type TrustList } from './trust-list.js';

const MALFORMED: Mistake = { field: 'handle', message: 'Enter the handle of an agent, such as @spam.bot.' };
const ITSELF: Mistake = { field: 'handle', message: 'An agent cannot block itself.' };

const BLOCKS: TrustList<Block> = {
  path: 'blocks',
  render: renderBlocks,
  async read(visit, actor, view) {
    const { blocks, next_cursor: next } = await listBlocks(visit.context, actor, { query: askedOf(visit) }, view);
    return listedOf(visit, blocks, next);
  },
};

export async function showBlocks(visit: Visit): Promise<DashboardAnswer> {
  return showTrustList(visit, BLOCKS);
}

export async function actBlock(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, account, part } = visit;
  const typed = (form.one('handle') ?? '').trim();
  const read = BlockRequest.safeParse({ handle: typed });
  if (!read.success) return blocksAgain(visit, form, mistaken(MALFORMED));
  if (typed === `@${account.username}.${part('name')}`) return blocksAgain(visit, form, mistaken(ITSELF));
  return changeTrustList(visit, BLOCKS, 'blocked', (actor, transaction) =>
    blockAgent(context, actor, { path: {}, body: read.data }, transaction),
  );
}

export async function blocksAgain(visit: Visit, form: Parameters, refusal: Refusal): Promise<DashboardAnswer> {
  return showTrustList(visit, BLOCKS, { ...refusal, typed: form.one('handle') ?? '' });
}

export async function actUnblock(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const input = { path: { blocked: form.one('handle') ?? '' } };
  return changeTrustList(visit, BLOCKS, 'unblocked', (actor, transaction) =>
    unblockAgent(visit.context, actor, input, transaction),
  );
}
