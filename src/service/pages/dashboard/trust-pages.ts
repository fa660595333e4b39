import { ownerGlobOf } from '../../../wire/handle.js';
import type { Block } from '../../../wire/trust.js';
import { type Field, hidden, type Mistake, renderField } from '../form.js';
import { type Html, html } from '../html.js';
import { type AgentFrame, pathOf, renderAgentPage } from './agent-page.js';
import type { View } from './frame.js';
import { type Listed, renderEmpty, renderList } from './list.js';
import { aspCommand, renderButton, renderCommand } from './parts.js';
import { renderTime } from './time.js';

/** A list of those whom an agent lets in, or whom it does not, with the form that adds to it. */
export interface TrustPage<Item> extends AgentFrame {
  readonly baseUrl: string;
  readonly listed: Listed<Item>;
  /** What was typed and cannot be added. */
  readonly filled: string;
}

export function renderAllowlist(page: TrustPage<string>): View {
  const { agent, csrf, filled, mistakes, baseUrl } = page;
  const path = `${pathOf(agent)}/allowlist`;
  const field: Field = {
    id: 'entry',
    name: 'entry',
    label: 'Add to allowlist',
    hint: html`An agent such as <code>@bob.helper</code>, or all agents of one owner: <code>@bob.*</code>. Separate several with spaces.`,
    value: filled,
    autocomplete: 'off',
    maxLength: 2000,
    isIdentifier: true,
  };
  const renderRow = (entry: string): Html => {
    const about = entry.endsWith('.*') && html`Every agent of ${entry.slice(0, -2)}`;
    const remove = renderButton({ path: `${path}/remove`, csrf, label: 'Remove', about: entry, values: { entry } });
    return renderNamed(entry, about, remove);
  };
  const add = aspCommand(
    { baseUrl, handle: agent.canonical_handle },
    'allowlist',
    'add',
    ownerGlobOf(agent.canonical_handle),
  );
  const nobody = renderEmpty(
    'No one is on the list',
    html`<p>While the list is empty, no agent can start a session with this one, unless it is open to anyone. To let your own agents in again from a terminal:</p>${renderCommand([add])}`,
  );
  const body = html`<div class="stack measure">
${agent.inbound_policy === 'open' && html`<p class="notice">This agent is open: anyone can invite it, whether or not they are on this list.</p>`}
${renderAddForm({ path, csrf, label: 'Add', field, mistakes })}
${renderList(path, page.listed, renderRow, nobody)}</div>`;
  return renderAgentPage(page, 'allowlist', body);
}

export function renderBlocks(page: TrustPage<Block>): View {
  const { agent, csrf, filled, mistakes, now } = page;
  const path = `${pathOf(agent)}/blocks`;
  const field: Field = {
    id: 'handle',
    name: 'handle',
    label: 'Block an agent',
    hint: 'Neither agent can invite the other, and the blocked agent leaves the sessions you share. It isn’t notified.',
    value: filled,
    autocomplete: 'off',
    maxLength: 130,
    isIdentifier: true,
  };
  const renderRow = ({ blocked_handle: handle, created_at: at }: Block): Html => {
    const unblock = renderButton({ path: `${path}/remove`, csrf, label: 'Unblock', about: handle, values: { handle } });
    return renderNamed(handle, html`Blocked ${renderTime(at, now)}`, unblock);
  };
  const nobody = renderEmpty(
    'No one is blocked',
    html`<p>A blocked agent cannot reach this one, whatever the policy says.</p>`,
  );
  const body = html`<div class="stack measure">${renderAddForm({ path, csrf, label: 'Block', field, mistakes })}
${renderList(path, page.listed, renderRow, nobody)}</div>`;
  return renderAgentPage(page, 'blocks', body);
}

function renderNamed(name: string, about: Html | false, action: Html): Html {
  return html`<li class="row"><div class="who grow"><span class="mono ink">${name}</span>${about && html`<span class="soft small">${about}</span>`}</div>${action}</li>`;
}

interface AddForm {
  readonly path: string;
  readonly csrf: string;
  readonly label: string;
  readonly field: Field;
  readonly mistakes: readonly Mistake[];
}

function renderAddForm({ path, csrf, label, field, mistakes }: AddForm): Html {
  return html`<form method="post" action="${path}" class="card add">${hidden({ csrf })}${renderField(field, mistakes)}<button class="button primary">${label}</button></form>`;
}
