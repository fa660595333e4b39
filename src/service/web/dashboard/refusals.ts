import { isHandle } from '../../../wire/handle.js';
import { isShared, type Query } from '../../core/database.js';
import type { LimitName } from '../../core/rate-limits.js';
import type { RefusalReason, RefusedCalls, RefusedInvitation } from '../../core/refusals.js';
import type { AgentRecordRow } from '../../store/agents.js';
import { findDecided } from '../../store/allowlists.js';
import { listClientsOfAccount } from '../../store/oauth-clients.js';
import { listParticipationsOfAccountIn } from '../../store/participants.js';
import { type Html, html, renderAgentFace, strangersText } from '../html.js';
import { renderTime } from '../time.js';
import { renderButton, type SmallForm } from './frame.js';
import { pathOfSession } from './sessions.js';
import type { Visit } from './visit.js';

type Refuser = Pick<AgentRecordRow, 'id' | 'handle' | 'name' | 'inbound_policy'>;

/** An invitation that one of the account's agents refused. */
interface OwnRefusal extends RefusedInvitation {
  readonly agent: Refuser;
}

const latestFirst = (one: { readonly lastAt: number }, other: { readonly lastAt: number }): number =>
  other.lastAt - one.lastAt;

/** The invitations that agents refused, latest first, without those about which the owner has decided since. */
export async function readRefusals(
  { context }: Pick<Visit, 'context'>,
  query: Query,
  agents: readonly Refuser[],
): Promise<readonly OwnRefusal[]> {
  const found: OwnRefusal[] = [];
  for (const agent of agents) {
    const refused = context.refusals.listInvitations(agent.id);
    if (refused.length === 0) continue;
    const decided = await findDecided(
      query,
      agent.id,
      refused.map(({ sender }) => sender),
    );
    const isOpenQuestion = ({ sender, reason }: RefusedInvitation): boolean => {
      const { isListed, isBlocked } = decided.get(sender) ?? { isListed: false, isBlocked: false };
      if (reason === 'blocked') return isBlocked;
      if (reason === 'paused') return !isBlocked;
      return !isBlocked && !isListed && (reason === 'too many' || agent.inbound_policy !== 'open');
    };
    found.push(...refused.filter(isOpenQuestion).map((one) => ({ ...one, agent })));
  }
  return found.sort(latestFirst);
}

const WHY: Readonly<Record<RefusalReason, string>> = {
  unlisted: 'Not on the allowlist',
  blocked: 'Blocked',
  paused: 'Refused while the agent was paused',
  'too many': 'Too many invitations from strangers',
};

/** `form` has the further fields of the buttons, and is given in a list of several agents. */
function renderRefusal(
  { sender, reason, times, lastAt, agent }: OwnRefusal,
  { csrf, now, form }: { readonly csrf: string; readonly now: number; readonly form?: Record<string, string> },
): Html {
  const path = `/dashboard/agents/${agent.name}`;
  const about = form === undefined ? sender : `${sender} at ${agent.handle}`;
  const where = form !== undefined && html` at <a class="mono wrap" href="${path}/knocks">${agent.handle}</a>`;
  const button = { csrf, about, values: { sender, ...form } };
  const decide = html`${renderButton({ ...button, path: `${path}/knocks/allow`, label: 'Allow', kind: 'primary' })}${renderButton({ ...button, path: `${path}/knocks/block`, label: 'Block' })}`;
  const answers =
    reason === 'blocked'
      ? html`<a class="button plain small-button" href="${path}/blocks?q=${encodeURIComponent(sender)}">See the block<span class="hidden-label"> of ${about}</span></a>`
      : reason !== 'paused' && decide;
  return html`<li class="row knock">${renderAgentFace(sender, 'small')}
<div class="who grow"><span class="mono ink wrap">${sender}</span><span class="soft small">${WHY[reason]}</span><span class="soft small">${times === 1 ? html`Refused${where}` : html`Refused ${times} times${where}, last`} ${renderTime(lastAt, now)}</span></div>
<div class="answers">${answers}</div></li>`;
}

/** Where refusals are kept, for those who wonder why one is missing. */
function renderScope({ context }: Pick<Visit, 'context'>, more = ''): Html {
  const several = isShared(context.database) && ' If the service runs in several processes, each shows its own.';
  return html`<p class="soft small">Kept for 24 hours, or until the service stops.${several}${more}</p>`;
}

interface RefusalList {
  readonly title: string;
  readonly refusals: readonly OwnRefusal[];
  readonly form?: Record<string, string>;
}

