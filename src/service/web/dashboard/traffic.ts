import type { Agent } from '../../../wire/schemas/agent.js';
import { toAgent } from '../../agents/agents.js';
import type { ServiceContext } from '../../core/context.js';
import type { Query } from '../../core/database.js';
import { LIMIT } from '../../core/rate-limits.js';
import type { RefusedCalls } from '../../core/refusals.js';
import { type AgentRecordRow, countAgents, listAgentsOfAccount } from '../../store/agents.js';
import { listMessageHeads } from '../../store/events.js';
import { countPending, listRecentSessions, type RecentSessionRow } from '../../store/inboxes.js';
import { renderGraph } from '../graph.js';
import { type Html, html, renderAgentFace, renderName } from '../html.js';
import { renderBadges } from './agents.js';
import { FROM_TRAFFIC, renderEmpty, renderHeading, renderNote, renderTrail } from './frame.js';
import {
  COUNTED,
  describeRefused,
  readRefusals,
  readRefusedCalls,
  renderRefusals,
  renderRefusedCalls,
  undoDecision,
} from './refusals.js';
import { type DashboardAnswer, page, type Visit } from './visit.js';

const MINUTE_MS = 60 * 1000;
const DAY_MS = 24 * 60 * 60 * 1000;
const DAYS = 7;
/** What one page reads at most: sessions, events of each, and events of all. */
const SESSIONS_MAX = 50;
const EVENTS_PER_SESSION_MAX = 200;
const EVENTS_MAX = 2_000;
/** The sender comes before everything that its author chose. */
const SENDER = /^\{"id":"[^"]*","session_id":"[^"]*","sender":"([^"]*)"/;

/** The messages of one or more agents, for each of the last seven periods of 24 hours, the latest last. */
interface Traffic {
  readonly sent: readonly number[];
  readonly received: readonly number[];
  /** How many each agent sent in all of these days, by its handle. */
  readonly sentBy: ReadonlyMap<string, number>;
  /** The sessions that were counted. */
  readonly sessionIds: readonly string[];
  /** There may be more than a page counts. */
  readonly isCut: boolean;
}

/**
 * Counts the messages in the latest sessions of these agents. A message from one of them to another counts as sent.
 * No count is kept, so a message costs no more to send.
 */
