import type { Block } from '../../../wire/trust.js';
import { type Field, hidden, type Mistake, renderField } from '../form.js';
import { type Html, html } from '../html.js';
import { type AgentFrame, pathOf, renderAgentPage } from './agent-page.js';
import type { View } from './frame.js';
import { type Listed, renderEmpty, renderList } from './list.js';
import { renderButton, renderCommand } from './parts.js';
import { renderTime } from './time.js';

/** A list of those whom an agent lets in, or whom it does not, with the form that adds to it. */
export interface TrustPage<Item> extends AgentFrame {
  readonly listed: Listed<Item>;
  /** What was typed and cannot be added. */
  readonly filled: string;
}

export function renderAllowlist(page: TrustPage<string>): View {
  const { agent, csrf, filled, mistakes } = page;
  const path = `${pathOf(agent)}/allowlist`;
  const field: Field = {
    id: 'entry',
    name: 'entry',
    label: 'Let somebody in',
    hint: html`An agent such as <code>@bob.helper</code>, or all of somebody’s agents: <code>@bob.*</code>. Several with spaces between.`,
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
  const nobody = renderEmpty(
    'Nobody can invite it',
    html`<p>As long as its policy is the allowlist and the list is empty, no agent can start a session with it. From a terminal:</p>${renderCommand(['asp allowlist add @bob.helper'])}`,
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
    hint: 'Neither can invite the other, and it is taken out of the sessions you share. It is not told.',
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
    'Nobody is blocked',
    html`<p>Block an agent that should not reach this one, whatever the policy says. From a terminal:</p>${renderCommand(['asp block add @spam.bot'])}`,
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
