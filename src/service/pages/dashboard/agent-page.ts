import type { Agent, InboundPolicy, Visibility } from '../../../wire/agent.js';
import { renderFace } from '../face.js';
import {
  type Field,
  hidden,
  type Mistake,
  renderArea,
  renderChoices,
  renderField,
  renderProblem,
  renderTick,
} from '../form.js';
import { type Html, html } from '../html.js';
import { renderBadges } from './agents-page.js';
import type { View } from './frame.js';
import {
  aspCommand,
  type NoteName,
  renderButton,
  renderCommand,
  renderNote,
  renderQuestion,
  renderTrail,
} from './parts.js';
import { renderTime } from './time.js';

const TABS = {
  overview: { label: 'Overview', path: '' },
  profile: { label: 'Profile', path: '/profile' },
  allowlist: { label: 'Allowlist', path: '/allowlist' },
  blocks: { label: 'Blocks', path: '/blocks' },
} as const;
type Tab = keyof typeof TABS;

/** What all pages of one agent have. */
export interface AgentFrame {
  readonly agent: Agent;
  readonly csrf: string;
  readonly note: NoteName | undefined;
  readonly mistakes: readonly Mistake[];
  readonly now: number;
}

export const pathOf = ({ local_name: name }: Agent): string => `/dashboard/agents/${name}`;

/** One page of an agent below its name and its tabs. */
export function renderAgentPage({ agent, note, mistakes }: AgentFrame, tab: Tab, body: Html): View {
  const path = pathOf(agent);
  const main = html`<div class="stack">${renderTrail('Agents', '/dashboard/agents')}
<div class="identity">${renderFace(agent.display_name, 'large')}<div class="who grow"><h1><bdi>${agent.display_name}</bdi></h1><span class="mono">${agent.canonical_handle}</span></div>${renderBadges(agent)}</div>
<nav class="tabs" aria-label="Agent"><ul>${Object.entries(TABS).map(([name, row]) => html`<li><a href="${path}${row.path}"${name === tab && html` aria-current="page"`}>${row.label}</a></li>`)}</ul></nav>
${renderNote(note)}${renderProblem('There is a problem', mistakes)}
${body}</div>`;
  const title = `${tab === 'overview' ? '' : `${TABS[tab].label} · `}${agent.canonical_handle}`;
  return { title: mistakes.length > 0 ? `Problem: ${title}` : title, section: 'agents', main };
}

/** Who reaches an agent: what a person chose, or what is stored. */
export interface AccessValues {
  readonly inboundPolicy: InboundPolicy;
  readonly visibility: Visibility;
  readonly canInitiateSessions: boolean;
}

export interface OverviewPage extends AgentFrame {
  readonly access: AccessValues;
  readonly baseUrl: string;
  /** Whether the account may have open agents. */
  readonly mayBeOpen: boolean;
}

export function renderOverview(page: OverviewPage): View {
  const { agent, baseUrl, now } = page;
  const body = html`<div class="columns"><div class="stack">${renderAccess(page)}</div>
<div class="stack">
${renderStatus(page)}
<section class="card stack-tight" aria-labelledby="use"><h2 id="use">Use it</h2><p class="soft small">Connect a terminal as this agent:</p>
${renderCommand([aspCommand({ baseUrl }, 'login', agent.canonical_handle), aspCommand({ baseUrl, handle: agent.canonical_handle }, 'tail')])}
<p class="soft small">For a server that runs by itself, <a href="/dashboard/new-client?agent=${agent.local_name}">create an API credential</a>.</p></section>
<section class="card stack-tight" aria-labelledby="about"><h2 id="about">About</h2>
${agent.description !== null && html`<p class="lines">${agent.description}</p>`}
<p class="soft small">Created ${renderTime(agent.created_at, now)}, changed ${renderTime(agent.updated_at, now)}.</p>
<p class="small"><a class="aside-link quiet-danger" href="${pathOf(agent)}/remove">Remove this agent…</a></p></section>
</div></div>`;
  return renderAgentPage(page, 'overview', body);
}

function renderStatus({ agent, csrf }: OverviewPage): Html {
  const path = `${pathOf(agent)}/pause`;
  const button = agent.paused
    ? renderButton({ path, csrf, label: 'Resume', values: { paused: 'false' }, kind: 'primary' })
    : renderButton({ path, csrf, label: 'Pause', values: { paused: 'true' } });
  const words = agent.paused
    ? 'No one can invite it. Its current sessions continue.'
    : agent.is_online
      ? 'Connected. It receives messages as they arrive.'
      : 'Messages are kept until it connects.';
  return html`<section class="card stack-tight" aria-labelledby="status"><div class="between"><h2 id="status">${agent.paused ? 'Paused' : agent.is_online ? 'Online' : 'Offline'}</h2>${button}</div><p class="soft small">${words}</p></section>`;
}

