import { REFRESH_TOKEN_IDLE_LIFETIME_S } from '../../../wire/limit.js';
import { type Agent, InboundPolicy, Visibility } from '../../../wire/schemas/agent.js';
import { UpdateAgentRequest } from '../../../wire/schemas/requests.js';
import { AGENT_SCOPES } from '../../../wire/scope.js';
import { findOwnAgent, mayHaveOpenAgents, parseSkills, toAgent, updateAgent } from '../../agents/agents.js';
import type { AgentActor } from '../../core/context.js';
import type { Query } from '../../core/database.js';
import { ServiceError } from '../../core/errors.js';
import { removeAgent } from '../../messaging/remove-agent.js';
import type { Parameters } from '../../oauth/parameters.js';
import type { AgentRecordRow } from '../../store/agents.js';
import { listFamiliesOfAgent } from '../../store/authorizations.js';
import { countPending } from '../../store/inboxes.js';
import { listClientsOfAgent } from '../../store/oauth-clients.js';
import {
  type Field,
  hidden,
  type Mistake,
  renderArea,
  renderChoices,
  renderField,
  renderMistakes,
  renderTick,
} from '../form.js';
import { type Html, html, renderAgentFace, strangersText } from '../html.js';
import { renderTime } from '../time.js';
import { getPublicPath } from './agent-page.js';
import { PROFILE_MISTAKE, readMistakes, readProfile, renderBadges, SKILLS_MAX } from './agents.js';
import {
  aspCommand,
  type NoteName,
  renderButton,
  renderCommand,
  renderNote,
  renderQuestion,
  renderTrail,
  type SmallForm,
  type View,
} from './frame.js';
import { renderLatestSessions } from './sessions.js';
import { readLimits, readTraffic, renderLimits, renderTraffic, type Traffic, type UsedLimit } from './traffic.js';
import { type DashboardAnswer, mistaken, movedWithNote, page, type Refusal, type Visit } from './visit.js';

const TABS = {
  overview: { label: 'Overview', path: '' },
  profile: { label: 'Profile', path: '/profile' },
  allowlist: { label: 'Allowlist', path: '/allowlist' },
  knocks: { label: 'Knocks', path: '/knocks' },
  blocks: { label: 'Blocks', path: '/blocks' },
} as const;
type Tab = keyof typeof TABS;

/** The common part of all pages of one agent. */
export interface AgentFrame {
  readonly agent: Agent;
  readonly csrf: string;
  readonly note: NoteName | undefined;
  /** Undoes the change that the note reports. */
  readonly undo?: SmallForm | undefined;
  readonly mistakes: readonly Mistake[];
  readonly now: number;
}

export const getPath = ({ local_name: name }: Agent): string => `/dashboard/agents/${name}`;

/** One page of an agent, below its name and its tabs. */
export function renderAgentPage({ agent, note, undo, mistakes }: AgentFrame, tab: Tab, body: Html): View {
  const path = getPath(agent);
  const main = html`<div class="stack">${renderTrail('Agents', '/dashboard/agents')}
<div class="identity">${renderAgentFace(agent.canonical_handle, 'large')}<div class="who grow"><h1><bdi>${agent.display_name}</bdi></h1><span class="mono">${agent.canonical_handle}</span></div>${renderBadges(agent)}</div>
<nav class="tabs" aria-label="Agent"><ul>${Object.entries(TABS).map(([name, row]) => html`<li><a href="${path}${row.path}"${name === tab && html` aria-current="page"`}>${row.label}</a></li>`)}</ul></nav>
${renderNote(note, undo)}${renderMistakes(mistakes)}
${body}</div>`;
  const title = `${tab === 'overview' ? '' : `${TABS[tab].label} · `}${agent.canonical_handle}`;
  return { title: mistakes.length > 0 ? `Problem: ${title}` : title, section: 'agents', main };
}

/** The access settings of an agent, from the form or from the store. */
interface AccessValues {
  readonly inboundPolicy: InboundPolicy;
  readonly visibility: Visibility;
  readonly canInitiateSessions: boolean;
}

/** An API credential or a connected app. */
interface ShownGrant {
  readonly path: string;
  readonly name: string;
  readonly lastUsedAt: number | null;
}

const GRANTS_SHOWN = 5;
const GRANTS_READ = 100;
/** More sessions are not counted. */
const COUNTED_MAX = 100;
const sessionsInWords = (count: number): string => (count === 1 ? 'one session' : `${count} sessions`);

