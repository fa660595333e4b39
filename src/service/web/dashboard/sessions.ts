import { splitHandle } from '../../../wire/handle.js';
import { type Participant, type Session, SessionState } from '../../../wire/schemas/session.js';
import type { Query } from '../../core/database.js';
import { readAccountSessions } from '../../messaging/list-sessions.js';
import { findAgentByHandle, listAgentsOfAccount } from '../../store/agents.js';
import { type Html, html, renderFace, strangersText } from '../html.js';
import { renderTime } from '../time.js';
import {
  aspCommand,
  isEmpty,
  type Listed,
  renderCommand,
  renderEmpty,
  renderHeading,
  renderList,
  type View,
} from './frame.js';
import { askedOf, type DashboardAnswer, listedOf, page, type Visit } from './visit.js';

const NAMES_SHOWN = 4;
const FILTERS: readonly (readonly [label: string, state: SessionState | undefined])[] = [
  ['All', undefined],
  ['Active', 'active'],
  ['Ended', 'ended'],
];

export const pathOfSession = (id: string): string => `/dashboard/sessions/${id}`;

interface ShownSession {
  readonly session: Session;
  readonly acting_handle: string;
  readonly changedAt: number;
}

/** An agent of the account, and one that it can write to. */
export interface FirstSession {
  readonly sender: string;
  /** Undefined: it can only wait for an invitation. */
  readonly recipient: string | undefined;
}

export interface SessionsPage {
  readonly listed: Listed<ShownSession>;
  readonly state: SessionState | undefined;
  readonly username: string;
  /** A suggestion for a first session; undefined: the account has no agents. */
  readonly start: FirstSession | undefined;
  readonly now: number;
  readonly baseUrl: string;
}

export function renderSessions(sessionsPage: SessionsPage): View {
  const { listed, state } = sessionsPage;
  const heading = renderHeading({
    title: 'Sessions',
    about: 'Conversations your agents are in, most recent first.',
  });
  const filters = html`<nav class="tabs" aria-label="Filter sessions"><ul>${FILTERS.map(([label, one]) => html`<li><a href="${pathWith(one)}"${one === state && html` aria-current="page"`}>${label}</a></li>`)}</ul></nav>`;
  const list = renderList(pathWith(state), listed, (row) => renderRow(row, sessionsPage), renderNone(sessionsPage));
  const main = html`<div class="stack">${heading}${filters}${list}</div>`;
  return { title: 'Sessions', section: 'sessions', main };
}

const pathWith = (state: SessionState | undefined): string =>
  state === undefined ? '/dashboard/sessions' : `/dashboard/sessions?state=${state}`;

function renderNone({ state, baseUrl, start }: SessionsPage): Html {
  if (state !== undefined)
    return renderEmpty(`No ${state} sessions`, html`<p><a href="/dashboard/sessions">Show all sessions</a></p>`);
  return renderEmpty(
    'No sessions yet',
    html`<p>A session begins when one of your agents writes to another agent, or is invited.</p>${renderFirstStep(start, baseUrl)}`,
  );
}

function renderFirstStep(start: FirstSession | undefined, baseUrl: string): Html {
  if (start === undefined)
    return html`<p><a class="button primary" href="/dashboard/new-agent">Create an agent</a></p>`;
  const target = { baseUrl, handle: start.sender };
  const isAlone = start.recipient === undefined;
  const command = isAlone ? aspCommand(target, 'tail') : aspCommand(target, 'send', start.recipient, 'hello');
  const about = isAlone ? 'To wait for one in a terminal' : 'To start one from a terminal';
  return html`<p>${about}, <a href="/dashboard/agents/${splitHandle(start.sender).name}">sign it in</a> as <span class="mono wrap">${start.sender}</span>, then:</p>${renderCommand([command])}`;
}

function renderRow({ session, acting_handle: acting, changedAt }: ShownSession, { username, now }: SessionsPage): Html {
  const others = session.participants.filter(({ handle }) => handle !== acting);
  const [first] = others;
  return html`<li class="row">${renderFace((first?.handle ?? acting).slice(1))}
<div class="who grow"><a class="row-link" href="${pathOfSession(session.id)}">${renderTopic(session)}</a><span class="mono names">${renderNames(acting, others)}</span></div>
<div class="facts"><span class="badges">${renderState(session, username)}</span><span class="soft small">${renderTime(changedAt, now)}</span></div></li>`;
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

function renderNames(acting: string, others: readonly Participant[]): Html {
  const more = others.length - NAMES_SHOWN;
  return html`${acting}${others.slice(0, NAMES_SHOWN).map(({ handle }) => html`, ${handle}`)}${more > 0 && ` and ${more} more`}`;
}

/** The agent that answers everyone, if the service was started with one. */
const ECHO_HANDLE = '@demo.echo';

export async function showSessions(visit: Visit): Promise<DashboardAnswer> {
  const { context, account, query } = visit;
  const state = SessionState.safeParse(query.one('state')).data;
  await context.inboxes.settle();
  return context.database.read(async (view) => {
    const asked = { ...askedOf(visit), ...(state !== undefined && { state }) };
    const { rows, next } = await readAccountSessions(view, account.id, asked);
    const listed = listedOf(visit, rows, next);
    return page(
      renderSessions({
        listed,
        state,
        username: account.username,
        start: isEmpty(listed) ? await suggestFirst(view, account.id) : undefined,
        now: context.clock.now(),
        baseUrl: context.settings.addresses.baseUrl,
      }),
    );
  });
}

async function suggestFirst(view: Query, accountId: string): Promise<FirstSession | undefined> {
  const [sender, sibling] = await listAgentsOfAccount(view, accountId, { limit: 2 });
  if (sender === undefined) return undefined;
  const echo = await findAgentByHandle(view, ECHO_HANDLE);
  const isEchoOpen = echo?.inbound_policy === 'open' && echo.is_paused === 0 && echo.id !== sender.id;
  return { sender: sender.handle, recipient: isEchoOpen ? ECHO_HANDLE : sibling?.handle };
}
