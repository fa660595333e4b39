import { AGENT_SCOPES, SCOPE_DESCRIPTION, type Scope } from '../../../wire/scope.js';
import { renderFace } from '../face.js';
import {
  type Choices,
  type Field,
  hidden,
  type Mistake,
  renderField,
  renderProblem,
  renderSelection,
  renderTicks,
} from '../form.js';
import { type Html, html } from '../html.js';
import { CAUTION } from '../icon.js';
import type { View } from './frame.js';
import { isEmpty, type Listed, renderEmpty, renderList } from './list.js';
import {
  type NoteName,
  renderCommand,
  renderHeading,
  renderNote,
  renderQuestion,
  renderScopes,
  renderTrail,
} from './parts.js';
import { renderTime } from './time.js';

export interface ShownClient {
  readonly id: string;
  readonly name: string;
  readonly handle: string;
  readonly agentName: string;
  readonly scopes: readonly Scope[];
  readonly createdAt: number;
  readonly lastUsedAt: number | null;
}

export interface ClientsPage {
  readonly listed: Listed<ShownClient>;
  readonly now: number;
  readonly note: NoteName | undefined;
}

const NEW_CLIENT = { label: 'New API credential', path: '/dashboard/new-client' } as const;

export function renderClients({ listed, now, note }: ClientsPage): View {
  const heading = renderHeading({
    title: 'API credentials',
    about: 'Let a server act as one of your agents, without anyone signing in.',
    ...(!isEmpty(listed) && { action: NEW_CLIENT }),
  });
  const nothing = renderEmpty(
    'No API credentials yet',
    html`<p>Create one for a program that runs by itself: a build, a scheduled job, a back end.</p>
<p><a class="button primary" href="${NEW_CLIENT.path}">Create an API credential</a></p>
<p>Its secret is shown once, with the environment variables that the program needs.</p>`,
  );
  const list = renderList('/dashboard/clients', listed, (client) => renderRow(client, now), nothing);
  const main = html`<div class="stack">${heading}${renderNote(note)}${list}</div>`;
  return { title: 'API credentials', section: 'clients', main };
}

function renderRow(client: ShownClient, now: number): Html {
  return html`<li class="row">${renderFace(client.name)}
<div class="who grow"><a class="row-link" href="/dashboard/clients/${client.id}"><bdi>${client.name}</bdi></a><span class="mono">${client.handle}</span></div>
<p class="facts soft small"><span>Created ${renderTime(client.createdAt, now)}</span><span>${renderUse(client, now)}</span></p></li>`;
}

function renderUse({ lastUsedAt }: ShownClient, now: number): Html {
  return lastUsedAt === null ? html`Never used` : html`Last used ${renderTime(lastUsedAt, now)}`;
}

const LISTED_AGENTS_MAX = 50;
const SCOPE_TICKS: Choices = {
  name: 'scope',
  legend: 'Permissions',
  choices: AGENT_SCOPES.map((scope) => ({ value: scope, label: SCOPE_DESCRIPTION[scope] })),
};

export interface NewClientPage {
  readonly csrf: string;
  readonly key: string;
  readonly username: string;
  /** All there are, or as many as can be suggested. */
  readonly agents: readonly { readonly name: string; readonly displayName: string }[];
  readonly mistakes: readonly Mistake[];
  readonly name: string;
  /** The name of an agent, or what was typed for one. */
  readonly chosen: string | undefined;
  readonly scopes: readonly Scope[];
}

export function renderNewClient(page: NewClientPage): View {
  const { csrf, key, agents, mistakes, name } = page;
  const field: Field = {
    id: 'name',
    name: 'name',
    label: 'Name',
    hint: 'A name to recognize it by.',
    value: name,
    autocomplete: 'off',
    maxLength: 100,
  };
  const form = html`<form method="post" action="/dashboard/new-client" class="card stack">${hidden({ csrf, key })}
${renderField(field, mistakes)}
${renderAgentChoice(page)}
${renderTicks(SCOPE_TICKS, page.scopes, mistakes)}
<div class="row-actions"><button class="button primary">Create API credential</button><a class="button plain" href="/dashboard/clients">Cancel</a></div></form>`;
  const noAgents = renderEmpty(
    'It needs an agent',
    html`<p>An API credential acts as one of your agents, and you have none yet.</p><p><a class="button primary" href="/dashboard/new-agent">Create an agent</a></p>`,
  );
  const main = html`<div class="narrow stack">${renderTrail('API credentials', '/dashboard/clients')}<h1>New API credential</h1>
${renderProblem('There is a problem', mistakes)}${agents.length === 0 ? noAgents : form}</div>`;
  return {
    title: mistakes.length > 0 ? 'Problem: New API credential' : 'New API credential',
    section: 'clients',
    main,
  };
}