interface OverviewPage extends AgentFrame {
  readonly access: AccessValues;
  /** The latest ones, as rows. */
  readonly sessions: Html | undefined;
  /** The number of sessions with undelivered events. */
  readonly waitingCount: number;
  readonly traffic: Traffic;
  /** Rate limits, with what is used of them now. */
  readonly limits: readonly UsedLimit[];
  /** Most recently used first. */
  readonly grants: readonly ShownGrant[];
  readonly baseUrl: string;
  /** Whether the account may have open agents. */
  readonly mayBeOpen: boolean;
}

function renderOverview(page: OverviewPage): View {
  const { agent, baseUrl, now, sessions } = page;
  const all = `/dashboard/sessions?agent=${agent.local_name}`;
  const body = html`${renderStatus(page)}
${renderTraffic(page.traffic)}
${sessions !== undefined && html`<section class="stack-tight" aria-labelledby="latest"><div class="between"><h2 id="latest">Latest sessions</h2><a class="small aside-link" href="${all}">All sessions of this agent</a></div>${sessions}</section>`}
<div class="columns"><div class="stack">${renderAccess(page)}</div>
<div class="stack">
<section class="card stack-tight" aria-labelledby="use"><h2 id="use">Use it</h2><p class="soft small">Connect a terminal as this agent:</p>
${renderCommand([aspCommand({ baseUrl }, 'login', agent.canonical_handle), aspCommand({ baseUrl, handle: agent.canonical_handle }, 'tail')])}
<p class="soft small">For a server, <a href="/dashboard/new-client?agent=${agent.local_name}">create an API credential</a>.</p></section>
${renderGrants(page)}
${renderLimits(page.limits)}
<section class="card stack-tight" aria-labelledby="about"><h2 id="about">About</h2>
${agent.description !== null && html`<p class="lines">${agent.description}</p>`}
${agent.visibility === 'public' && html`<p class="small"><a href="${getPublicPath(agent.canonical_handle)}">Public page</a> <span class="soft">to share</span></p>`}
<p class="soft small">Created ${renderTime(agent.created_at, now)}, changed ${renderTime(agent.updated_at, now)}.</p>
<p class="small"><a class="aside-link quiet-danger" href="${getPath(agent)}/remove">Remove this agent…</a></p></section>
</div></div>`;
  return renderAgentPage(page, 'overview', body);
}

/** The credentials and apps that can act as the agent, and when each last did. */
function renderGrants({ grants, now }: OverviewPage): Html | undefined {
  if (grants.length === 0) return undefined;
  const rest = grants.length - GRANTS_SHOWN;
  return html`<section class="card stack-tight" aria-labelledby="grants"><h2 id="grants">Credentials and apps</h2>
<ul class="grants">${grants
    .slice(0, GRANTS_SHOWN)
    .map(
      ({ path, name, lastUsedAt }) =>
        html`<li><a href="${path}">${strangersText(name)}</a> <span class="soft small">${lastUsedAt === null ? 'Never used' : html`Last used ${renderTime(lastUsedAt, now)}`}</span></li>`,
    )}</ul>${rest > 0 && html`<p class="soft small">And ${rest} more: see <a href="/dashboard/clients">API credentials</a> and <a href="/dashboard/applications">connected apps</a>.</p>`}</section>`;
}

function renderStatus({ agent, csrf, waitingCount, grants, now }: OverviewPage): Html {
  const path = `${getPath(agent)}/pause`;
  const button = agent.paused
    ? renderButton({ path, csrf, label: 'Resume', values: { paused: 'false' }, kind: 'primary' })
    : renderButton({ path, csrf, label: 'Pause', values: { paused: 'true' } });
  const label = agent.paused
    ? 'No one can invite this agent. Its current sessions continue.'
    : agent.is_online
      ? 'Connected and receiving messages as they arrive.'
      : 'Messages are kept until the agent connects.';
  const lastUses = grants.flatMap(({ lastUsedAt }) => (lastUsedAt === null ? [] : [lastUsedAt]));
  const lastSeen =
    !agent.is_online && lastUses.length > 0 && html` Last seen ${renderTime(Math.max(...lastUses), now)}.`;
  const count = waitingCount === COUNTED_MAX ? `${COUNTED_MAX} or more sessions` : sessionsInWords(waitingCount);
  const waiting = waitingCount > 0 && html` It has unread events in ${count}.`;
  return html`<section class="card stack-tight" aria-labelledby="status"><div class="between"><h2 id="status">${agent.paused ? 'Paused' : agent.is_online ? 'Online' : 'Offline'}</h2>${button}</div><p class="soft small">${label}${lastSeen}${waiting}</p></section>`;
}

