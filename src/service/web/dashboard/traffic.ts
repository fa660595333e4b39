import type { ServiceContext } from '../../core/context.js';
import type { Query } from '../../core/database.js';
import { LIMIT, type LimitName } from '../../core/rate-limits.js';
import type { AgentRecordRow } from '../../store/agents.js';
import { listMessageHeads } from '../../store/events.js';
import { listRecentSessions } from '../../store/inboxes.js';
import { renderGraph } from '../graph.js';
import { type Html, html } from '../html.js';

const MINUTE_MS = 60 * 1000;
const DAY_MS = 24 * 60 * 60 * 1000;
const DAYS = 7;
/** What one page reads at most: sessions, events of each, and events of all. */
const SESSIONS_MAX = 50;
const EVENTS_PER_SESSION_MAX = 200;
const EVENTS_MAX = 2_000;
/** The sender comes before everything that its author chose. */
const SENDER = /^\{"id":"[^"]*","session_id":"[^"]*","sender":"([^"]*)"/;

/** The messages of an agent, for each of the last seven times 24 hours, the latest last. */
export interface Traffic {
  readonly sent: readonly number[];
  readonly received: readonly number[];
  /** There may be more than a page counts. */
  readonly isCut: boolean;
}

/** Counts the messages in the agent's latest sessions. No count is kept, so a message costs no more to send. */
export async function readTraffic(
  { clock }: Pick<ServiceContext, 'clock'>,
  query: Query,
  { id, handle }: Pick<AgentRecordRow, 'id' | 'handle'>,
): Promise<Traffic> {
  const now = clock.now();
  const since = now - DAYS * DAY_MS;
  const sent = Array.from({ length: DAYS }, () => 0);
  const received = [...sent];
  const sessions = await listRecentSessions(query, id, since, SESSIONS_MAX);
  let isCut = sessions.length === SESSIONS_MAX;
  let left = EVENTS_MAX;
  for (const { session_id: sessionId, through } of sessions) {
    const limit = Math.min(left, EVENTS_PER_SESSION_MAX);
    const events = await listMessageHeads(query, sessionId, through, since, limit);
    for (const { created_at: at, head } of events) {
      if (head === '') continue;
      const days = SENDER.exec(head)?.[1] === handle ? sent : received;
      const day = Math.min(DAYS - 1, DAYS - 1 - Math.floor((now - at) / DAY_MS));
      days[day] = (days[day] ?? 0) + 1;
    }
    left -= events.length;
    isCut ||= events.length === limit;
    if (left === 0) break;
  }
  return { sent, received, isCut };
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** Undefined: there was nothing in seven days. */
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
const OWN_LIMITS = {
  general: 'Requests',
  createSession: 'New sessions',
  search: 'Searches',
  uploadAttachment: 'Uploads',
} as const satisfies Partial<Record<LimitName, string>>;
const OPEN_LIMITS = {
  sendToOpenAgent: 'Messages from others',
  inviteByStrangers: 'Invitations from strangers',
} as const satisfies Partial<Record<LimitName, string>>;

/** How much of a rate limit is used. */
export interface UsedLimit {
  readonly label: string;
  readonly used: number;
  readonly count: number;
  readonly windowMs: number;
}

/** Nothing if the service counts nothing. */
export async function readLimits(
  { limits }: Pick<ServiceContext, 'limits'>,
  { id, inbound_policy: policy }: Pick<AgentRecordRow, 'id' | 'inbound_policy'>,
): Promise<readonly UsedLimit[]> {
  const names = Object.entries({ ...OWN_LIMITS, ...(policy === 'open' && OPEN_LIMITS) });
  const all = names.map(async ([key, label]) => {
    const name = key as LimitName;
    const used = await limits.getUsed(name, id);
    const { count, window_ms: windowMs } = LIMIT[name];
    return used === undefined ? [] : [{ label, used, count, windowMs }];
  });
  return (await Promise.all(all)).flat();
}

export function renderLimits(limits: readonly UsedLimit[]): Html | undefined {
  if (limits.length === 0) return undefined;
  const rows = limits.map(
    ({ label, used, count, windowMs }) =>
      html`<li class="between"><span>${label} <span class="soft">${windowMs === MINUTE_MS ? 'a minute' : 'an hour'}</span></span><span>${used >= count && html`<span class="badge warn">Used up</span> `}${used} of ${count}</span></li>`,
  );
  return html`<section class="card stack-tight" aria-labelledby="limits"><h2 id="limits">Rate limits</h2><ul class="members small">${rows}</ul></section>`;
}
