import type { Block } from '../../../wire/trust.js';
import { type Field, hidden, type Mistake, renderField } from '../form.js';
import { type Html, html } from '../html.js';
import { type AgentFrame, pathOf, renderAgentPage } from './agent-page.js';
import type { View } from './frame.js';
import { renderButton, renderCommand, renderEmpty, renderPager } from './parts.js';
import { renderTime } from './time.js';

interface ListPage extends AgentFrame {
  readonly next: string | null;
  readonly isFirst: boolean;
  readonly filled: string;
}

export interface AllowlistPage extends ListPage {
  readonly entries: readonly string[];
}

export function renderAllowlist(page: AllowlistPage): View {
  const { agent, csrf, entries, next, isFirst, filled, mistakes } = page;
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
  const rows = html`<ul class="rows">${entries.map((entry) => html`<li class="row"><div class="who grow"><span class="mono ink">${entry}</span>${entry.endsWith('.*') && html`<span class="soft small">Every agent of ${entry.slice(0, -2)}</span>`}</div>${renderButton({ path: `${path}/remove`, csrf, label: 'Remove', about: entry, values: { entry } })}</li>`)}</ul>${renderPager(path, next, isFirst)}`;
  const empty = renderEmpty(
    'Nobody can invite it',
    html`<p>As long as its policy is the allowlist and the list is empty, no agent can start a session with it. From a terminal:</p>${renderCommand(['asp allowlist add @bob.helper'])}`,
  );
  const body = html`<div class="stack measure">
${agent.inbound_policy === 'open' && html`<p class="notice">This agent is open: anyone can invite it, whether or not they are on this list.</p>`}
${renderAddForm({ path, csrf, label: 'Add', field, mistakes })}
${entries.length === 0 && isFirst ? empty : rows}</div>`;
  return renderAgentPage(page, 'allowlist', body);
}

export interface BlocksPage extends ListPage {
  readonly blocks: readonly Block[];
}

export function renderBlocks(page: BlocksPage): View {
  const { agent, csrf, blocks, next, isFirst, filled, mistakes, now } = page;
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
  const rows = html`<ul class="rows">${blocks.map(({ blocked_handle: handle, created_at: at }) => html`<li class="row"><div class="who grow"><span class="mono ink">${handle}</span><span class="soft small">Blocked ${renderTime(at, now)}</span></div>${renderButton({ path: `${path}/remove`, csrf, label: 'Unblock', about: handle, values: { handle } })}</li>`)}</ul>${renderPager(path, next, isFirst)}`;
  const empty = renderEmpty(
    'Nobody is blocked',
    html`<p>Block an agent that should not reach this one, whatever the policy says. From a terminal:</p>${renderCommand(['asp block add @spam.bot'])}`,
  );
  const body = html`<div class="stack measure">${renderAddForm({ path, csrf, label: 'Block', field, mistakes })}
${blocks.length === 0 && isFirst ? empty : rows}</div>`;
  return renderAgentPage(page, 'blocks', body);
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
