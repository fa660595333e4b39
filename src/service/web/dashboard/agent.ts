import { REFRESH_TOKEN_IDLE_LIFETIME_S } from '../../../wire/limit.js';
import { type Agent, InboundPolicy, Visibility, type Webhook } from '../../../wire/schemas/agent.js';
import { UpdateAgentRequest } from '../../../wire/schemas/requests.js';
import { AGENT_SCOPES } from '../../../wire/scope.js';
import {
  findOwnAgent,
  getPublicPath,
  mayHaveOpenAgents,
  parseSkills,
  toAgent,
  updateAgent,
} from '../../agents/agents.js';
import { PICTURE_SIDE_MAX } from '../../attachments/clean-picture.js';
import type { AgentActor, ServiceContext } from '../../core/context.js';
import type { Query } from '../../core/database.js';
import { hasCode } from '../../core/errors.js';
import { readListMark } from '../../messaging/list-sessions.js';
import { removeAgent } from '../../messaging/remove-agent.js';
import { readWebhook } from '../../messaging/webhooks.js';
import type { Parameters } from '../../oauth/parameters.js';
import type { AgentRecordRow } from '../../store/agents.js';
import { listFamiliesOfAgent } from '../../store/authorizations.js';
import { countPending } from '../../store/inboxes.js';
import { listClientsOfAgent } from '../../store/oauth-clients.js';
import { LISTS_SCRIPT } from '../assets.js';
import {
  type Field,
  hidden,
  type Mistake,
  renderArea,
  renderChoices,
  renderField,
  renderMistakes,
  renderTick,
  tie,
  toTitle,
} from '../form.js';
import { type Html, html, renderAgentFace, renderName, strangersText } from '../html.js';
import { renderTime } from '../time.js';
import { renderAbout, renderPicture } from './agent-page.js';
import {
  DISPLAY_NAME,
  PROFILE_MISTAKE,
  readMistakes,
  readProfile,
  renderBadges,
  SKILLS_MAX,
  type SkillMove,
} from './agents.js';
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
import { prepareCode } from './markdown.js';
import { renderLatestSessions } from './sessions.js';
import { readLimits, readTraffic, renderLimits, renderTraffic } from './traffic.js';
import { type DashboardAnswer, mistaken, movedWithNote, page, refused, UNREFUSED, type Visit } from './visit.js';

const TABS = {
  overview: { label: 'Overview', path: '' },
  profile: { label: 'Profile', path: '/profile' },
  allowlist: { label: 'Allowlist', path: '/allowlist' },
  knocks: { label: 'Knocks', path: '/knocks' },
  blocks: { label: 'Blocks', path: '/blocks' },
  webhook: { label: 'Webhook', path: '/webhook' },
} as const;
type Tab = keyof typeof TABS;

/** The common part of all pages of one agent. */
interface AgentFrame {
  readonly context: Pick<ServiceContext, 'settings'>;
  readonly agent: Agent;
  readonly note: NoteName | undefined;
  /** Says more than the note's own words. */
  readonly noteText?: string | undefined;
  /** Undoes the change that the note reports. */
  readonly undo?: SmallForm | undefined;
  readonly mistakes: readonly Mistake[];
}

export const getPath = ({ local_name: name }: Agent): string => `/dashboard/agents/${name}`;

