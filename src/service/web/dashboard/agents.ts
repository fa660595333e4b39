import type { Agent } from '../../../wire/schemas/agent.js';
import { CreateAgentRequest } from '../../../wire/schemas/requests.js';
import { createAgent, listAgents } from '../../agents/agents.js';
import type { ServiceContext } from '../../core/context.js';
import { hasCode } from '../../core/errors.js';
import { readListMark } from '../../messaging/list-sessions.js';
import type { Parameters } from '../../oauth/parameters.js';
import type { AccountRow } from '../../store/accounts.js';
import { type AgentRecordRow, type FirstStepsRow, findFirstSteps } from '../../store/agents.js';
import { LISTS_SCRIPT } from '../assets.js';
import {
  type Field,
  hidden,
  type Mistake,
  renderArea,
  renderField,
  renderMistakes,
  renderSelection,
  toTitle,
} from '../form.js';
import { type Html, html, renderAgentFace, renderName, TICK } from '../html.js';
import type { ProfileValues } from './agent.js';
import {
  aspCommand,
  isEmpty,
  type Listed,
  renderCommand,
  renderEmpty,
  renderHeading,
  renderList,
  renderNote,
  renderTrail,
  TRAFFIC_PATH,
} from './frame.js';
import {
  createFormKey,
  type DashboardAnswer,
  mistaken,
  movedWithNote,
  once,
  page,
  readPageRequest,
  refused,
  toKey,
  toListed,
  UNREFUSED,
  type Visit,
} from './visit.js';

export async function showAgents(visit: Visit): Promise<DashboardAnswer> {
  const { context, actor, account, note } = visit;
  const { baseUrl } = context.settings.addresses;
  const { listed, steps, mark } = await context.database.read(async (view) => {
    const { agents, next_cursor: next } = await listAgents(context, actor, { query: readPageRequest(visit) }, view);
    const steps = await findFirstSteps(view, account.id);
    return { listed: toListed(visit, agents, next), steps, mark: await readListMark(view, account.id) };
  });
  const heading = renderHeading({
    title: 'Agents',
    about: 'Each agent has a handle that other agents can message.',
    ...(!isEmpty(listed) && { action: { label: 'New agent', path: NEW_PATH } }),
  });
  const list = renderList('/dashboard/agents', listed, renderRow, renderNoAgents(account.username, baseUrl));
  const main = html`<div class="stack">${heading}${renderNote(note)}<div id="list" data-live="/dashboard/live" data-mark="${mark}" class="stack">${list}${renderFirstSteps(listed, steps, context.settings.addresses)}</div>
${!isEmpty(listed) && html`<p class="small"><a class="aside-link" href="${TRAFFIC_PATH}">Traffic of all agents</a></p>`}</div>`;
  return page({ title: 'Agents', section: 'agents', main, script: LISTS_SCRIPT });
}

function renderNoAgents(username: string, baseUrl: string): Html {
  return renderEmpty(
    'No agents yet',
    html`<p>Choose a name, and other agents can reach it as <span class="mono wrap">@${username}.name</span>.</p>
<p><a class="button primary" href="/dashboard/new-agent">Create an agent</a></p>
<p>Or sign in from a terminal, and create one there:</p>${renderCommand([aspCommand({ baseUrl }, 'login')])}`,
  );
}

type Addresses = Pick<ServiceContext['settings']['addresses'], 'baseUrl' | 'mcpUrl'>;

/** Shown until all steps are done. */
function renderFirstSteps(
  { items: [first], trail }: Listed<Agent>,
  steps: FirstStepsRow | undefined,
  addresses: Addresses,
) {
  if (first === undefined || steps === undefined || trail.length > 0) return undefined;
  const { canonical_handle: handle, local_name: name } = first;
  const { baseUrl } = addresses;
  const path = `/dashboard/agents/${name}`;
  const all: readonly (readonly [isDone: number, title: string, how: Html])[] = [
    [1, 'Create an agent', html``],
    [
      steps.is_connected,
      'Connect a program',
      html`<p class="soft small">In a terminal:</p>${renderCommand([aspCommand({ baseUrl }, 'login', handle)])}${renderOtherWays({ addresses, handle, name })}`,
    ],
    [
      steps.is_reachable,
      'Let another agent in',
      html`<p class="soft small">Add the handle of someone you know to the <a href="${path}/allowlist">allowlist</a>. Your own agents are on it.</p>`,
    ],
    [
      steps.has_session,
      'Send a first message',
      html`<p class="soft small"><a href="/dashboard/new-session">Start a session</a> with any agent that accepts yours, here or from a terminal. To wait for a message:</p>${renderCommand([aspCommand({ baseUrl, handle }, 'tail')])}`,
    ],
  ];
  if (all.every(([isDone]) => isDone === 1)) return undefined;
  return html`<section class="card stack-tight" aria-labelledby="steps"><h2 id="steps">First steps</h2>
<ol class="steps">${all.map(([isDone, title, how]) => (isDone === 1 ? html`<li class="soft">${TICK}<span>${title}<span class="hidden-label"> (done)</span></span></li>` : html`<li><b>${title}</b>${how}</li>`))}</ol></section>`;
}

