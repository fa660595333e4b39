import { toAgent } from '../../agents/agent-record.js';
import type { AgentActor } from '../../context.js';
import type { View } from '../../pages/dashboard/frame.js';
import type { Listed } from '../../pages/dashboard/list.js';
import type { NoteName } from '../../pages/dashboard/parts.js';
import type { TrustPage } from '../../pages/dashboard/trust-pages.js';
import type { Query, Transaction } from '../../store/database.js';
import { type DashboardAnswer, movedWithNote, page, type Refusal, type Visit } from '../visit.js';
import { actingAs, requireAgent } from './own-agent.js';

/** One of the two lists that an agent decides by: how it is read, and what its page looks like. */
export interface TrustList<Item> {
  readonly path: 'allowlist' | 'blocks';
  read(visit: Visit, actor: AgentActor, view: Query): Promise<Listed<Item>>;
  render(trustPage: TrustPage<Item>): View;
}

/** The page of a list; with what was typed, and why it cannot be added. */
export async function showTrustList<Item>(
  visit: Visit,
  list: TrustList<Item>,
  refused?: Refusal & { readonly typed: string },
): Promise<DashboardAnswer> {
  const { context, csrf, note } = visit;
  const { row, listed } = await context.database.read(async (view) => {
    const agent = await requireAgent(visit, view);
    return { row: agent, listed: await list.read(visit, actingAs(visit, agent), view) };
  });
  const view = list.render({
    agent: toAgent(row),
    csrf,
    note,
    mistakes: refused?.mistakes ?? [],
    now: context.clock.now(),
    baseUrl: context.settings.addresses.baseUrl,
    listed,
    filled: refused?.typed ?? '',
  });
  return page(view, { status: refused?.status ?? 200 });
}

/** Changes a list as its agent does, and shows it. */
export async function changeTrustList<Item>(
  visit: Visit,
  { path }: TrustList<Item>,
  note: NoteName,
  work: (actor: AgentActor, transaction: Transaction) => Promise<unknown>,
): Promise<DashboardAnswer> {
  await visit.context.database.write(async (transaction) => {
    await work(actingAs(visit, await requireAgent(visit, transaction)), transaction);
  });
  return movedWithNote(visit, `/dashboard/agents/${visit.part('name')}/${path}`, note);
}
