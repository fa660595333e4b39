import { formatQuantity } from '../../../kit/format.js';
import { isHandle, toHandle } from '../../../wire/handle.js';
import { ID_PREFIX } from '../../../wire/id.js';
import { textOfMessage } from '../../../wire/message.js';
import type { Message } from '../../../wire/schemas/message.js';
import type { Session, SessionState } from '../../../wire/schemas/session.js';
import type { ServiceContext } from '../../core/context.js';
import type { Query } from '../../core/database.js';
import { lastVisibleTo } from '../../messaging/events.js';
import {
  type AccountSession,
  listAgentIds,
  readAccountSessions,
  readInvitations,
  readListMark,
} from '../../messaging/list-sessions.js';
import type { Parameters } from '../../oauth/parameters.js';
import { type AgentRecordRow, findAgentByHandle, listAgentsOfAccount } from '../../store/agents.js';
import { AFTER_EVERY_ULID, decodeCursor, encodeCursor } from '../../store/cursor.js';
import { listPreviews, type PreviewRow } from '../../store/events.js';
import { LIST_START, listInvitedSessions, listSeen, putSeen } from '../../store/sessions.js';
import { LISTS_SCRIPT } from '../assets.js';
import { type Field, hidden, type Mistake, renderField, renderSelection } from '../form.js';
import { GLASS, type Html, html, renderAgentFace, strangersText } from '../html.js';
import { renderTime } from '../time.js';
import {
  aspCommand,
  FROM_NEEDS,
  isEmpty,
  renderButton,
  renderCommand,
  renderEmpty,
  renderHeading,
  renderList,
  type View,
} from './frame.js';
import { toPlainText } from './markdown.js';
import { createFormKey, type DashboardAnswer, page, readPageRequest, toListed, type Visit } from './visit.js';

const PATH = '/dashboard/sessions';
const DAY_MS = 24 * 60 * 60 * 1000;

export const NEW_SESSION_PATH = '/dashboard/new-session';

export const pathOfSession = (id: string): string => `${PATH}/${id}`;

const STATES = {
  all: 'All',
  invited: 'Invited',
  active: 'Active',
  ended: 'Ended',
} as const;
type State = keyof typeof STATES;

/** The filters in the address of the list, as they were typed. */
interface AskedFilter {
  readonly state: State;
  /** The name of an own agent. */
  readonly agent: string;
  readonly counterpart: string;
  /** Days, in UTC. */
  readonly from: string;
  readonly to: string;
}

interface ShownSession extends AccountSession {
  readonly preview: PreviewRow | undefined;
  /** How many events the account may see, and how many of them no one has read in the dashboard. */
  readonly visibleCount: number;
  readonly unreadCount: number;
}

/** The agent that answers everyone, if the service was started with one. */
const ECHO_HANDLE = '@demo.echo';
/** Above the list of all sessions. */
const WAITING_SHOWN = 5;
/** Sessions that one page looks at for all agents together, and at least for each of them. */
const WALKED_MAX = 5_000;
const WALKED_PER_AGENT_MIN = 100;
/** Greater than every id of a session. */
const BEFORE_ALL = `${ID_PREFIX.session}${AFTER_EVERY_ULID}`;