export function renderRefusals(visit: Visit, { title, refusals, form }: RefusalList): Html | undefined {
  if (refusals.length === 0) return undefined;
  const now = visit.context.clock.now();
  const frame = { csrf: visit.csrf, now, ...(form !== undefined && { form }) };
  return html`<section class="stack-tight" aria-labelledby="refused"><h2 id="refused">${title}</h2>${renderScope(visit, ' Those who were refused cannot tell why.')}<ul class="rows">${refusals.map((one) => renderRefusal(one, frame))}</ul></section>`;
}

/** Takes back what the note says was decided about a stranger, as far as that can be taken back. */
export function undoDecision(visit: Visit, values: Readonly<Record<string, string>> = {}): SmallForm | undefined {
  const { account, csrf, note, noteAbout = '' } = visit;
  const [name = '', sender = ''] = noteAbout.split('/');
  if (!isHandle(sender) || !isHandle(`@${account.username}.${name}`)) return undefined;
  const path = `/dashboard/agents/${name}`;
  if (note === 'dismissed')
    return {
      path: `${path}/knocks/restore`,
      csrf,
      label: 'Undo',
      about: html`the dismissal of ${sender}`,
      values: { ...values, sender },
    };
  if (note !== 'blocked') return undefined;
  return { path: `${path}/blocks/remove`, csrf, label: 'Unblock', about: sender, values: { handle: sender } };
}

/** What each limit counts, for the owner of what it counts for. */
export const COUNTED = {
  general: 'Requests',
  createSession: 'New sessions',
  search: 'Searches',
  uploadAttachment: 'Uploads',
  sendMessage: 'Messages',
  sendToOpenAgent: 'Messages from others',
  inviteByStrangers: 'Invitations from strangers',
  issueToken: 'Tokens',
  createSessionOfAccount: 'New sessions of all agents',
  exportAccount: 'Downloads of all data',
  exportSession: 'Downloads of sessions',
  viewPage: 'Pages of the dashboard',
  openStream: 'Live pages',
} as const satisfies Partial<Record<LimitName, string>>;

/** Calls that a rate limit refused, and what they count for. */
interface OwnRefusedCalls extends RefusedCalls {
  readonly subject: Html;
}

const CLIENTS_MAX = 100;
const AFTER_ALL_IDS = '~';

/** What ran into a rate limit: the account, its agents, their API credentials, and sessions that they are in. */
export async function readRefusedCalls(
  { context, account }: Pick<Visit, 'context' | 'account'>,
  query: Query,
  agents: readonly Refuser[],
  sessionIds: readonly string[],
): Promise<readonly OwnRefusedCalls[]> {
  const list = (id: string, subject: Html): OwnRefusedCalls[] =>
    context.refusals.listCalls(id).map((one) => ({ ...one, subject }));
  const clients = await listClientsOfAccount(query, account.id, AFTER_ALL_IDS, CLIENTS_MAX);
  const limitedIds = sessionIds.filter((id) => context.refusals.listCalls(id).length > 0);
  const parts = await listParticipationsOfAccountIn(query, account.id, limitedIds);
  const joinedIds = new Set(parts.filter(({ status }) => status === 'joined').map(({ session_id: id }) => id));
  const all = [
    ...list(account.id, html`Your account`),
    ...agents.flatMap(({ id, name, handle }) =>
      list(id, html`<a class="mono wrap" href="/dashboard/agents/${name}">${handle}</a>`),
    ),
    ...clients.flatMap(({ id, name }) =>
      list(id, html`<a href="/dashboard/clients/${id}">${strangersText(name)}</a> (API credential)`),
    ),
    ...[...joinedIds].flatMap((id) => list(id, html`<a href="${pathOfSession(id)}">A session</a> of your agents`)),
  ];
  return all.filter(({ limit }) => limit in COUNTED).sort(latestFirst);
}

export function renderRefusedCalls(visit: Pick<Visit, 'context'>, calls: readonly OwnRefusedCalls[]): Html | undefined {
  if (calls.length === 0) return undefined;
  const now = visit.context.clock.now();
  const rows = calls.map(
    ({ subject, limit, ...tally }) =>
      html`<li class="row"><div class="who grow"><span>${subject}</span><span class="soft small">${COUNTED[limit as keyof typeof COUNTED]}: ${describeRefused(tally, now)}</span></div></li>`,
  );
  return html`<section class="stack-tight" aria-labelledby="limited"><h2 id="limited">Rate limits reached</h2>${renderScope(visit)}<ul class="rows">${rows}</ul></section>`;
}

export function describeRefused({ times, lastAt }: Pick<RefusedCalls, 'times' | 'lastAt'>, now: number): Html {
  return html`${times === 1 ? 'one call refused' : `${times} calls refused, last`} ${renderTime(lastAt, now)}`;
}
