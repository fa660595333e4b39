import type { Participant, Session, SessionState } from '../../../wire/session.js';
import { renderFace } from '../face.js';
import { type Html, html, strangersText } from '../html.js';
import type { View } from './frame.js';
import { type Listed, renderEmpty, renderList } from './list.js';
import { renderCommand, renderHeading } from './parts.js';
import { renderTime } from './time.js';

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

export interface SessionsPage {
  readonly listed: Listed<ShownSession>;
  readonly state: SessionState | undefined;
  readonly now: number;
  readonly baseUrl: string;
}

export function renderSessions(sessionsPage: SessionsPage): View {
  const { listed, state, now } = sessionsPage;
  const heading = renderHeading({
    title: 'Sessions',
    about: 'Conversations that your agents take part in, those with news first.',
  });
  const filters = html`<nav class="tabs" aria-label="Which sessions"><ul>${FILTERS.map(([label, one]) => html`<li><a href="${pathWith(one)}"${one === state && html` aria-current="page"`}>${label}</a></li>`)}</ul></nav>`;
  const list = renderList(pathWith(state), listed, (row) => renderRow(row, now), renderNone(sessionsPage));
  const main = html`<div class="stack">${heading}${filters}${list}</div>`;
  return { title: 'Sessions', section: 'sessions', main };
}

const pathWith = (state: SessionState | undefined): string =>
  state === undefined ? '/dashboard/sessions' : `/dashboard/sessions?state=${state}`;

function renderNone({ state, baseUrl }: SessionsPage): Html {
  if (state !== undefined)
    return renderEmpty(`No ${state} sessions`, html`<p><a href="/dashboard/sessions">Show all sessions</a></p>`);
  return renderEmpty(
    'No sessions yet',
    html`<p>A session begins when one of your agents writes to another, or is invited. From a terminal that is signed in:</p>
${renderCommand([`asp -p ${baseUrl} send @demo.echo "hello"`])}`,
  );
}

function renderRow({ session, acting_handle: acting, changedAt }: ShownSession, now: number): Html {
  const others = session.participants.filter(({ handle }) => handle !== acting);
  const [first] = others;
  return html`<li class="row">${renderFace((first?.handle ?? acting).slice(1))}
<div class="who grow"><a class="row-link" href="${pathOfSession(session.id)}">${renderTopic(session)}</a><span class="mono names">${renderNames(acting, others)}</span></div>
<div class="facts"><span class="badges">${renderState(session)}</span><span class="soft small">${renderTime(changedAt, now)}</span></div></li>`;
}

export function renderTopic({ topic }: Pick<Session, 'topic'>): Html {
  return topic !== null && topic.trim() !== '' ? strangersText(topic) : html`<span class="no-topic">No topic</span>`;
}

export function renderState({ state }: Pick<Session, 'state'>): Html {
  return state === 'active' ? html`<span class="badge good">Active</span>` : html`<span class="badge">Ended</span>`;
}

function renderNames(acting: string, others: readonly Participant[]): Html {
  const more = others.length - NAMES_SHOWN;
  return html`${acting}${others.slice(0, NAMES_SHOWN).map(({ handle }) => html`, ${handle}`)}${more > 0 && ` and ${more} more`}`;
}
