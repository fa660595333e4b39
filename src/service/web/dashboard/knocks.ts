import { isHandle } from '../../../wire/handle.js';
import { KNOCK_LIFETIME_S } from '../../../wire/limit.js';
import type { InboundPolicy, Knock } from '../../../wire/schemas/agent.js';
import { toAgent } from '../../agents/agents.js';
import type { AgentActor } from '../../core/context.js';
import type { Transaction } from '../../core/database.js';
import { ServiceError } from '../../core/errors.js';
import { readKnocks } from '../../messaging/knocks.js';
import { addToAllowlist, blockAgent } from '../../messaging/trust-lists.js';
import type { Parameters } from '../../oauth/parameters.js';
import { dismissKnock, restoreKnock } from '../../store/knocks.js';
import { type Html, html, renderAgentFace, strangersText } from '../html.js';
import { renderTime } from '../time.js';
import { actingAs, getAgentPath, getPath, renderAgentPage, requireAgent } from './agent.js';
import { FROM_NEEDS, type NoteName, renderButton, renderEmpty } from './frame.js';
import { readRefusals, renderRefusals, undoDecision } from './refusals.js';
import { type DashboardAnswer, getBackPath, movedWithNote, page, type Visit } from './visit.js';

const LIFETIME_DAYS = KNOCK_LIFETIME_S / (24 * 60 * 60);

interface KnockFrame {
  readonly path: string;
  readonly csrf: string;
  readonly now: number;
  /** The agent, in a list of several agents. */
  readonly handle?: string;
}

/** A stranger that knocked at one agent, with the possible decisions. */
export function renderKnock(
  { sender, text, times, last_at: at }: Knock,
  { path, csrf, now, handle }: KnockFrame,
): Html {
  const isElsewhere = handle !== undefined;
  const values = { sender, ...(isElsewhere && FROM_NEEDS) };
  const form = { csrf, about: isElsewhere ? `${sender} at ${handle}` : sender, values };
  const where = isElsewhere && html` at <a class="mono wrap" href="${path}">${handle}</a>`;
  return html`<li class="row knock">${renderAgentFace(sender, 'small')}
<div class="who grow"><span class="mono ink wrap">${sender}</span><span class="soft small">${times === 1 ? html`Knocked${where}` : html`Knocked ${String(times)} times${where}, last`} ${renderTime(at, now)}</span>${text !== null && html`<p class="lines small">${strangersText(text, text.length)}</p>`}</div>
<div class="answers">${renderButton({ ...form, path: `${path}/allow`, label: 'Allow', kind: 'primary' })}${renderButton({ ...form, path: `${path}/dismiss`, label: 'Dismiss' })}${renderButton({ ...form, path: `${path}/block`, label: 'Block' })}</div></li>`;
}

const WHY_NOTHING: Readonly<Record<InboundPolicy, (path: string) => Html>> = {
  hold: (path) =>
    html`Agents that try to start a session without being on the <a href="${path}/allowlist">allowlist</a> appear here.`,
  allowlist: (path) =>
    html`This agent doesn’t keep messages from strangers that it refused. <a href="${path}">Change who can start a session with it</a>`,
  open: (path) =>
    html`Anyone can start a session with this agent, so no one has to knock. <a href="${path}">Change who can start a session with it</a>`,
};

export async function showKnocks(visit: Visit): Promise<DashboardAnswer> {
  const { context, csrf, note } = visit;
  const { row, knocks, refusals } = await context.database.read(async (view) => {
    const found = await requireAgent(visit, view);
    return {
      row: found,
      knocks: await readKnocks(context, found.id, view),
      refusals: await readRefusals(visit, view, [found]),
    };
  });
  const agent = toAgent(context, row);
  const now = context.clock.now();
  const path = `${getPath(agent)}/knocks`;
  const about = html`<p class="soft small">These agents got the same answer as every other stranger. If you allow one, it can start sessions with this agent. If you dismiss one, it appears here again the next time it knocks. Knocks are deleted after ${String(LIFETIME_DAYS)} days.</p>`;
  const isHolding = agent.inbound_policy === 'hold';
  const nothing = renderEmpty('No one has knocked', html`<p>${WHY_NOTHING[agent.inbound_policy](getPath(agent))}</p>`);
  const list = html`${about}<ul class="rows">${knocks.map((knock) => renderKnock(knock, { path, csrf, now }))}</ul>`;
  const refused = renderRefusals(visit, { title: knocks.length === 0 ? 'Refused' : 'Also refused', refusals });
  const body = html`<div class="stack measure">${knocks.length > 0 ? list : (isHolding || refusals.length === 0) && nothing}${refused}</div>`;
  return page(renderAgentPage({ context, agent, note, undo: undoDecision(visit), mistakes: [] }, 'knocks', body));
}

/** Decides about a stranger as the agent does, and goes back to the list. */
async function decide(
  visit: Visit,
  form: Parameters,
  note: NoteName,
  work: (actor: AgentActor, sender: string, transaction: Transaction) => Promise<unknown>,
): Promise<DashboardAnswer> {
  const sender = form.one('sender') ?? '';
  if (!isHandle(sender)) throw new ServiceError('INVALID_HANDLE');
  await visit.context.database.write(async (transaction) => {
    await work(actingAs(visit.account.id, await requireAgent(visit, transaction)), sender, transaction);
  });
  const name = visit.part('name');
  return movedWithNote(visit, getBackPath(form, `/dashboard/agents/${name}/knocks`), note, `${name}/${sender}`);
}

export function actAllowKnock(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const path = getAgentPath(visit);
  return decide(visit, form, 'listed', (actor, sender, transaction) =>
    addToAllowlist(visit.context, actor, { path, body: { entries: [sender] } }, transaction),
  );
}

/** Also succeeds if it was already dismissed in another window. */
export function actDismissKnock(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  return decide(visit, form, 'dismissed', ({ agentId }, sender, transaction) =>
    dismissKnock(transaction, agentId, sender, visit.context.clock.now()),
  );
}

export function actRestoreKnock(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  return decide(visit, form, 'restored', ({ agentId }, sender, transaction) =>
    restoreKnock(transaction, agentId, sender),
  );
}

export function actBlockKnock(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  return decide(visit, form, 'blocked', (actor, sender, transaction) =>
    blockAgent(visit.context, actor, { body: { handle: sender } }, transaction),
  );
}