export async function showSessions(visit: Visit): Promise<DashboardAnswer> {
  const { context, account } = visit;
  const asked = readFilter(visit.query);
  await context.inboxes.settleForAccount(account.id);
  return context.database.read(async (query) => {
    const agents = await listAgentsOfAccount(query, account.id);
    const agent = agents.find(({ name }) => name === asked.agent);
    const mistakes = findMistakes(asked, agent !== undefined);
    const found = mistakes.length > 0 ? { rows: [], next: null } : await readAsked(visit, query, asked, agent?.id);
    const isTop = mistakes.length === 0 && hasWaitingFirst(asked) && visit.query.one('after') === undefined;
    const invited = isTop
      ? await readInvitations(query, account.id, agent?.id, { beforeId: BEFORE_ALL, limit: WAITING_SHOWN })
      : { rows: [], next: undefined };
    const isAbove = ({ session: { id } }: AccountSession): boolean => invited.rows.some((row) => row.session.id === id);
    const rows = found.rows.filter((row) => !isAbove(row));
    const listed = toListed(visit, await showAll(visit, query, rows), found.next);
    const waiting = await showAll(visit, query, invited.rows);
    const frame = toRowFrame(visit);
    const heading = renderHeading({
      title: 'Sessions',
      about: 'Conversations your agents are in, most recent first.',
      ...(agents.length > 0 && { action: { label: 'New session', path: NEW_SESSION_PATH } }),
    });
    const tabs = html`<nav class="tabs" aria-label="Filter sessions"><ul>${Object.entries(STATES).map(([state, label]) => html`<li><a href="${pathWith({ ...asked, state: state as State })}"${state === asked.state && html` aria-current="page"`}>${label}</a></li>`)}</ul></nav>`;
    const above =
      waiting.length > 0 &&
      html`<section class="stack-tight" aria-labelledby="waiting"><div class="between"><h2 id="waiting">Waiting for you</h2>${invited.next !== undefined && html`<a class="small aside-link" href="${pathWith({ ...asked, state: 'invited' })}">All invitations</a>`}</div>
<ul class="rows">${waiting.map((row) => renderRow(row, frame))}</ul></section>`;
    const nothing =
      mistakes.length > 0
        ? NOT_ASKED
        : isEmpty(listed) && waiting.length === 0
          ? await renderNone(visit, query, asked, listed.next !== null)
          : html``;
    const list = renderList(pathWith(asked), listed, (row) => renderRow(row, frame), nothing);
    const mark = await readListMark(query, account.id);
    const main = html`<div class="stack">${heading}${SEARCH}<div class="stack-tight">${tabs}${renderFilter(asked, account.username, agents, mistakes)}</div>
<div id="list" class="stack" data-live="/dashboard/live" data-mark="${mark}">${above}${list}</div></div>`;
    const view: View = { title: 'Sessions', section: 'sessions', main, script: LISTS_SCRIPT };
    return page(view, { status: mistakes.length > 0 ? 400 : 200 });
  });
}

/** A search from here. */
const SEARCH = html`<form method="get" action="/dashboard/search" role="search" class="search-box"><label class="hidden-label" for="q">Search messages, sessions and agents</label>
<div class="joined">${GLASS}<input type="text" id="q" name="q" placeholder="Search messages, sessions and agents" maxlength="200" autocomplete="off"></div><button class="button plain">Search</button></form>`;

const LISTED_AGENTS_MAX = 50;

function renderFilter(
  request: AskedFilter,
  username: string,
  agents: readonly AgentRecordRow[],
  mistakes: readonly Mistake[],
): Html {
  const isUsed = isFiltered(request);
  const [counterpart, from, to] = [
    {
      id: 'with',
      label: 'With',
      value: request.counterpart,
      hint: 'A handle, such as @bob.helper',
      isIdentifier: true,
    },
    { id: 'from', label: 'Since', value: request.from, hint: 'Day of the last event, in UTC', kind: 'date' as const },
    { id: 'to', label: 'Until', value: request.to, hint: 'Day of the last event, in UTC', kind: 'date' as const },
  ].map((one): Field => ({ ...one, name: one.id, autocomplete: 'off', maxLength: 130, isRequired: false }));
  const agent = {
    id: 'agent',
    name: 'agent',
    label: 'Agent',
    hint: 'One of yours',
    nothing: 'All agents',
    isRequired: false,
  };
  const options = agents.map(({ name, display_name: displayName }) => ({
    value: name,
    label: `@${username}.${name} · ${displayName}`,
  }));
  const choice =
    agents.length <= LISTED_AGENTS_MAX
      ? renderSelection({ ...agent, options }, request.agent, mistakes)
      : renderField(
          {
            ...agent,
            value: request.agent,
            autocomplete: 'off',
            maxLength: 130,
            isIdentifier: true,
            suggestions: agents.map(({ name }) => name),
          },
          mistakes,
        );
  const fields = [counterpart, from, to].map((field) => field && renderField(field, mistakes));
  const state = hidden({ state: request.state === 'all' ? undefined : request.state });
  return html`<details class="filter"${(isUsed || mistakes.length > 0) && html` open`}><summary>Filter</summary>
<form method="get" action="${PATH}" class="card stack" aria-label="Filter sessions">${state}<div class="filter-fields">${choice}${fields}</div>
<div class="row-actions"><button class="button primary">Show</button>${isUsed && html`<a class="button plain" href="${pathWith({ ...NO_FILTER, state: request.state })}">Clear</a>`}</div></form></details>`;
}

const NO_FILTER = { agent: '', counterpart: '', from: '', to: '' } as const;

function isFiltered({ agent, counterpart, from, to }: AskedFilter): boolean {
  return [agent, counterpart, from, to].some((value) => value !== '');
}

/** The list of all sessions, or of all of one agent, has the invitations above it. */
const hasWaitingFirst = ({ state, counterpart, from, to }: AskedFilter): boolean =>
  state === 'all' && [counterpart, from, to].every((value) => value === '');