export async function readTraffic(
  { clock }: Pick<ServiceContext, 'clock'>,
  query: Query,
  agents: readonly Pick<AgentRecordRow, 'id' | 'handle'>[],
): Promise<Traffic> {
  const now = clock.now();
  const since = now - DAYS * DAY_MS;
  const sent = Array.from({ length: DAYS }, () => 0);
  const received = [...sent];
  const sentBy = new Map(agents.map(({ handle }) => [handle, 0]));
  const { sessions, isCut: areSessionsCut } = await readRecentSessions(query, agents, since);
  let isCut = areSessionsCut;
  let left = EVENTS_MAX;
  for (const { session_id: sessionId, through } of sessions) {
    const limit = Math.min(left, EVENTS_PER_SESSION_MAX);
    const events = await listMessageHeads(query, sessionId, through, since, limit);
    for (const { created_at: at, head } of events) {
      if (head === '') continue;
      const sender = SENDER.exec(head)?.[1] ?? '';
      const before = sentBy.get(sender);
      if (before !== undefined) sentBy.set(sender, before + 1);
      const days = before === undefined ? received : sent;
      const day = Math.min(DAYS - 1, DAYS - 1 - Math.floor((now - at) / DAY_MS));
      days[day] = (days[day] ?? 0) + 1;
    }
    left -= events.length;
    isCut ||= events.length === limit;
    if (left === 0) break;
  }
  return { sent, received, sentBy, sessionIds: sessions.map(({ session_id: id }) => id), isCut };
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** The latest sessions of all these agents, each as far as one of them may see it. */
async function readRecentSessions(
  query: Query,
  agents: readonly Pick<AgentRecordRow, 'id'>[],
  since: number,
): Promise<{ readonly sessions: readonly RecentSessionRow[]; readonly isCut: boolean }> {
  const found = new Map<string, RecentSessionRow>();
  let isCut = false;
  for (const { id } of agents) {
    const rows = await listRecentSessions(query, id, since, SESSIONS_MAX);
    isCut ||= rows.length === SESSIONS_MAX;
    for (const row of rows) {
      const known = found.get(row.session_id);
      if (known === undefined || known.through < row.through) found.set(row.session_id, row);
    }
  }
  const latest = [...found.values()].sort((one, other) => other.changed_at - one.changed_at);
  return { sessions: latest.slice(0, SESSIONS_MAX), isCut: isCut || latest.length > SESSIONS_MAX };
}

/** Agents whose messages the overview counts. */
const COUNTED_AGENTS_MAX = 50;
/** Agents that the overview lists, the most active first. */
const LISTED_AGENTS_MAX = 25;
/** An agent's unread sessions are counted up to this number. */
const PENDING_MAX = 100;

/** The traffic of all agents of the account together, and what each of them does. */
export async function showTraffic(visit: Visit): Promise<DashboardAnswer> {
  const { context, account, note } = visit;
  await context.inboxes.settleForAccount(account.id);
  const { traffic, rows, agentCount, refusals, calls } = await context.database.read(async (query) => {
    const agents = await listAgentsOfAccount(query, account.id, { limit: COUNTED_AGENTS_MAX });
    const traffic = await readTraffic(context, query, agents);
    const sentBy = ({ handle }: AgentRecordRow): number => traffic.sentBy.get(handle) ?? 0;
    const listed = [...agents].sort((one, other) => sentBy(other) - sentBy(one)).slice(0, LISTED_AGENTS_MAX);
    const rows: Html[] = [];
    for (const row of listed) {
      const pending = await countPending(query, row.id, PENDING_MAX);
      rows.push(renderAgentRow(toAgent(context, row), sentBy(row), pending));
    }
    return {
      traffic,
      rows,
      agentCount: await countAgents(query, account.id),
      refusals: await readRefusals(visit, query, agents),
      calls: await readRefusedCalls(visit, query, agents, traffic.sessionIds),
    };
  });
  const graphs =
    renderTraffic(traffic) ??
    renderEmpty('No messages', html`<p>Your agents sent and received no messages in the last ${DAYS} days.</p>`);
  const counted =
    agentCount > COUNTED_AGENTS_MAX &&
    html`<p class="soft small">You have ${agentCount} agents. Only the first ${COUNTED_AGENTS_MAX} are counted.</p>`;
  const list =
    rows.length > 0 &&
    html`<section class="stack-tight" aria-labelledby="by-agent"><h2 id="by-agent">By agent</h2><ul class="rows">${rows}</ul></section>`;
  const refused = renderRefusals(visit, { title: 'Refused invitations', refusals, form: FROM_TRAFFIC });
  const about = 'Everything your agents sent and received. Messages between them count as sent.';
  const main = html`<div class="stack">${renderTrail('Agents', '/dashboard/agents')}${renderHeading({ title: 'Traffic', about })}${renderNote(note, undoDecision(visit, FROM_TRAFFIC))}${graphs}${counted}${refused}${renderRefusedCalls(visit, calls)}${list}</div>`;
  return page({ title: 'Traffic', section: 'agents', main });
}

function renderAgentRow(agent: Agent, sent: number, pending: number): Html {
  const { canonical_handle: handle, local_name: name, display_name: displayName } = agent;
  const waiting = pending === PENDING_MAX ? `${PENDING_MAX} or more` : String(pending);
  return html`<li class="row">${renderAgentFace(handle)}
<div class="who grow"><a class="row-link" href="/dashboard/agents/${name}">${renderName(displayName, handle)}</a><span class="mono">${handle}</span></div>
${renderBadges(agent)}<p class="facts soft small"><span>${sent} sent in ${DAYS} days</span>${pending > 0 && html`<span>${waiting} unread ${pending === 1 ? 'session' : 'sessions'}</span>`}</p></li>`;
}

export function renderTraffic({ sent, received, isCut }: Traffic): Html | undefined {
  if (sum(sent) + sum(received) === 0) return undefined;
  const graphs = [
    { title: 'Sent', about: 'Messages sent', values: sent },
    { title: 'Received', about: 'Messages received', values: received },
  ].map(({ title, about, values }) =>
    renderGraph({
      title,
      about: `${about} in each of the last ${DAYS} days, oldest first: ${values.join(', ')}. In short`,
      series: [{ values, kind: 'usual' }],
      format: String,
      remark: `${sum(values)} in ${DAYS} days`,
      since: `${DAYS} days ago`,
      latestIs: 'in the last 24 hours',
    }),
  );
  const cut =
    isCut && html`<p class="soft small">At least: only the latest events of the latest sessions are counted.</p>`;
  return html`<section class="stack-tight" aria-labelledby="traffic"><h2 id="traffic">Messages</h2><div class="graphs">${graphs}</div>${cut}</section>`;
}

/** The limits that count what an agent does, and those that count what strangers do to an open one. */
const OWN_LIMITS = ['general', 'createSession', 'search', 'uploadAttachment'] as const;
const OPEN_LIMITS = ['sendToOpenAgent', 'inviteByStrangers'] as const;

/** How much of a rate limit is used. */
export interface UsedLimit {
  readonly label: string;
  readonly used: number;
  readonly count: number;
  readonly windowMs: number;
  /** The calls that it refused lately. */
  readonly refused: RefusedCalls | undefined;
}

/** Nothing if the service counts nothing. */
export async function readLimits(
  { limits, refusals }: Pick<ServiceContext, 'limits' | 'refusals'>,
  { id, inbound_policy: policy }: Pick<AgentRecordRow, 'id' | 'inbound_policy'>,
): Promise<readonly UsedLimit[]> {
  const names = [...OWN_LIMITS, ...(policy === 'open' ? OPEN_LIMITS : [])];
  const refused = new Map(refusals.listCalls(id).map((one) => [one.limit, one]));
  const all = names.map(async (name) => {
    const used = await limits.getUsed(name, id);
    const { count, window_ms: windowMs } = LIMIT[name];
    return used === undefined ? [] : [{ label: COUNTED[name], used, count, windowMs, refused: refused.get(name) }];
  });
  return (await Promise.all(all)).flat();
}

export function renderLimits(limits: readonly UsedLimit[], now: number): Html | undefined {
  if (limits.length === 0) return undefined;
  const rows = limits.map(
    ({ label, used, count, windowMs, refused }) =>
      html`<li class="between"><span>${label} <span class="soft">${windowMs === MINUTE_MS ? 'a minute' : 'an hour'}${refused && html`, ${describeRefused(refused, now)}`}</span></span><span>${used >= count && html`<span class="badge warn">Used up</span> `}${used} of ${count}</span></li>`,
  );
  return html`<section class="card stack-tight" aria-labelledby="limits"><h2 id="limits">Rate limits</h2><ul class="members small">${rows}</ul></section>`;
}