function renderAccess({ agent, csrf, mayBeOpen, access, mistakes }: OverviewPage): Html {
  const isRefused = !mayBeOpen && agent.inbound_policy !== 'open';
  const about = isRefused
    ? 'Not available: only accounts that the operator of this service trusts can have open agents.'
    : 'Any agent can start a session with this one.';
  return html`<form method="post" action="${getPath(agent)}" class="card stack" aria-label="Access">${hidden({ csrf })}
${renderChoices(
  {
    name: 'inbound_policy',
    legend: 'Who can start a session with this agent',
    choices: [
      {
        value: 'allowlist',
        label: 'Only agents on the allowlist',
        about: html`Your own agents are on it by default. <a href="${getPath(agent)}/allowlist">See the list</a>`,
      },
      {
        value: 'hold',
        label: 'Only agents on the allowlist, and show me who else tries',
        about: html`Other agents cannot tell the difference. You see who knocked and what they wrote, and decide. <a href="${getPath(agent)}/knocks">See who knocked</a>`,
      },
      { value: 'open', label: 'Anyone', about, isDisabled: isRefused },
    ],
  },
  access.inboundPolicy,
  mistakes,
)}
${renderChoices(
  {
    name: 'visibility',
    legend: 'Who can find this agent',
    choices: [
      { value: 'public', label: 'Anyone', about: 'Others can find this agent by search and read its card.' },
      { value: 'private', label: 'Only you', about: 'Others can invite this agent only if they know its handle.' },
    ],
  },
  access.visibility,
  mistakes,
)}
${renderTick({ id: 'can-initiate', name: 'can_initiate_sessions', value: 'true', label: 'Can start sessions', isTicked: access.canInitiateSessions })}
<div class="row-actions"><button class="button primary">Save</button></div></form>`;
}

/** The contents of the profile form, as typed or as stored. */
export interface ProfileValues {
  readonly displayName: string;
  readonly description: string;
  readonly cardBody: string;
  readonly skills: readonly { readonly name: string; readonly description: string }[];
}

interface ProfilePage extends AgentFrame {
  readonly values: ProfileValues;
  /** The number of skills for which the form has room. */
  readonly skillCount: number;
  /** The first of the rows that someone asked for. */
  readonly firstNewRow: number | undefined;
}

function renderProfile(page: ProfilePage): View {
  const { agent, csrf, values, mistakes, skillCount } = page;
  const displayName: Field = {
    id: 'display-name',
    name: 'display_name',
    label: 'Display name',
    value: values.displayName,
    autocomplete: 'off',
    maxLength: 100,
  };
  const skills = Array.from({ length: skillCount }, (_, index) => renderSkill(page, index));
  // After the button that saves: a browser presses the first one when someone presses Enter.
  const more =
    skillCount < SKILLS_MAX &&
    html`<button class="button plain" name="${ROWS}" value="${skillCount}" formnovalidate>Add skill rows</button>`;
  const body = html`<form method="post" action="${getPath(agent)}/profile" class="card stack measure" aria-label="Profile">${hidden({ csrf })}
${renderField(displayName, mistakes)}
${renderArea({ id: 'description', name: 'description', label: 'Description', value: values.description, maxLength: 1000, rows: 3, hint: 'What this agent is for, in a sentence or two.' }, mistakes)}
${renderArea({ id: 'card-body', name: 'card_body', label: 'Card', value: values.cardBody, maxLength: 20_000, rows: 8, isCode: true, hint: 'What other agents should know before they write to this agent. Markdown works.' }, mistakes)}
<fieldset><legend>Skills</legend><p class="hint soft small">What other agents can ask this agent to do. Empty rows are ignored.</p><div class="skills">${skills}</div></fieldset>
<div class="row-actions"><button class="button primary">Save profile</button>${more}<a class="button plain" href="${getPath(agent)}">Cancel</a></div></form>`;
  return renderAgentPage(page, 'profile', body);
}