/** The address of the list with this filter. */
function pathWith({ state, agent, counterpart, from, to }: AskedFilter): string {
  const request = { state: state === 'all' ? '' : state, agent, with: counterpart, from, to };
  const used = Object.entries(request).filter(([, value]) => value !== '');
  return used.length === 0 ? PATH : `${PATH}?${new URLSearchParams(used)}`;
}

/** The filter was refused, so nothing was looked for. */
const NOT_ASKED = renderEmpty('Check the filter', html`<p>Or <a href="${PATH}">show all sessions</a>.</p>`);

/** No session on this page. */
async function renderNone(visit: Visit, query: Query, asked: AskedFilter, hasMore: boolean): Promise<Html> {
  if (hasMore) return renderEmpty('Nothing found so far', html`<p>Keep looking on the next page.</p>`);
  if (asked.state !== 'all' || isFiltered(asked))
    return renderEmpty(
      isFiltered(asked) ? 'No sessions match' : `No ${asked.state} sessions`,
      html`<p><a href="${PATH}">Show all sessions</a></p>`,
    );
  return renderEmpty(
    'No sessions yet',
    html`<p>A session begins when one of your agents writes to another agent, or is invited.</p>${await renderFirstStep(visit, query)}`,
  );
}

/** Suggests a first session, with an agent that the account can write to, or else waiting for one. */
async function renderFirstStep({ context, account }: Visit, query: Query): Promise<Html> {
  const [sender, sibling] = await listAgentsOfAccount(query, account.id, { limit: 2 });
  if (sender === undefined)
    return html`<p><a class="button primary" href="/dashboard/new-agent">Create an agent</a></p>`;
  const echo = await findAgentByHandle(query, ECHO_HANDLE);
  const isEchoOpen = echo?.inbound_policy === 'open' && echo.is_paused === 0 && echo.id !== sender.id;
  const recipient = isEchoOpen ? ECHO_HANDLE : sibling?.handle;
  const target = { baseUrl: context.settings.addresses.baseUrl, handle: sender.handle };
  const isAlone = recipient === undefined;
  const command = isAlone ? aspCommand(target, 'tail') : aspCommand(target, 'send', recipient, 'hello');
  const about = isAlone ? 'To wait for a session in a terminal' : 'To start a session from a terminal';
  return html`<p>${about}, <a href="/dashboard/agents/${sender.name}">sign it in</a> as <span class="mono wrap">${sender.handle}</span>, then:</p>${renderCommand([command])}`;
}

interface RowFrame {
  readonly username: string;
  readonly csrf: string;
  readonly key: string;
  readonly now: number;
  /** The page that its buttons lead back to, if it is not that of the session. */
  readonly from?: typeof FROM_NEEDS.from;
}

const toRowFrame = ({ account, csrf, context }: Visit): RowFrame => ({
  username: account.username,
  csrf,
  key: createFormKey(context),
  now: context.clock.now(),
});

function renderRow(row: ShownSession, { username, csrf, key, now, from }: RowFrame): Html {
  const { session, preview, changedAt, visibleCount, unreadCount } = row;
  const isOwn = (handle: string): boolean => handle.startsWith(`@${username}.`);
  const own = session.participants.filter(({ handle }) => isOwn(handle));
  const others = session.participants.filter(({ handle }) => !isOwn(handle));
  const [first] = [...others, ...own];
  const invited = session.state === 'active' ? own.filter(({ status }) => status === 'invited') : [];
  const isNew = unreadCount > 0;
  const isUnread = isNew || invited.length > 0;
  const count = isNew && unreadCount < visibleCount ? html`${formatQuantity(visibleCount, 'event')} · ` : '';
  return html`<li class="row session${isUnread && ' unread'}">${renderAgentFace(first?.handle ?? '', 'small')}
<div class="who grow"><a class="row-link" href="${pathOfSession(session.id)}">${renderTopic(session)}</a><span class="preview soft">${renderPreview(preview)}</span></div>
<div class="with"><span class="mono">${summarize(others)}</span><span class="mono soft"><span class="own-mark">yours</span> ${summarize(own)}</span></div>
<div class="facts"><span class="badges">${session.state === 'ended' && html`<span class="badge">Ended</span>`}${invited.length > 0 && html`<span class="badge warn">Invited</span>`}${isNew && html`<span class="badge good">${String(unreadCount)} new</span>`}</span><span class="soft small">${isNew ? count : visibleCount > 0 && html`${formatQuantity(visibleCount, 'event')} · `}${renderTime(changedAt, now)}</span></div>
${invited.slice(0, 1).map(({ handle }) => renderAnswers(session, handle, { csrf, key, ...(from !== undefined && { from }) }))}</li>`;
}