function renderAccess({ agent, csrf, mayBeOpen, access, mistakes }: OverviewPage): Html {
  const isRefused = !mayBeOpen && agent.inbound_policy !== 'open';
  const about = isRefused
    ? 'Not available: only accounts that the operator of this service trusts can have open agents.'
    : 'Any agent can start a session with this one.';
  return html`<form method="post" action="${pathOf(agent)}" class="card stack" aria-label="Access">${hidden({ csrf })}
${renderChoices(
  {
    name: 'inbound_policy',
    legend: 'Who can start a session with it',
    choices: [
      {
        value: 'allowlist',
        label: 'Only agents on the allowlist',
        about: html`Your own agents are on it by default. <a href="${pathOf(agent)}/allowlist">See the list</a>`,
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
      { value: 'public', label: 'Anyone', about: 'Others find it by search and can read its card.' },
      { value: 'private', label: 'Only you', about: 'Others can invite it only if they know its handle.' },
    ],
  },
  access.visibility,
  mistakes,
)}
${renderTick({ id: 'can-initiate', name: 'can_initiate_sessions', value: 'true', label: 'Can start sessions', isTicked: access.canInitiateSessions })}
<div class="row-actions"><button class="button primary">Save</button></div></form>`;
}

/** What a person typed into the profile form, or what is stored. */
export interface ProfileValues {
  readonly displayName: string;
  readonly description: string;
  readonly cardBody: string;
  readonly skills: readonly { readonly name: string; readonly description: string }[];
}

export interface ProfilePage extends AgentFrame {
  readonly values: ProfileValues;
  /** How many skills can be filled in. */
  readonly skillCount: number;
}

export function renderProfile(page: ProfilePage): View {
  const { agent, csrf, values, mistakes, skillCount } = page;
  const displayName: Field = {
    id: 'display-name',
    name: 'display_name',
    label: 'Display name',
    value: values.displayName,
    autocomplete: 'off',
    maxLength: 100,
  };
  const skills = Array.from({ length: skillCount }, (_, index) => renderSkill(values, index, mistakes));
  const body = html`<form method="post" action="${pathOf(agent)}/profile" class="card stack measure" aria-label="Profile">${hidden({ csrf })}
${renderField(displayName, mistakes)}
${renderArea({ id: 'description', name: 'description', label: 'Description', value: values.description, maxLength: 1000, rows: 3, hint: 'What this agent is for, in a sentence or two.' }, mistakes)}
${renderArea({ id: 'card-body', name: 'card_body', label: 'Card', value: values.cardBody, maxLength: 20_000, rows: 8, isCode: true, hint: 'What other agents should know before they write to it. Markdown.' }, mistakes)}
<fieldset><legend>Skills</legend><p class="hint soft small">What other agents can ask it to do. Empty rows are left out.</p><div class="skills">${skills}</div></fieldset>
<div class="row-actions"><button class="button primary">Save profile</button><a class="button plain" href="${pathOf(agent)}">Cancel</a></div></form>`;
  return renderAgentPage(page, 'profile', body);
}

function renderSkill(values: ProfileValues, index: number, mistakes: readonly Mistake[]): Html {
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
  };
  return html`<div class="skill">${renderField(field, mistakes)}${renderArea({ id: `skill-${number}-about`, name: `skill_${number}_about`, label: `What skill ${number} does`, value: description, maxLength: 1000, rows: 1 }, mistakes)}</div>`;
}

export function renderRemoveAgent({ agent, csrf }: Pick<AgentFrame, 'agent' | 'csrf'>): View {
  const main = renderQuestion({
    title: html`Remove <span class="wrap">${agent.canonical_handle}</span>?`,
    consequences: [
      'It leaves its active sessions, and no one can reach it any more.',
      'Its API credentials and connected apps are cut off at once.',
      'The handle can’t be used again. This cannot be undone.',
    ],
    path: `${pathOf(agent)}/remove`,
    csrf,
    label: 'Remove agent',
    back: { label: html`<bdi>${agent.display_name}</bdi>`, path: pathOf(agent) },
  });
  return { title: `Remove ${agent.canonical_handle}?`, section: 'agents', main };
}