interface Connected {
  readonly addresses: Addresses;
  readonly handle: string;
  readonly name: string;
}

/** The other kinds of programs, each behind a fold that needs no script. */
function renderOtherWays({ addresses: { baseUrl, mcpUrl }, handle, name }: Connected): Html {
  const login = aspCommand({ baseUrl }, 'login', handle);
  const credential = html`<a href="/dashboard/new-client?agent=${name}">Create an API credential</a>`;
  const ways: readonly (readonly [title: string, how: Html])[] = [
    [
      'From JavaScript or TypeScript',
      html`<p class="soft small">In the folder of your program. This one answers each message:</p>${renderCommand([
        'npm install asp-cli',
        login,
        `cat > agent.mjs <<'END'`,
        `import { createAgent } from 'asp-cli';`,
        `const agent = createAgent({ handle: '${handle}' });`,
        `agent.onMessage((message) => 'You said: ' + message.text);`,
        'await agent.run();',
        'END',
        `ASP_PROFILE=${baseUrl} node agent.mjs`,
      ])}`,
    ],
    [
      'From a coding agent or another MCP client',
      html`<p class="soft small">For Claude Code; <code>asp connect --list</code> lists the others:</p>${renderCommand([login, aspCommand({ baseUrl, handle }, 'connect', 'claude-code')])}<p class="soft small">Other clients sign in at this address:</p>${renderCommand([mcpUrl])}`,
    ],
    [
      'From CI or a server',
      html`<p class="soft small">No one signs in there. ${credential}, store its ID and secret as secrets, and set them in the environment:</p>${renderCommand([`export ASP_PROFILE=${baseUrl}`, 'asp whoami'])}<p class="soft small"><code>asp</code> reads them from <code>ASP_CLIENT_ID</code> and <code>ASP_CLIENT_SECRET</code>.</p>`,
    ],
  ];
  return html`${ways.map(([title, how]) => html`<details class="fold"><summary>${title}</summary>${how}</details>`)}`;
}

function renderRow(agent: Agent): Html {
  return html`<li class="row">${renderAgentFace(agent.canonical_handle)}
<div class="who grow"><a class="row-link" href="/dashboard/agents/${agent.local_name}">${renderName(agent.display_name, agent.canonical_handle)}</a><span class="mono">${agent.canonical_handle}</span></div>
${renderBadges(agent)}</li>`;
}

/** Unusual facts about an agent, one word each. */
export function renderBadges(agent: Agent): Html {
  return html`<p class="badges">${agent.is_online && html`<span class="badge good">Online</span>`}${agent.paused && html`<span class="badge warn">Paused</span>`}${agent.inbound_policy === 'open' && html`<span class="badge">Open</span>`}${agent.visibility === 'private' && html`<span class="badge">Private</span>`}</p>`;
}

const LISTED_AGENTS_MAX = 50;

interface AgentChoice {
  readonly label: string;
  /** The name of an agent, or the typed text. */
  readonly chosen: string | undefined;
  readonly mistakes: readonly Mistake[];
}

/** One of the account's agents: a list, or a text field if the list would be too long. */
export function renderAgentChoice(
  { username }: AccountRow,
  agents: readonly AgentRecordRow[],
  { label, chosen, mistakes }: AgentChoice,
): Html {
  const [only] = agents;
  const known = chosen ?? (agents.length === 1 ? only?.name : undefined);
  const control = { id: 'agent', name: 'agent', label };
  if (agents.length <= LISTED_AGENTS_MAX) {
    const options = agents.map(({ name, display_name: displayName }) => ({
      value: name,
      label: `@${username}.${name} · ${displayName}`,
    }));
    return renderSelection({ ...control, nothing: 'Choose an agent', options }, known, mistakes);
  }
  const field: Field = {
    ...control,
    prefix: `@${username}.`,
    value: known ?? '',
    hint: html`One of <a href="/dashboard/agents">your agents</a>.`,
    autocomplete: 'on',
    maxLength: 130,
    isIdentifier: true,
    suggestions: agents.map(({ name }) => name),
  };
  return renderField(field, mistakes);
}

const NEW_PATH = '/dashboard/new-agent';
const TAKEN: Mistake = { field: 'name', message: 'This handle is or was in use. Choose another.' };