/** Two buttons, for the first of the invited agents. */
function renderAnswers(
  { id, topic }: Session,
  handle: string,
  { csrf, key, ...more }: Pick<RowFrame, 'csrf' | 'key' | 'from'>,
): Html {
  const about = html`${strangersText(topic ?? 'No topic')} as ${handle}`;
  const form = { csrf, about, values: { as: handle, key, ...more } };
  return html`<div class="answers">${renderButton({ ...form, path: `${pathOfSession(id)}/join`, label: 'Join', kind: 'primary' })}${renderButton({ ...form, path: `${pathOfSession(id)}/decline`, label: 'Decline' })}</div>`;
}

function summarize(participants: Session['participants']): Html | undefined {
  const [first] = participants;
  const more = participants.length - 1;
  return first && html`${first.handle}${more > 0 && html` +${more}<span class="hidden-label"> more</span>`}`;
}

const PREVIEW_LENGTH = 160;

/** The beginning of a message with its sender, on one line. */
function renderPreview(preview: PreviewRow | undefined): Html | undefined {
  if (preview === undefined) return undefined;
  if (preview.payload === null) return html`A long message`;
  const payload = JSON.parse(preview.payload) as Message & { readonly initial_message?: Message; readonly by: string };
  const message = preview.type === 'session.message' ? payload : payload.initial_message;
  if (message === undefined) return html`Invited by ${payload.by}`;
  return html`${message.sender}: ${strangersText(toPlainText(textOfMessage(message)), PREVIEW_LENGTH)}`;
}

export function renderTopic({ topic }: Pick<Session, 'topic'>): Html {
  return topic !== null && topic.trim() !== '' ? strangersText(topic) : html`<span class="no-topic">No topic</span>`;
}

/** An active session that none of the account's agents has joined yet waits for one of them. */
export function renderState({ state, participants }: Session, username: string): Html {
  if (state === 'ended') return html`<span class="badge">Ended</span>`;
  const own = participants.filter(({ handle }) => handle.startsWith(`@${username}.`));
  const isWaiting = own.some(({ status }) => status === 'invited') && own.every(({ status }) => status !== 'joined');
  return isWaiting ? html`<span class="badge warn">Invited</span>` : html`<span class="badge good">Active</span>`;
}

function readFilter(query: Parameters): AskedFilter {
  const state = query.one('state') ?? 'all';
  const typed = (query.one('with') ?? '').trim().toLowerCase();
  return {
    state: state in STATES ? (state as State) : 'all',
    agent: (query.one('agent') ?? '').trim(),
    counterpart: typed === '' ? '' : toHandle(typed),
    from: (query.one('from') ?? '').trim(),
    to: (query.one('to') ?? '').trim(),
  };
}

function findMistakes({ agent, counterpart, from, to }: AskedFilter, isAgentThere: boolean): Mistake[] {
  const mistakes: Mistake[] = [];
  if (agent !== '' && !isAgentThere) mistakes.push({ field: 'agent', message: 'You have no agent with this name.' });
  if (counterpart !== '' && !isHandle(counterpart))
    mistakes.push({ field: 'with', message: 'Enter a handle, such as @bob.helper.' });
  for (const [field, day] of [
    ['from', from],
    ['to', to],
  ] as const)
    if (day !== '' && Number.isNaN(startOfDay(day)))
      mistakes.push({ field, message: 'Enter a day, such as 2026-11-22.' });
  return mistakes;
}

/** NaN: it is not a day. */
function startOfDay(day: string): number {
  return /^\d{4}-\d{2}-\d{2}$/.test(day) ? Date.parse(`${day}T00:00:00Z`) : Number.NaN;
}

interface FoundSessions {
  readonly rows: readonly AccountSession[];
  readonly next: string | null;
}