/** Chosen from a list, or typed where that would be too long to look through. */
function renderAgentChoice({ username, agents, chosen, mistakes }: NewClientPage): Html {
  const [only] = agents;
  const known = chosen ?? (agents.length === 1 ? only?.name : undefined);
  const control = { id: 'agent', name: 'agent', label: 'Acts as' };
  if (agents.length <= LISTED_AGENTS_MAX) {
    const options = agents.map(({ name, displayName }) => ({
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

export interface ClientPage {
  readonly client: ShownClient;
  /** Only just after the client was made. */
  readonly secret: string | undefined;
  readonly baseUrl: string;
  readonly now: number;
}

export function renderClient({ client, secret, baseUrl, now }: ClientPage): View {
  const main = html`<div class="stack">${renderTrail('API credentials', '/dashboard/clients')}
<div class="identity">${renderFace(client.name, 'large')}<div class="who grow"><h1><bdi>${client.name}</bdi></h1><span class="soft">acts as <a class="mono" href="/dashboard/agents/${client.agentName}">${client.handle}</a></span></div></div>
${secret !== undefined && renderSecret(client, secret, baseUrl)}
<div class="columns"><section class="card stack-tight" aria-labelledby="facts"><h2 id="facts">Details</h2>
<dl class="pairs"><div><dt>Client id</dt><dd class="mono wrap">${client.id}</dd></div><div><dt>Secret</dt><dd>${secret === undefined ? 'Shown once, when it was created' : 'Shown above'}</dd></div><div><dt>Created</dt><dd>${renderTime(client.createdAt, now)}</dd></div><div><dt>Last used</dt><dd>${client.lastUsedAt === null ? 'Never' : renderTime(client.lastUsedAt, now)}</dd></div></dl>
<p class="small"><a class="aside-link quiet-danger" href="/dashboard/clients/${client.id}/revoke">Revoke this API credential…</a></p></section>
<section class="card stack-tight" aria-labelledby="may"><h2 id="may">Permissions</h2>${renderScopes(client.scopes)}</section></div></div>`;
  return { title: client.name, section: 'clients', main };
}

function renderSecret({ id }: ShownClient, secret: string, baseUrl: string): Html {
  return html`<section class="card secret stack" aria-labelledby="secret"><div class="stack-tight"><h2 id="secret">Copy the secret now</h2>
<p class="notice">${CAUTION}<span>You won’t see it again. If you lose it, revoke this API credential and create another.</span></p></div>
<p class="command"><code class="take" id="client-secret">${secret}</code></p>
<div class="stack-tight"><p class="soft small">Set these in the environment of the program, and check them:</p>${renderCommand([`export ASP_PROFILE=${baseUrl}`, `export ASP_CLIENT_ID=${id}`, `export ASP_CLIENT_SECRET=${secret}`, 'asp whoami'])}</div></section>`;
}

export function renderRevokeClient({ client, csrf }: { readonly client: ShownClient; readonly csrf: string }): View {
  const path = `/dashboard/clients/${client.id}`;
  const main = renderQuestion({
    title: html`Revoke “<bdi>${client.name}</bdi>”?`,
    consequences: [
      html`Programs that use it can no longer act as <span class="mono wrap">${client.handle}</span>. Their connections are closed at once.`,
      'Existing access tokens expire within 15 minutes.',
      'This cannot be undone. A new API credential has a new id and secret.',
    ],
    path: `${path}/revoke`,
    csrf,
    label: 'Revoke API credential',
    back: { label: html`<bdi>${client.name}</bdi>`, path },
  });
  return { title: `Revoke “${client.name}”?`, section: 'clients', main };
}
