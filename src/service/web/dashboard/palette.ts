import { SEARCH_QUERY_MAX_LENGTH } from '../../../wire/limit.js';
import { listAgentIds } from '../../messaging/list-sessions.js';
import { listAgentsOfAccount } from '../../store/agents.js';
import { findSessionsByTopic } from '../../store/sessions.js';
import { renderField } from '../form.js';
import { type Html, html, untrustedText } from '../html.js';
import { GO_PATH, listPlaces, renderHeading } from './frame.js';
import { NEW_SESSION_PATH, pathOfSession, renderTopic } from './sessions.js';
import { LINKS_PATH } from './share-links.js';
import { type DashboardAnswer, page, type Visit } from './visit.js';

/** Agents and sessions that one page offers. */
const OFFERED_MAX = 6;
/** Sessions whose topics it reads for each agent, and for all of them: it is asked while someone types. */
const TOPICS_MAX = 500;
const TOPICS_PER_AGENT_MIN = 10;
const AGENTS_MAX = 50;

interface Offer {
  readonly label: Html | string;
  readonly kind: string;
  readonly path: string;
}

const ACTIONS: readonly (Offer & { readonly label: string })[] = [
  { label: 'New session', kind: 'Action', path: NEW_SESSION_PATH },
  { label: 'New agent', kind: 'Action', path: '/dashboard/new-agent' },
  { label: 'New API credential', kind: 'Action', path: '/dashboard/new-client' },
  { label: 'Change theme, times and shortcuts', kind: 'Action', path: '/dashboard/settings#preferences' },
  { label: 'Add a passkey', kind: 'Action', path: '/dashboard/settings/passkeys/new' },
  { label: 'Activity log', kind: 'Page', path: '/dashboard/settings/activity' },
  { label: 'Shared sessions', kind: 'Page', path: LINKS_PATH },
  { label: 'Traffic and refusals', kind: 'Page', path: '/dashboard/traffic' },
];

/**
 * Pages, actions, agents and sessions with what someone typed in their names, and last the search for it. The script
 * `palette.js` takes its rows from here.
 */
export async function showPlaces(visit: Visit): Promise<DashboardAnswer> {
  const q = (visit.query.one('q') ?? '').trim().slice(0, SEARCH_QUERY_MAX_LENGTH);
  const offers = [...listFixed(visit, q), ...(q === '' ? [] : await findOffers(visit, q))];
  const field = {
    id: 'q',
    name: 'q',
    label: 'Part of the name of a page, agent or session',
    value: q,
    autocomplete: 'off',
    isRequired: false,
    hasFocus: q === '',
  };
  const rows = offers.map(
    ({ label, kind, path }) =>
      html`<li class="row"><div class="who grow"><a class="row-link" href="${path}">${label}</a></div><span class="soft small">${kind}</span></li>`,
  );
  const main = html`<div class="stack">${renderHeading({ title: 'Go to' })}<form method="get" action="${GO_PATH}" role="search" class="search-form">${renderField(field, [])}<button class="button primary">Find</button></form><ul class="rows" id="places">${rows}</ul></div>`;
  return page({ title: 'Go to', section: undefined, main });
}

/** Pages and actions, in which every typed word begins a word. */
function listFixed({ account, context }: Visit, q: string): Offer[] {
  const typed = q.toLowerCase().split(/\s+/);
  const pages = listPlaces(account).map(({ label, path }) => ({ label, kind: 'Page', path }));
  const actions = ACTIONS.filter(({ path }) => path !== LINKS_PATH || context.settings.shareLinks !== 'off');
  return [...pages, ...actions].filter(({ label }) => {
    const words = label.toLowerCase().split(/[\s,]+/);
    return typed.every((one) => words.some((word) => word.startsWith(one)));
  });
}

async function findOffers({ context, account }: Visit, q: string): Promise<Offer[]> {
  const { agents, sessions } = await context.database.read(async (query) => {
    const agentIds = (await listAgentIds(query, account.id)).slice(0, AGENTS_MAX);
    const walkedMax = Math.max(TOPICS_PER_AGENT_MIN, Math.floor(TOPICS_MAX / Math.max(1, agentIds.length)));
    return {
      agents: await listAgentsOfAccount(query, account.id, { limit: OFFERED_MAX, text: q }),
      sessions: await findSessionsByTopic(query, agentIds, q, { walkedMax, limit: OFFERED_MAX }),
    };
  });
  const search = { label: `Search everything for “${untrustedText(q)}”`, kind: 'Search' };
  return [
    ...agents.map(({ name, handle }) => ({ label: handle, kind: 'Agent', path: `/dashboard/agents/${name}` })),
    ...sessions.map(({ id, topic, state }) => ({
      label: renderTopic({ topic }),
      kind: state === 'ended' ? 'Ended session' : 'Session',
      path: pathOfSession(id),
    })),
    { ...search, path: `/dashboard/search?q=${encodeURIComponent(q)}` },
  ];
}