async function readAsked(
  visit: Visit,
  query: Query,
  request: AskedFilter,
  agentId: string | undefined,
): Promise<FoundSessions> {
  const { account } = visit;
  const { state, counterpart, from, to } = request;
  const { limit, cursor } = readPageRequest(visit);
  const scope = ['dashboard sessions', account.id, state, agentId, counterpart, from, to];
  const since = from === '' ? undefined : startOfDay(from);
  const end = to === '' ? LIST_START.changedAt : startOfDay(to) + DAY_MS;
  if (state === 'invited') {
    const [beforeId] = decodeCursor(scope, cursor, [BEFORE_ALL]);
    const { rows, next } = await readInvitations(query, account.id, agentId, { beforeId, limit });
    const isWanted = ({ session, changedAt }: AccountSession): boolean =>
      (counterpart === '' || session.participants.some(({ handle }) => handle === counterpart)) &&
      (since === undefined || changedAt >= since) &&
      changedAt < end;
    return { rows: rows.filter(isWanted), next: next === undefined ? null : encodeCursor(scope, [next]) };
  }
  const [changedAt, sessionId] = decodeCursor(scope, cursor, [end, '']);
  const agentIds = agentId === undefined ? await listAgentIds(query, account.id) : [agentId];
  const { rows, next } = await readAccountSessions(query, account.id, agentIds, {
    filter: {
      state: state === 'all' ? undefined : (state satisfies SessionState),
      counterpart: counterpart === '' ? undefined : counterpart,
      since,
      isAnswered: state === 'active' || hasWaitingFirst(request),
    },
    position: { changedAt, sessionId },
    limit,
    walkedMax: Math.max(WALKED_PER_AGENT_MIN, Math.floor(WALKED_MAX / Math.max(1, agentIds.length))),
  });
  return { rows, next: next === undefined ? null : encodeCursor(scope, [next.changedAt, next.sessionId]) };
}

/** The rows with the rest of their content. */
async function showAll(
  { account }: Visit,
  query: Query,
  rows: readonly AccountSession[],
): Promise<readonly ShownSession[]> {
  const visible = rows.map(({ session, view }) => {
    const invitations = view.participations.map(({ first_invited_sequence: sequence }) => sequence ?? 0);
    const through = Math.min(view.through, lastVisibleTo(view));
    return { session_id: session.id, through, at: through === 0 ? Math.max(...invitations) : 0 };
  });
  const previews = new Map((await listPreviews(query, visible)).map((row) => [row.session_id, row]));
  const seen = await listSeen(
    query,
    account.id,
    visible.map(({ session_id: id }) => id),
  );
  return rows.map((row, index) => {
    const visibleCount = visible[index]?.through ?? 0;
    const { id } = row.session;
    const unreadCount = Math.max(0, visibleCount - (seen.get(id) ?? 0));
    return { ...row, preview: previews.get(id), visibleCount, unreadCount };
  });
}

/** The latest invitations of the account as rows, for the Needs you page, without those that it shows differently. */
export async function renderInvitations(
  visit: Visit,
  query: Query,
  limit: number,
  isElsewhere: (sessionId: string) => boolean,
): Promise<readonly TimedRow[]> {
  const { rows } = await readInvitations(query, visit.account.id, undefined, { beforeId: BEFORE_ALL, limit });
  const waiting = rows.filter(({ session }) => !isElsewhere(session.id));
  const shown = await showAll(visit, query, waiting);
  const frame = { ...toRowFrame(visit), ...FROM_NEEDS };
  return shown.map((row) => ({ at: row.changedAt, html: renderRow(row, frame) }));
}

/** A row of a list that several kinds share, with its time. */
export interface TimedRow {
  readonly at: number;
  readonly html: Html;
}

/** The pending invitations of the account, latest first. */
export function listInvitations(
  query: Query,
  accountId: string,
  limit: number,
): ReturnType<typeof listInvitedSessions> {
  return listInvitedSessions(query, accountId, undefined, BEFORE_ALL, limit);
}

const LATEST_SHOWN = 5;

/** The sessions of one agent that changed last, as rows; undefined: it has none. */
export async function renderLatestSessions(visit: Visit, query: Query, agentId: string): Promise<Html | undefined> {
  const { rows } = await readAccountSessions(query, visit.account.id, [agentId], {
    filter: {},
    position: LIST_START,
    limit: LATEST_SHOWN,
    walkedMax: LATEST_SHOWN,
  });
  const shown = await showAll(visit, query, rows);
  const frame = toRowFrame(visit);
  return shown.length === 0 ? undefined : html`<ul class="rows">${shown.map((row) => renderRow(row, frame))}</ul>`;
}

/** Records how far someone of the account has read a session. */
export async function markSeen(
  { database }: Pick<ServiceContext, 'database'>,
  accountId: string,
  sessionId: string,
  sequence: number,
): Promise<void> {
  const seen = await database.read((query) => listSeen(query, accountId, [sessionId]));
  if (sequence <= (seen.get(sessionId) ?? 0)) return;
  await database.behind.write((transaction) => putSeen(transaction, accountId, sessionId, sequence));
}
