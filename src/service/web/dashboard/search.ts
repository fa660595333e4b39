import { formatQuantity } from '../../../kit/format.js';
import { isHandle } from '../../../wire/handle.js';
import { SEARCH_QUERY_MAX_LENGTH } from '../../../wire/limit.js';
import { textOfMessage } from '../../../wire/message.js';
import type { Agent } from '../../../wire/schemas/agent.js';
import type { ReplyOf } from '../../../wire/schemas/endpoint.js';
import { getPublicPath, toAgent } from '../../agents/agents.js';
import { findByTerms, readFoundAgents, WALK_START } from '../../agents/search.js';
import { isSearchOn } from '../../core/context.js';
import { hasCode } from '../../core/errors.js';
import { listAgentIds } from '../../messaging/list-sessions.js';
import { type FoundMessage, SEARCH_OFF, searchAccountMessages } from '../../messaging/search-messages.js';
import { listAgentsOfAccount } from '../../store/agents.js';
import { toSearchPhrases, toSearchTerms } from '../../store/search.js';
import { findSessionsByTopic, type TopicRow } from '../../store/sessions.js';
import { type Field, type Mistake, renderField, renderMistakes, toTitle } from '../form.js';
import { type Html, html, renderAgentFace, renderName, untrustedText } from '../html.js';
import { renderTime } from '../time.js';
import { renderEmpty, renderHeading } from './frame.js';
import { toPlainText } from './markdown.js';
import { pathOfSession, renderTopic } from './sessions.js';
import { type DashboardAnswer, page, type Visit } from './visit.js';

const PATH = '/dashboard/search';
const MESSAGES_MAX = 50;
const OTHERS_MAX = 10;
/** Sessions whose topics one search reads for each agent, and for all of them. */
const TOPICS_MAX = 2_000;
const TOPICS_PER_AGENT_MIN = 50;

type PublicAgent = ReplyOf<'searchAgents'>['agents'][number];

interface Found {
  /** Undefined: the service does not search messages. */
  readonly messages: readonly FoundMessage[] | undefined;
  /** Some sessions were not searched. */
  readonly isPartial: boolean;
  readonly sessions: readonly TopicRow[];
  readonly ownAgents: readonly Agent[];
  /** Agents of others that anyone may find. */
  readonly agents: readonly PublicAgent[];
}

export async function showSearch(visit: Visit): Promise<DashboardAnswer> {
  const q = (visit.query.one('q') ?? '').trim();
  const refused = q === '' ? undefined : (findMistake(q) ?? (await findHurry(visit)));
  const mistakes = refused === undefined ? [] : [refused.mistake];
  const found = q === '' || refused !== undefined ? undefined : await search(visit, q);
  const field: Field = {
    id: 'q',
    name: 'q',
    label: 'Words in messages, topics, or agents',
    value: q,
    hint: html`Finds texts with all of these words. A handle such as <code>@bob.helper</code> finds its sessions.`,
    autocomplete: 'off',
    maxLength: SEARCH_QUERY_MAX_LENGTH,
    hasFocus: q === '',
  };
  const form = html`<form method="get" action="${PATH}" role="search" class="search-form">${renderField(field, mistakes)}<button class="button primary">Search</button></form>`;
  const main = html`<div class="stack">${renderHeading({ title: 'Search' })}${renderMistakes(mistakes)}${form}${found && renderFound(q, found, visit.context.clock.now())}</div>`;
  const title = toTitle(q === '' ? 'Search' : `${untrustedText(q)} · Search`, mistakes);
  return page({ title, section: 'search', main }, refused);
}

function search({ context, account }: Visit, q: string): Promise<Found> {
  return context.database.read(async (view) => {
    const agentIds = await listAgentIds(view, account.id);
    const topicsMax = Math.max(TOPICS_PER_AGENT_MIN, Math.floor(TOPICS_MAX / Math.max(1, agentIds.length)));
    const agents = await readFoundAgents(context, view, await findByTerms(view, 'agent', q, WALK_START, OTHERS_MAX));
    const own = await listAgentsOfAccount(view, account.id, { limit: OTHERS_MAX, text: q });
    const found = isSearchOn(context)
      ? await searchAccountMessages(view, account.id, { q, agentIds, limit: MESSAGES_MAX })
      : undefined;
    return {
      messages: found?.messages,
      isPartial: found?.isPartial === true,
      sessions: await findSessionsByTopic(view, agentIds, q, { walkedMax: topicsMax, limit: OTHERS_MAX }),
      ownAgents: own.map((row) => toAgent(context, row)),
      agents: agents.filter(({ canonical_handle: handle }) => !handle.startsWith(`@${account.username}.`)),
    };
  });
}

const PARTIAL = html`Your agents have a lot of sessions, so only the latest ones were searched. <code class="wrap">asp message search</code> looks in every session that one agent has joined.`;