function renderSkill({ values, mistakes, firstNewRow }: ProfilePage, index: number): Html {
  const { name = '', description = '' } = values.skills[index] ?? {};
  const number = index + 1;
  const field: Field = {
    id: `skill-${number}`,
    name: `skill_${number}`,
    label: `Skill ${number}`,
    value: name,
    autocomplete: 'off',
    maxLength: 100,
    isRequired: false,
    hasFocus: index === firstNewRow,
  };
  return html`<div class="skill">${renderField(field, mistakes)}${renderArea({ id: `skill-${number}-about`, name: `skill_${number}_about`, label: `What skill ${number} does`, value: description, maxLength: 1000, rows: 1 }, mistakes)}</div>`;
}

function renderRemoveAgent({ agent, csrf }: Pick<AgentFrame, 'agent' | 'csrf'>): View {
  const main = renderQuestion({
    title: html`Remove <span class="wrap">${agent.canonical_handle}</span>?`,
    consequences: [
      'The agent leaves its active sessions, and no one can reach it anymore.',
      'API credentials and connected apps lose access at once.',
      'The handle can’t be used again. This cannot be undone.',
    ],
    path: `${getPath(agent)}/remove`,
    csrf,
    label: 'Remove agent',
    back: { label: html`<bdi>${agent.display_name}</bdi>`, path: getPath(agent) },
  });
  return { title: `Remove ${agent.canonical_handle}?`, section: 'agents', main };
}

/** The agent in the address: another account's agents have no addresses here. */
export function getAgentPath({ account, part }: Visit): { owner: string; name: string } {
  return { owner: account.username, name: part('name') };
}

/** Returns the data of an agent's own page; NOT_FOUND and similar errors share one page (D-101). */
export function requireAgent(visit: Visit, query: Query): Promise<AgentRecordRow> {
  return findOwnAgent(query, visit.actor, getAgentPath(visit));
}

/** The agent itself, for actions that only agents can take: allowlist and blocks. */
export function actingAs(accountId: string, { id, handle }: Pick<AgentRecordRow, 'id' | 'handle'>): AgentActor {
  return { kind: 'agent', agentId: id, handle, accountId, scopes: AGENT_SCOPES };
}

export async function showAgent(visit: Visit): Promise<DashboardAnswer> {
  return overviewOf(visit, { mistakes: [], status: 200 });
}

/** Who can invite and find the agent, and whether it can start sessions. */
export async function actAccess(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { inboundPolicy, visibility, canInitiateSessions } = readAccess(form);
  try {
    await change(visit, {
      ...(inboundPolicy !== undefined && { inbound_policy: inboundPolicy }),
      ...(visibility !== undefined && { visibility }),
      can_initiate_sessions: canInitiateSessions,
    });
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== 'FEATURE_NOT_AVAILABLE') throw error;
    const mistake = { field: 'inbound_policy-open', message: error.message };
    return accessAgain(visit, form, { mistakes: [mistake], status: 403 });
  }
  return movedWithNote(visit, getAddress(visit), 'saved');
}

export async function accessAgain(visit: Visit, form: Parameters, refusal: Refusal): Promise<DashboardAnswer> {
  return overviewOf(visit, refusal, readAccess(form));
}

function readAccess(form: Parameters) {
  const inboundPolicy = InboundPolicy.safeParse(form.one('inbound_policy')).data;
  const visibility = Visibility.safeParse(form.one('visibility')).data;
  return {
    ...(inboundPolicy !== undefined && { inboundPolicy }),
    ...(visibility !== undefined && { visibility }),
    canInitiateSessions: form.one('can_initiate_sessions') === 'true',
  };
}

export async function actPause(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const paused = form.one('paused') === 'true';
  await change(visit, { paused });
  return movedWithNote(visit, getAddress(visit), paused ? 'paused' : 'resumed');
}

async function change(visit: Visit, body: UpdateAgentRequest): Promise<void> {
  const { context, actor } = visit;
  const input = { path: getAgentPath(visit), body };
  await context.database.write((transaction) => updateAgent(context, actor, input, transaction));
}

async function overviewOf(
  visit: Visit,
  { mistakes, status }: Refusal,
  chosen: Partial<AccessValues> = {},
): Promise<DashboardAnswer> {
  const { context, account, csrf, note } = visit;
  await context.inboxes.settle();
  const { row, ...state } = await context.database.read(async (view) => {
    const found = await requireAgent(visit, view);
    return {
      row: found,
      sessions: await renderLatestSessions(visit, view, found.id),
      waitingCount: await countPending(view, found.id, COUNTED_MAX),
      traffic: await readTraffic(context, view, found),
      grants: await readGrants(visit, view, found.id),
    };
  });
  const agent = toAgent(row);
  const stored = {
    inboundPolicy: agent.inbound_policy,
    visibility: agent.visibility,
    canInitiateSessions: agent.can_initiate_sessions,
  };
  const view = renderOverview({
    ...state,
    limits: await readLimits(context, row),
    agent,
    access: { ...stored, ...chosen },
    csrf,
    note,
    mistakes,
    now: context.clock.now(),
    baseUrl: context.settings.addresses.baseUrl,
    mayBeOpen: mayHaveOpenAgents(context.settings, account),
  });
  return page(view, { status });
}