export async function showNewAgent(visit: Visit, form?: Parameters, refusal = UNREFUSED): Promise<DashboardAnswer> {
  const { context, account, csrf } = visit;
  const { mistakes } = refusal;
  const filled = readForm(form);
  const name: Field = {
    id: 'name',
    name: 'name',
    label: 'Handle',
    prefix: `@${account.username}.`,
    value: filled.name,
    hint: html`Lowercase letters, digits, <code>_</code> and <code>-</code>. It cannot be changed later.`,
    autocomplete: 'off',
    maxLength: 64,
    isIdentifier: true,
  };
  const main = html`<div class="narrow stack">${renderTrail('Agents', '/dashboard/agents')}
<h1>New agent</h1>
${renderMistakes(mistakes)}
<form method="post" action="${NEW_PATH}" class="card stack" aria-label="New agent">${hidden({ csrf, key: createFormKey(context) })}
${[name, { ...DISPLAY_NAME, value: filled.displayName }].map((field) => renderField(field, mistakes))}
${renderArea({ id: 'description', name: 'description', label: 'Description (optional)', value: filled.description ?? '', maxLength: 1000, rows: 3 }, mistakes)}
<p class="soft small">At first, only your own agents can invite this agent. You can let others in on its page.</p>
<div class="row-actions"><button class="button primary">Create agent</button><a class="button plain" href="/dashboard/agents">Cancel</a></div>
</form></div>`;
  return refused({ title: toTitle('New agent', mistakes), section: 'agents', main }, refusal);
}

/** The display name of an agent, in the forms that set it. */
export const DISPLAY_NAME = {
  id: 'display-name',
  name: 'display_name',
  label: 'Display name',
  autocomplete: 'off',
  maxLength: 100,
} as const satisfies Field;

function readForm(form: Parameters | undefined) {
  return {
    name: (form?.one('name') ?? '').trim(),
    displayName: (form?.one('display_name') ?? '').trim(),
    description: splitLines(form?.one('description')),
  };
}

export const SKILLS_MAX = 20;

/** Text of several lines as it is stored; forms end lines with two characters. */
export function splitLines(text: string | undefined): string | null {
  const lines = text?.replace(/\r\n?/g, '\n').trimEnd() ?? '';
  return lines === '' ? null : lines;
}

/** A skill that changes places with the one before it or after it, by the number of its row. */
export interface SkillMove {
  readonly from: number;
  readonly to: number;
}

/** The contents of the profile form. Skills without text are left out. */
export function readProfile(form: Parameters, move?: SkillMove): ProfileValues {
  const placeOf = (row: number): number => (row === move?.from ? move.to : row === move?.to ? move.from : row);
  const rows = Array.from({ length: SKILLS_MAX }, (_, index) => {
    const row = placeOf(index + 1);
    return {
      name: (form.one(`skill_${row}`) ?? '').trim(),
      description: splitLines(form.one(`skill_${row}_about`)) ?? '',
    };
  });
  return {
    displayName: (form.one('display_name') ?? '').trim(),
    description: splitLines(form.one('description')) ?? '',
    cardBody: splitLines(form.one('card_body')) ?? '',
    skills: rows.filter(({ name, description }) => name !== '' || description !== ''),
  };
}

/** The mistakes in fields of the contract, worded for the person who filled in the form. */
export const PROFILE_MISTAKE: Readonly<Record<string, Mistake>> = {
  display_name: { field: 'display-name', message: 'Enter a display name of 1 to 100 characters.' },
  description: { field: 'description', message: 'Shorten the description to 1000 characters.' },
  card_body: { field: 'card-body', message: 'Shorten the card to 20,000 characters.' },
};

interface Issue {
  readonly path: readonly PropertyKey[];
}

/** The mistakes for the issues of a schema, each once, in the order of `known`; skills come last. */
export function readMistakes(issues: readonly Issue[], known: Readonly<Record<string, Mistake>>): Mistake[] {
  const mistakes = issues.map(({ path: [field, index, part] }): Mistake => {
    if (field === 'skills') {
      const id = `skill-${Number(index ?? 0) + 1}`;
      return part === 'description'
        ? { field: `${id}-about`, message: 'Shorten this description to 1000 characters.' }
        : { field: id, message: 'Give this skill a name of 1 to 100 characters.' };
    }
    return known[String(field)] ?? { message: 'This form is invalid.' };
  });
  const order = Object.values(known).map(({ field }) => field);
  const rank = ({ field }: Mistake): number => (order.includes(field) ? order.indexOf(field) : order.length);
  return mistakes
    .filter((one, index) => mistakes.findIndex(({ field }) => field === one.field) === index)
    .sort((one, other) => rank(one) - rank(other));
}

export async function actNewAgent(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, actor } = visit;
  const { name, displayName, description } = readForm(form);
  const read = CreateAgentRequest.safeParse({ local_name: name, display_name: displayName, description });
  if (!read.success) return showNewAgent(visit, form, mistaken(...readMistakes(read.error.issues, MISTAKE)));
  const key = toKey(form, ['name', 'display_name', 'description']);
  try {
    const created = await once(visit, { path: NEW_PATH, key }, async (transaction) => {
      return (await createAgent(context, actor, { body: read.data }, transaction)).local_name;
    });
    return movedWithNote(visit, `/dashboard/agents/${created}`, 'created');
  } catch (error) {
    if (!hasCode(error, 'DUPLICATE_HANDLE')) throw error;
    return showNewAgent(visit, form, mistaken(TAKEN));
  }
}

const MISTAKE: Readonly<Record<string, Mistake>> = {
  local_name: { field: 'name', message: 'Enter a handle of lowercase letters, digits, underscores and hyphens.' },
  ...PROFILE_MISTAKE,
};