/** One page of an agent, below its name and its tabs. */
export function renderAgentPage(frame: AgentFrame, tab: Tab, body: Html): View {
  const { context, agent, note, noteText, undo, mistakes } = frame;
  const path = getPath(agent);
  const isShown = (name: string): boolean =>
    name === tab || name !== 'webhook' || context.settings.webhooks !== undefined;
  const tabs = Object.entries(TABS).filter(([name]) => isShown(name));
  const main = html`<div class="stack">${renderTrail('Agents', '/dashboard/agents')}
<div class="identity">${renderAgentFace(agent.canonical_handle, 'large')}<div class="who grow"><h1>${renderName(agent.display_name, agent.canonical_handle)}</h1><span class="mono">${agent.canonical_handle}</span></div>${renderBadges(agent)}</div>
<nav class="tabs" aria-label="Agent"><ul>${tabs.map(([name, row]) => html`<li><a href="${path}${row.path}"${name === tab && html` aria-current="page"`}>${row.label}</a></li>`)}</ul></nav>
${renderNote(note, undo, noteText)}${renderMistakes(mistakes)}
${body}</div>`;
  const title = `${tab === 'overview' ? '' : `${TABS[tab].label} · `}${agent.canonical_handle}`;
  return { title: toTitle(title, mistakes), section: 'agents', main };
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

/** With the chosen access settings of a form instead of the stored ones. */
export async function showAgent(visit: Visit, form?: Parameters, refusal = UNREFUSED): Promise<DashboardAnswer> {
  const { context, note } = visit;
  const { mistakes } = refusal;
  const now = context.clock.now();
  await context.inboxes.settleForAccount(visit.account.id);
  const { row, sessions, waitingCount, traffic, grants, webhook, mark } = await context.database.read(async (view) => {
    const found = await requireAgent(visit, view);
    return {
      row: found,
      sessions: await renderLatestSessions(visit, view, found.id),
      waitingCount: await countPending(view, found.id, COUNTED_MAX),
      traffic: await readTraffic(context, view, [found]),
      grants: await readGrants(visit, view, found.id),
      webhook: await readWebhook(view, found.id),
      mark: await readListMark(view, visit.account.id),
    };
  });
  const agent = toAgent(context, row);
  const { canonical_handle: handle, local_name: name } = agent;
  const { baseUrl } = context.settings.addresses;
  const body = html`<div id="list" data-live="/dashboard/live" data-mark="${mark}">${renderStatus(visit, agent, { waitingCount, grants, webhook })}</div>
${renderTraffic(traffic)}
${sessions !== undefined && html`<section class="stack-tight" aria-labelledby="latest"><div class="between"><h2 id="latest">Latest sessions</h2><a class="small aside-link" href="/dashboard/sessions?agent=${name}">All sessions of this agent</a></div>${sessions}</section>`}
<div class="columns"><div class="stack">${renderAccess(visit, { ...agent, ...(form && readAccess(form)) }, agent, mistakes)}</div>
<div class="stack">
<section class="card stack-tight" aria-labelledby="use"><h2 id="use">Use it</h2><p class="soft small">Connect a terminal as this agent:</p>
${renderCommand([aspCommand({ baseUrl }, 'login', handle), aspCommand({ baseUrl, handle }, 'tail')])}
<p class="soft small">For a server, <a href="/dashboard/new-client?agent=${name}">create an API credential</a>.</p></section>
${renderGrants(grants, now)}
${renderLimits(await readLimits(context, row), now)}
<section class="card stack-tight" aria-labelledby="about"><h2 id="about">About</h2>
${agent.description !== null && html`<p class="lines">${agent.description}</p>`}
${agent.visibility === 'public' && html`<p class="small"><a href="${getPublicPath(handle)}">Public page</a> <span class="soft">to share</span></p>`}
<p class="soft small">Created ${renderTime(agent.created_at, now)}, changed ${renderTime(agent.updated_at, now)}.</p>
<p class="small"><a class="aside-link quiet-danger" href="${getPath(agent)}/remove">Remove this agent…</a></p></section>
</div></div>`;
  const view = renderAgentPage({ context, agent, note, mistakes }, 'overview', body);
  return refused({ ...view, script: LISTS_SCRIPT }, refusal);
}

/** The credentials and apps that can act as the agent, and when each last did. */
function renderGrants(grants: readonly ShownGrant[], now: number): Html | undefined {
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

interface AgentState {
  readonly waitingCount: number;
  readonly grants: readonly ShownGrant[];
  readonly webhook: Webhook | null;
}

function renderStatus({ csrf, context }: Visit, agent: Agent, { waitingCount, grants, webhook }: AgentState): Html {
  const path = `${getPath(agent)}/pause`;
  const button = agent.paused
    ? renderButton({ path, csrf, label: 'Resume', values: { paused: 'false' }, kind: 'primary' })
    : renderButton({ path, csrf, label: 'Pause', values: { paused: 'true' } });
  const label = agent.paused
    ? 'No one can invite this agent. Its current sessions continue.'
    : agent.is_online
      ? 'Connected and receiving messages as they arrive.'
      : isCalled(webhook) && context.settings.webhooks !== undefined
        ? 'Events go to its webhook until the agent connects.'
        : 'Messages are kept until the agent connects.';
  const lastUses = grants.flatMap(({ lastUsedAt }) => (lastUsedAt === null ? [] : [lastUsedAt]));
  const lastSeen =
    !agent.is_online &&
    lastUses.length > 0 &&
    html` Last seen ${renderTime(Math.max(...lastUses), context.clock.now())}.`;
  const count = waitingCount === COUNTED_MAX ? `${COUNTED_MAX} or more sessions` : sessionsInWords(waitingCount);
  const waiting = waitingCount > 0 && html` It has unread events in ${count}.`;
  return html`<section class="card stack-tight" aria-labelledby="status"><div class="between"><h2 id="status">${agent.paused ? 'Paused' : agent.is_online ? 'Online' : 'Offline'}</h2>${button}</div><p class="soft small">${label}${webhook !== null && renderWebhookLink(context, agent, webhook)}${lastSeen}${waiting}</p></section>`;
}

/** Whether events go to a webhook, or soon do. */
const isCalled = (webhook: Webhook | null): boolean => webhook?.status === 'on' || webhook?.status === 'failing';

/** Even if the service does not show its tab: then this is the only way to a webhook that was set earlier. */
function renderWebhookLink(
  { settings }: Pick<ServiceContext, 'settings'>,
  agent: Agent,
  { status }: Webhook,
): Html | undefined {
  const link = html`<a href="${getPath(agent)}/webhook">webhook</a>`;
  if (settings.webhooks === undefined) return html` The service no longer calls its ${link}.`;
  return status === 'off' ? html` Its ${link} is off.` : undefined;
}

/** The form with the access settings, as chosen or as stored. */
function renderAccess(
  { context, account, csrf }: Visit,
  shown: Pick<Agent, 'inbound_policy' | 'visibility' | 'can_initiate_sessions'>,
  agent: Agent,
  mistakes: readonly Mistake[],
): Html {
  const isRefused = !mayHaveOpenAgents(context.settings, account) && agent.inbound_policy !== 'open';
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
  shown.inbound_policy,
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
  shown.visibility,
  mistakes,
)}
${renderTick({ id: 'can-initiate', name: 'can_initiate_sessions', value: 'true', label: 'Can start sessions', isTicked: shown.can_initiate_sessions })}
<div class="row-actions"><button class="button primary">Save</button></div></form>`;
}

/** The contents of the profile form, as typed or as stored. */
export interface ProfileValues {
  readonly displayName: string;
  readonly description: string;
  readonly cardBody: string;
  readonly skills: readonly { readonly name: string; readonly description: string }[];
}

const EMPTY_SKILL_ROWS = 2;
/** The button that adds rows for skills sends the number of rows that the form has. */
const ROWS = 'rows';
/** The button that shows what is typed as others would see it. */
const PREVIEW = 'preview';
/** The buttons that change the order of skills send the number of a row and a direction. */
const MOVE = 'move';

function readMove(form: Parameters): SkillMove | undefined {
  const [, row, direction] = /^(\d{1,2})-(up|down)$/.exec(form.one(MOVE) ?? '') ?? [];
  const from = Number(row);
  const to = direction === 'up' ? from - 1 : from + 1;
  return Math.min(from, to) >= 1 && Math.max(from, to) <= SKILLS_MAX ? { from, to } : undefined;
}

/** The profile as a form has it, or as it is stored; a refusal may be about another form of the page. */
export async function showProfile(visit: Visit, form?: Parameters, refusal = UNREFUSED): Promise<DashboardAnswer> {
  const { context, csrf, note } = visit;
  const { mistakes } = refusal;
  const row = await context.database.read((view) => requireAgent(visit, view));
  const agent = toAgent(context, row);
  const move = form && readMove(form);
  const values = form ? readProfile(form, move) : toValues(row);
  // When someone asked for more, the form had this many.
  const rows = Number(form?.one(ROWS)) || undefined;
  const skillCount = Math.min(SKILLS_MAX, Math.max(values.skills.length, rows ?? 0) + EMPTY_SKILL_ROWS);
  const skills = Array.from({ length: skillCount }, (_, at) =>
    renderSkill(at + 1, values.skills[at], at === rows, mistakes),
  );
  // After the button that saves: a browser presses the first one when someone presses Enter.
  const more =
    skillCount < SKILLS_MAX &&
    html`<button class="button plain" name="${ROWS}" value="${skillCount}" formnovalidate>Add skill rows</button>`;
  const body = html`${form?.one(PREVIEW) !== undefined && (await renderPreview(row, values))}<form method="post" action="${getPath(agent)}/profile" class="card stack measure" aria-label="Profile">${hidden({ csrf })}
${renderField({ ...DISPLAY_NAME, value: values.displayName }, mistakes)}
${renderArea({ id: 'description', name: 'description', label: 'Description', value: values.description, maxLength: 1000, rows: 3, hint: 'What this agent is for, in a sentence or two.' }, mistakes)}
${renderArea({ id: 'card-body', name: 'card_body', label: 'Card', value: values.cardBody, maxLength: 20_000, rows: 8, isCode: true, hint: 'What other agents should know before they write to this agent. Markdown works.' }, mistakes)}
<fieldset><legend>Skills</legend><p class="hint soft small">What other agents can ask this agent to do. Empty rows are ignored.</p><div class="skills">${skills}</div></fieldset>
<div class="row-actions"><button class="button primary">Save profile</button><button class="button plain" name="${PREVIEW}" value="1" formnovalidate>Preview</button>${more}<a class="button plain" href="${getPath(agent)}">Cancel</a></div>
${renderOrder(values, move)}</form>
${renderPictureForm(visit, row, mistakes)}`;
  return refused(
    { ...renderAgentPage({ context, agent, note, mistakes }, 'profile', body), hasPictures: row.image_url !== null },
    refusal,
  );
}

/** After the button that saves, like every other button of the form. */
function renderOrder({ skills }: ProfileValues, move: SkillMove | undefined): Html | undefined {
  if (skills.length < 2) return undefined;
  const canMove = (row: number, direction: string): boolean => row !== (direction === 'up' ? 1 : skills.length);
  const focused = move && (move.to < move.from ? 'up' : 'down');
  const button = (row: number, name: string, direction: string, label: string): Html => {
    const other = direction === 'up' ? 'down' : 'up';
    const hasFocus = row === move?.to && (direction === focused || (other === focused && !canMove(row, other)));
    return html`<button class="button plain small-button" name="${MOVE}" value="${row}-${direction}" formnovalidate${hasFocus && html` autofocus`}${!canMove(row, direction) && html` disabled`}>${label}<span class="hidden-label"> ${strangersText(name)}</span></button>`;
  };
  return html`<details class="quiet"${move !== undefined && html` open`}><summary>Change the order of skills</summary>
<p class="soft small"${move !== undefined && html` role="status"`}>The order takes effect when you save the profile.</p>
<ol class="order">${skills.map(({ name }, at) => html`<li><span class="grow">${strangersText(name === '' ? `Skill ${at + 1}` : name)}</span>${button(at + 1, name, 'up', 'Move up')}${button(at + 1, name, 'down', 'Move down')}</li>`)}</ol></details>`;
}

/** The button that takes the picture away. */
export const REMOVE_PICTURE = 'remove';

/** The picture of an agent on its profile page, and the form that changes it. */
function renderPictureForm(
  { csrf }: Visit,
  { name, handle, image_url: pictureId }: AgentRecordRow,
  mistakes: readonly Mistake[],
): Html {
  const hint = `A PNG or JPEG of at most 1 MB, and ${PICTURE_SIDE_MAX} pixels on each side. It is shown on the agent’s public page. Lists and requests for access show the letter, so that no agent can look like another.`;
  const { notes, attributes } = tie({ id: 'picture', hint }, mistakes);
  const path = `/dashboard/agents/${name}/picture`;
  return html`<section class="card stack measure" aria-labelledby="picture-title"><h2 id="picture-title">Picture</h2>
${pictureId !== null && renderPicture(path, handle)}
<form method="post" action="${path}" enctype="multipart/form-data" class="stack">${hidden({ csrf })}
<div class="field"><label for="picture">${pictureId === null ? 'Choose a picture' : 'Choose another picture'}</label>${notes}
<input type="file" id="picture" name="picture" accept="image/png,image/jpeg" required${attributes}></div>
<div class="row-actions"><button class="button plain">Upload picture</button>${pictureId !== null && html`<button class="button plain" form="picture-removal">Remove picture</button>`}</div></form>
${pictureId !== null && html`<form method="post" action="${path}" id="picture-removal" hidden>${hidden({ csrf, [REMOVE_PICTURE]: '1' })}</form>`}</section>`;
}

async function renderPreview(row: AgentRecordRow, values: ProfileValues): Promise<Html> {
  const { displayName, description, cardBody, skills } = values;
  const typed = { ...row, description: description || null, card_body: cardBody || null };
  const about = renderAbout(typed, skills, await prepareCode([cardBody]));
  return html`<section class="card stack measure" id="preview" aria-labelledby="preview-title" tabindex="-1" autofocus>
<h2 id="preview-title">Preview</h2>
${row.image_url !== null && renderPicture(`/dashboard/agents/${row.name}/picture`, row.handle)}
<p class="who"><b>${renderName(displayName, row.handle)}</b><span class="mono">${row.handle}</span></p>
${about}</section>`;
}

function toValues(row: AgentRecordRow): ProfileValues {
  return {
    displayName: row.display_name,
    description: row.description ?? '',
    cardBody: row.card_body ?? '',
    skills: parseSkills(row),
  };
}

function renderSkill(
  number: number,
  { name, description } = { name: '', description: '' },
  hasFocus: boolean,
  mistakes: readonly Mistake[],
): Html {
  const field: Field = {
    id: `skill-${number}`,
    name: `skill_${number}`,
    label: `Skill ${number}`,
    value: name,
    autocomplete: 'off',
    maxLength: 100,
    isRequired: false,
    hasFocus,
  };
  return html`<div class="skill">${renderField(field, mistakes)}${renderArea({ id: `skill-${number}-about`, name: `skill_${number}_about`, label: `What skill ${number} does`, value: description, maxLength: 1000, rows: 1 }, mistakes)}</div>`;
}

export async function actProfile(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, actor } = visit;
  const isSaved = [ROWS, PREVIEW, MOVE].every((name) => form.one(name) === undefined);
  if (!isSaved) return showProfile(visit, form);
  const values = readProfile(form);
  const read = UpdateAgentRequest.safeParse({
    display_name: values.displayName,
    description: values.description === '' ? null : values.description,
    card_body: values.cardBody === '' ? null : values.cardBody,
    skills: values.skills,
  });
  if (!read.success) return showProfile(visit, form, mistaken(...readMistakes(read.error.issues, PROFILE_MISTAKE)));
  const path = getAgentPath(visit);
  await context.database.write((transaction) => updateAgent(context, actor, { path, body: read.data }, transaction));
  return movedWithNote(visit, `/dashboard/agents/${path.name}`, 'saved');
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

/** Who can invite and find the agent, and whether it can start sessions. */
export async function actAccess(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  try {
    await change(visit, readAccess(form));
  } catch (error) {
    if (!hasCode(error, 'FEATURE_NOT_AVAILABLE')) throw error;
    const mistake = { field: 'inbound_policy-open', message: error.message };
    return showAgent(visit, form, { mistakes: [mistake], status: 403 });
  }
  return movedWithNote(visit, getAddress(visit), 'saved');
}

function readAccess(form: Parameters) {
  const inboundPolicy = InboundPolicy.safeParse(form.one('inbound_policy')).data;
  const visibility = Visibility.safeParse(form.one('visibility')).data;
  return {
    ...(inboundPolicy !== undefined && { inbound_policy: inboundPolicy }),
    ...(visibility !== undefined && { visibility }),
    can_initiate_sessions: form.one('can_initiate_sessions') === 'true',
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

export async function showRemoveAgent(visit: Visit): Promise<DashboardAnswer> {
  const {
    handle,
    name,
    display_name: displayName,
  } = await visit.context.database.read((view) => requireAgent(visit, view));
  const path = `/dashboard/agents/${name}`;
  const main = renderQuestion({
    title: html`Remove <span class="wrap">${handle}</span>?`,
    consequences: [
      'The agent leaves its active sessions, and no one can reach it anymore.',
      'API credentials and connected apps lose access at once.',
      'The handle can’t be used again. This cannot be undone.',
    ],
    path: `${path}/remove`,
    csrf: visit.csrf,
    label: 'Remove agent',
    back: { label: renderName(displayName, handle), path },
  });
  return page({ title: `Remove ${handle}?`, section: 'agents', main });
}

export async function actRemoveAgent(visit: Visit): Promise<DashboardAnswer> {
  const { context, actor } = visit;
  const path = getAgentPath(visit);
  await context.database.write((transaction) => removeAgent(context, actor, { path }, transaction));
  return movedWithNote(visit, '/dashboard/agents', 'removed');
}
