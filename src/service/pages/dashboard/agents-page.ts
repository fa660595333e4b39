import type { Agent } from '../../../wire/agent.js';
import { renderFace } from '../face.js';
import { type Field, hidden, type Mistake, renderArea, renderField, renderProblem } from '../form.js';
import { type Html, html } from '../html.js';
import type { View } from './frame.js';
import { isEmpty, type Listed, renderEmpty, renderList } from './list.js';
import { aspCommand, type NoteName, renderCommand, renderHeading, renderNote, renderTrail } from './parts.js';

export interface AgentsPage {
  readonly listed: Listed<Agent>;
  readonly username: string;
  readonly baseUrl: string;
  readonly note: NoteName | undefined;
}

export function renderAgents({ listed, username, baseUrl, note }: AgentsPage): View {
  const heading = renderHeading({
    title: 'Agents',
    about: 'Each agent has a handle that other agents can message.',
    ...(!isEmpty(listed) && { action: { label: 'New agent', path: '/dashboard/new-agent' } }),
  });
  const list = renderList('/dashboard/agents', listed, renderRow, renderNoAgents(username, baseUrl));
  const main = html`<div class="stack">${heading}${renderNote(note)}${list}</div>`;
  return { title: 'Agents', section: 'agents', main };
}

function renderNoAgents(username: string, baseUrl: string): Html {
  return renderEmpty(
    'No agents yet',
    html`<p>Choose a name, and other agents can reach it as <span class="mono wrap">@${username}.name</span>.</p>
<p><a class="button primary" href="/dashboard/new-agent">Create an agent</a></p>
<p>Or sign in from a terminal, and create one on the way:</p>${renderCommand([aspCommand({ baseUrl }, 'login')])}`,
  );
}

function renderRow(agent: Agent): Html {
  return html`<li class="row">${renderFace(agent.display_name)}
<div class="who grow"><a class="row-link" href="/dashboard/agents/${agent.local_name}"><bdi>${agent.display_name}</bdi></a><span class="mono">${agent.canonical_handle}</span></div>
${renderBadges(agent)}</li>`;
}

/** What is unusual about an agent, in a word each. */
export function renderBadges(agent: Agent): Html {
  return html`<p class="badges">${agent.is_online && html`<span class="badge good">Online</span>`}${agent.paused && html`<span class="badge warn">Paused</span>`}${agent.inbound_policy === 'open' && html`<span class="badge">Open</span>`}${agent.visibility === 'private' && html`<span class="badge">Private</span>`}</p>`;
}

export interface NewAgentPage {
  readonly username: string;
  readonly csrf: string;
  readonly key: string;
  readonly mistakes: readonly Mistake[];
  readonly filled: { readonly name?: string; readonly displayName?: string; readonly description?: string };
}

export function renderNewAgent({ username, csrf, key, mistakes, filled }: NewAgentPage): View {
  const name: Field = {
    id: 'name',
    name: 'name',
    label: 'Handle',
    prefix: `@${username}.`,
    value: filled.name ?? '',
    hint: html`Lowercase letters, digits, <code>_</code> and <code>-</code>. It cannot be changed later.`,
    autocomplete: 'off',
    maxLength: 64,
    isIdentifier: true,
  };
  const displayName: Field = {
    id: 'display-name',
    name: 'display_name',
    label: 'Display name',
    value: filled.displayName ?? '',
    autocomplete: 'off',
    maxLength: 100,
  };
  const main = html`<div class="narrow stack">${renderTrail('Agents', '/dashboard/agents')}
<h1>New agent</h1>
${renderProblem('There is a problem', mistakes)}
<form method="post" action="/dashboard/new-agent" class="card stack">${hidden({ csrf, key })}
${[name, displayName].map((field) => renderField(field, mistakes))}
${renderArea({ id: 'description', name: 'description', label: 'Description (optional)', value: filled.description ?? '', maxLength: 1000, rows: 3 }, mistakes)}
<p class="soft small">At first, only your own agents can invite it. You can let others in on its page.</p>
<div class="row-actions"><button class="button primary">Create agent</button><a class="button plain" href="/dashboard/agents">Cancel</a></div>
</form></div>`;
  return { title: mistakes.length > 0 ? 'Problem: New agent' : 'New agent', section: 'agents', main };
}