function renderFound(q: string, { messages, isPartial, sessions, ownAgents, agents }: Found, now: number): Html {
  const handle = q.trim().toLowerCase();
  const withHandle =
    isHandle(handle) &&
    html`<p><a href="/dashboard/sessions?with=${encodeURIComponent(handle)}">Sessions with <span class="mono">${handle}</span></a></p>`;
  const isNothing = [messages ?? [], sessions, ownAgents, agents].every(({ length }) => length === 0);
  const notSearched = messages === undefined && html`<p class="soft small">${SEARCH_OFF}</p>`;
  const partial = isPartial && html`<p class="soft small">${PARTIAL}</p>`;
  if (isNothing && withHandle === false)
    return renderEmpty(
      'Nothing found',
      html`${notSearched || html`<p>Search looks for whole words, in everything that your agents can see. Try fewer or different words.</p>`}${partial}`,
    );
  const terms = new Set(toSearchTerms(q));
  const cut =
    messages?.length === MESSAGES_MAX
      ? html`<p class="soft small">These are the ${MESSAGES_MAX} newest messages. Add words to find older ones.</p>`
      : '';
  return html`${withHandle}${notSearched}${renderGroup('Messages', messages ?? [], (one) => renderMessage(one, terms, now))}${cut || partial}
${renderGroup('Sessions', sessions, (one) => renderSession(one, now))}
${renderGroup('Your agents', ownAgents, (agent) => renderAgent(agent.canonical_handle, html`<a class="row-link" href="/dashboard/agents/${agent.local_name}">${renderName(agent.display_name, agent.canonical_handle)}</a>`))}
${renderGroup('Other agents', agents, ({ canonical_handle: one, display_name: name }) => renderAgent(one, html`<a class="row-link" href="${getPublicPath(one)}">${renderName(name, one)}</a>`))}`;
}

function renderGroup<Item>(title: string, items: readonly Item[], renderItem: (item: Item) => Html): Html | undefined {
  if (items.length === 0) return undefined;
  const id = `found-${title.toLowerCase().replace(' ', '-')}`;
  return html`<section class="stack-tight" aria-labelledby="${id}"><h2 id="${id}">${title}</h2><ul class="rows">${items.map(renderItem)}</ul></section>`;
}

function renderMessage({ session, sequence, message }: FoundMessage, terms: ReadonlySet<string>, now: number): Html {
  const path = `${pathOfSession(session.session_id)}?around=${sequence}#e${sequence}`;
  return html`<li class="row hit">${renderAgentFace(message.sender, 'small')}
<div class="who grow"><a class="row-link" href="${path}">${renderTopic(session)}</a><span class="excerpt">${renderExcerpt(toReadable(textOfMessage(message), terms), terms)}</span></div>
<div class="facts"><span class="mono">${message.sender}</span><span class="soft small">${renderTime(message.created_at, now)}</span></div></li>`;
}

function renderSession({ id, topic, changed_at: changedAt, state }: TopicRow, now: number): Html {
  return html`<li class="row"><div class="who grow"><a class="row-link" href="${pathOfSession(id)}">${renderTopic({ topic })}</a></div>
<div class="facts"><span class="badges">${state === 'ended' && html`<span class="badge">Ended</span>`}</span><span class="soft small">${renderTime(changedAt, now)}</span></div></li>`;
}

function renderAgent(handle: string, name: Html): Html {
  return html`<li class="row">${renderAgentFace(handle, 'small')}<div class="who grow">${name}<span class="mono">${handle}</span></div></li>`;
}

/** Without Markdown's marks, unless only they have the words, as the address of a link may. */
function toReadable(text: string, terms: ReadonlySet<string>): string {
  const plain = toPlainText(text);
  return toSearchTerms(plain.slice(0, SEARCHED_LENGTH)).some((term) => terms.has(term)) ? plain : text;
}

const EXCERPT_BEFORE = 80;
const EXCERPT_LENGTH = 240;
const SEARCHED_LENGTH = 32 * 1024;

/** The part of a text around the first of the words, with the words marked. */
export function renderExcerpt(whole: string, terms: ReadonlySet<string>): Html {
  const text = untrustedText(whole.slice(0, SEARCHED_LENGTH), SEARCHED_LENGTH);
  const tokens = [...text.matchAll(/[\p{L}\p{N}\p{M}]+/gu)].map(({ 0: token, index }) => {
    const isFound = toSearchTerms(token).some((term) => terms.has(term));
    return { token, index, isFound };
  });
  const first = tokens.find(({ isFound }) => isFound)?.index ?? 0;
  const start = tokens.find(({ index }) => index >= first - EXCERPT_BEFORE)?.index ?? 0;
  const end = start + EXCERPT_LENGTH;
  const pieces: Html[] = [];
  let at = first <= EXCERPT_BEFORE ? 0 : start;
  const isCut = at > 0;
  for (const { token, index, isFound } of tokens) {
    if (!isFound || index < at || index + token.length > end) continue;
    pieces.push(html`${text.slice(at, index)}<mark>${token}</mark>`);
    at = index + token.length;
  }
  const rest = text.slice(at, Math.max(at, end)).replace(/[\uD800-\uDBFF]$/, '');
  return html`<bdi>${isCut && '…'}${pieces}${rest}${text.length > end && '…'}</bdi>`;
}

interface Refused {
  readonly mistake: Mistake;
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
}

function findMistake(q: string): Refused | undefined {
  const mistake = (message: string): Refused => ({ mistake: { field: 'q', message }, status: 400 });
  if (q.length > SEARCH_QUERY_MAX_LENGTH) return mistake(`Use at most ${SEARCH_QUERY_MAX_LENGTH} characters.`);
  return toSearchPhrases(q).length === 0 ? mistake('Enter at least one letter or digit.') : undefined;
}

/** A search reads far more than other pages. */
async function findHurry({ context, account }: Visit): Promise<Refused | undefined> {
  try {
    await context.limits.take('search', account.id);
    return undefined;
  } catch (error) {
    if (!hasCode(error, 'RATE_LIMITED')) throw error;
    const seconds = error.options.retryAfterS ?? 1;
    const message = `Too many searches. Try again in ${formatQuantity(seconds, 'second')}.`;
    return { mistake: { field: 'q', message }, status: 429, headers: { 'retry-after': String(seconds) } };
  }
}