async function readGrants({ context, account }: Visit, query: Query, agentId: string): Promise<ShownGrant[]> {
  const usedSince = context.clock.now() - REFRESH_TOKEN_IDLE_LIFETIME_S * 1000;
  const clients = await listClientsOfAgent(query, account.id, agentId, GRANTS_READ);
  const apps = await listFamiliesOfAgent(query, account.id, usedSince, agentId, GRANTS_READ);
  const grants = [
    ...clients.map(({ id, name, last_used_at }) => ({
      path: `/dashboard/clients/${id}`,
      name,
      lastUsedAt: last_used_at,
    })),
    ...apps.map(({ id, client_name, last_used_at }) => ({
      path: `/dashboard/applications/${id}/disconnect`,
      name: client_name,
      lastUsedAt: last_used_at,
    })),
  ];
  return grants.sort((one, other) => (other.lastUsedAt ?? 0) - (one.lastUsedAt ?? 0));
}

const getAddress = ({ part }: Visit): string => `/dashboard/agents/${part('name')}`;

const EMPTY_SKILL_ROWS = 2;
/** The button that adds rows for skills sends the number of rows that the form has. */
const ROWS = 'rows';

export async function showProfile(visit: Visit): Promise<DashboardAnswer> {
  return profileOf(visit, { mistakes: [], status: 200 });
}

export async function actProfile(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, actor } = visit;
  if (form.one(ROWS) !== undefined) return profileAgain(visit, form, { mistakes: [], status: 200 });
  const values = readProfile(form);
  const read = UpdateAgentRequest.safeParse({
    display_name: values.displayName,
    description: values.description === '' ? null : values.description,
    card_body: values.cardBody === '' ? null : values.cardBody,
    skills: values.skills,
  });
  if (!read.success) return profileAgain(visit, form, mistaken(...readMistakes(read.error.issues, PROFILE_MISTAKE)));
  const path = getAgentPath(visit);
  await context.database.write((transaction) => updateAgent(context, actor, { path, body: read.data }, transaction));
  return movedWithNote(visit, `/dashboard/agents/${path.name}`, 'saved');
}

export async function profileAgain(visit: Visit, form: Parameters, refusal: Refusal): Promise<DashboardAnswer> {
  const rows = Number(form.one(ROWS));
  return profileOf(visit, refusal, readProfile(form), rows > 0 ? rows : undefined);
}

/** With what was typed, and with more rows for skills than the form had. */
async function profileOf(
  visit: Visit,
  { mistakes, status }: Refusal,
  typed?: ProfileValues,
  rows?: number,
): Promise<DashboardAnswer> {
  const { context, csrf } = visit;
  const row = await context.database.read((view) => requireAgent(visit, view));
  const values = typed ?? toValues(row);
  const view = renderProfile({
    agent: toAgent(row),
    csrf,
    note: undefined,
    mistakes,
    now: context.clock.now(),
    values,
    skillCount: Math.min(SKILLS_MAX, Math.max(values.skills.length, rows ?? 0) + EMPTY_SKILL_ROWS),
    firstNewRow: rows,
  });
  return page(view, { status });
}

function toValues(row: AgentRecordRow): ProfileValues {
  return {
    displayName: row.display_name,
    description: row.description ?? '',
    cardBody: row.card_body ?? '',
    skills: parseSkills(row),
  };
}

export async function showRemoveAgent(visit: Visit): Promise<DashboardAnswer> {
  const row = await visit.context.database.read((view) => requireAgent(visit, view));
  return page(renderRemoveAgent({ agent: toAgent(row), csrf: visit.csrf }));
}

export async function actRemoveAgent(visit: Visit): Promise<DashboardAnswer> {
  const { context, actor } = visit;
  const path = getAgentPath(visit);
  await context.database.write((transaction) => removeAgent(context, actor, { path }, transaction));
  return movedWithNote(visit, '/dashboard/agents', 'removed');
}
