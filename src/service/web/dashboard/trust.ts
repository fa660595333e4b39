import { toOwnerGlob } from '../../../wire/handle.js';
import type { Agent, Block } from '../../../wire/schemas/agent.js';
import { AddAllowlistRequest, AllowlistEntry, BlockRequest } from '../../../wire/schemas/requests.js';
import { toAgent } from '../../agents/agents.js';
import type { AgentActor } from '../../core/context.js';
import type { Query, Transaction } from '../../core/database.js';
import { hasCode } from '../../core/errors.js';
import {
  addToAllowlist,
  blockAgent,
  listBlocks,
  removeFromAllowlist,
  unblockAgent,
} from '../../messaging/trust-lists.js';
import type { Parameters } from '../../oauth/parameters.js';
import { listAllowlistPage } from '../../store/allowlists.js';
import { type Field, hidden, type Mistake, renderField } from '../form.js';
import { CAUTION, type Html, html, untrustedText } from '../html.js';
import { renderTime } from '../time.js';
import { actingAs, getAgentPath, getPath, renderAgentPage, requireAgent } from './agent.js';
import {
  aspCommand,
  type Listed,
  type NoteName,
  renderButton,
  renderCommand,
  renderEmpty,
  renderList,
  type View,
} from './frame.js';
import {
  type DashboardAnswer,
  mistaken,
  movedWithNote,
  type Refusal,
  readListed,
  readPageRequest,
  refused,
  toListed,
  UNREFUSED,
  type Visit,
} from './visit.js';

/** An agent's allowlist or block list, with the form that adds to it. */
interface TrustPage<Item> {
  readonly agent: Agent;
  readonly listed: Listed<Item>;
  /** The typed text that cannot be added. */
  readonly filled: string;
  readonly mistakes: readonly Mistake[];
}

function renderAllowlist(visit: Visit, { agent, listed, filled, mistakes }: TrustPage<string>): View {
  const { context, csrf, note, noteAbout = '' } = visit;
  const path = `${getPath(agent)}/allowlist`;
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
  const { canonical_handle: handle } = agent;
  const { baseUrl } = context.settings.addresses;
  const add = aspCommand({ baseUrl, handle }, 'allowlist', 'add', toOwnerGlob(handle));
  const nobody = renderEmpty(
    'No one is on the list',
    html`<p>While the list is empty, no agent can start a session with this one, unless it is open to anyone. To let your own agents in again from a terminal:</p>${renderCommand([add])}`,
  );
  const undo =
    note === 'unlisted' && isEntry(noteAbout)
      ? { path, csrf, label: 'Undo', about: html`the removal of ${noteAbout}`, values: { entry: noteAbout } }
      : undefined;
  const added = note === 'listed' ? sayAdded(noteAbout) : undefined;
  const body = html`<div class="stack measure">
${agent.inbound_policy === 'open' && html`<p class="notice">${CAUTION}<span>This agent is open: anyone can invite it, on this list or not.</span></p>`}
${renderAddForm(path, csrf, 'Add', field, mistakes)}
${renderList(path, listed, renderRow, nobody)}</div>`;
  return renderAgentPage({ agent, note, noteText: added, undo, mistakes }, 'allowlist', body);
}

const isEntry = (text: string): boolean => AllowlistEntry.safeParse(text).success;

/** With more entries than these, the note names the first and counts the others. */
const ADDED_NAMED_MAX = 3;

/** Names what was added in few words: the cookie of the note has no room for a thousand entries. */
function toAdded(entries: readonly string[]): string {
  return entries.length > ADDED_NAMED_MAX ? `${entries[0]}+${entries.length - 1}` : entries.join('+');
}

/** Undefined: the cookie names no entry. */
function sayAdded(added: string): string | undefined {
  const [first = '', ...rest] = added.split('+');
  const [count = ''] = rest;
  if (!isEntry(first)) return undefined;
  if (rest.length === 1 && /^[1-9]\d{0,3}$/.test(count)) return `Added ${first} and ${count} others to the allowlist.`;
  if (!rest.every(isEntry)) return undefined;
  return `Added ${new Intl.ListFormat('en').format([first, ...rest])} to the allowlist.`;
}

function renderBlocks(visit: Visit, { agent, listed, filled, mistakes }: TrustPage<Block>): View {
  const { context, csrf, note, noteAbout = '' } = visit;
  const path = `${getPath(agent)}/blocks`;
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
  const now = context.clock.now();
  const renderRow = ({ blocked_handle: handle, created_at: at }: Block): Html => {
    const unblock = renderButton({ path: `${path}/remove`, csrf, label: 'Unblock', about: handle, values: { handle } });
    return renderNamed(handle, html`Blocked ${renderTime(at, now)}`, unblock);
  };
  const nobody = renderEmpty(
    'No one is blocked',
    html`<p>Blocked agents cannot reach this one, even if its policy is open.</p>`,
  );
  const values = { handle: noteAbout };
  // After a block, the row of the list has the button that lifts it.
  const undo =
    note === 'unblocked' && BlockRequest.safeParse(values).success
      ? { path, csrf, label: 'Undo', about: html`the unblocking of ${noteAbout}`, values }
      : undefined;
  const body = html`<div class="stack measure">${renderAddForm(path, csrf, 'Block', field, mistakes)}
${renderList(path, listed, renderRow, nobody)}</div>`;
  return renderAgentPage({ agent, note, undo, mistakes }, 'blocks', body);
}

function renderNamed(name: string, about: Html | false, action: Html): Html {
  return html`<li class="row"><div class="who grow"><span class="mono ink">${name}</span>${about && html`<span class="soft small">${about}</span>`}</div>${action}</li>`;
}

function renderAddForm(path: string, csrf: string, label: string, field: Field, mistakes: readonly Mistake[]): Html {
  return html`<form method="post" action="${path}" class="card add">${hidden({ csrf })}${renderField(field, mistakes)}<button class="button primary">${label}</button></form>`;
}

/** One of an agent's two lists: how it is read, and what its page looks like. */
interface TrustList<Item> {
  readonly path: 'allowlist' | 'blocks';
  read(visit: Visit, actor: AgentActor, view: Query): Promise<Listed<Item>>;
  render(visit: Visit, trustPage: TrustPage<Item>): View;
}

/** The page of a list, with the typed text. */
async function showTrustList<Item>(
  visit: Visit,
  list: TrustList<Item>,
  refusal: Refusal = UNREFUSED,
  filled = '',
): Promise<DashboardAnswer> {
  const { row, listed } = await visit.context.database.read(async (view) => {
    const found = await requireAgent(visit, view);
    return { row: found, listed: await list.read(visit, actingAs(visit.account.id, found), view) };
  });
  const { mistakes } = refusal;
  return refused(list.render(visit, { agent: toAgent(visit.context, row), listed, filled, mistakes }), refusal);
}

/** Changes a list as its agent does, and shows it. */
async function changeTrustList<Item>(
  visit: Visit,
  { path }: TrustList<Item>,
  note: NoteName,
  work: (actor: AgentActor, transaction: Transaction) => Promise<unknown>,
  about?: string,
): Promise<DashboardAnswer> {
  await visit.context.database.write(async (transaction) => {
    await work(actingAs(visit.account.id, await requireAgent(visit, transaction)), transaction);
  });
  return movedWithNote(visit, `/dashboard/agents/${visit.part('name')}/${path}`, note, about);
}

const ALLOWLIST: TrustList<string> = {
  path: 'allowlist',
  render: renderAllowlist,
  read: (visit, { agentId }, view) =>
    readListed(visit, {
      scope: ['allowlist', agentId],
      start: [''],
      toPosition: (entry) => [entry],
      read: ([after], limit) => listAllowlistPage(view, agentId, after, limit),
    }),
};

export async function showAllowlist(visit: Visit): Promise<DashboardAnswer> {
  return showTrustList(visit, ALLOWLIST);
}

export async function actAllowlist(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const typed = (form.one('entry') ?? '').split(/[\s,]+/).filter((entry) => entry !== '');
  const wrong = typed.find((entry) => !isEntry(entry));
  if (wrong !== undefined) return allowlistAgain(visit, form, mistaken({ field: 'entry', message: malformed(wrong) }));
  const read = AddAllowlistRequest.safeParse({ entries: typed });
  if (!read.success) return allowlistAgain(visit, form, mistaken({ field: 'entry', message: MISSING }));
  const entries = [...new Set(read.data.entries)];
  const input = { path: getAgentPath(visit), body: { entries } };
  try {
    return await changeTrustList(
      visit,
      ALLOWLIST,
      'listed',
      (actor, transaction) => addToAllowlist(visit.context, actor, input, transaction),
      toAdded(entries),
    );
  } catch (error) {
    if (!hasCode(error, 'VALIDATION_ERROR')) throw error;
    return allowlistAgain(visit, form, mistaken({ field: 'entry', message: error.message }));
  }
}

const MISSING = 'Enter handles such as @bob.helper, or @bob.* for all agents of @bob.';
const malformed = (entry: string): string =>
  `“${untrustedText(entry)}” is not a handle. Enter handles such as @bob.helper, or @bob.* for all agents of @bob.`;

export async function allowlistAgain(visit: Visit, form: Parameters, refusal: Refusal): Promise<DashboardAnswer> {
  return showTrustList(visit, ALLOWLIST, refusal, form.one('entry'));
}

export async function actRemoveEntry(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const entry = form.one('entry') ?? '';
  const input = { path: { ...getAgentPath(visit), entry } };
  const about = isEntry(entry) ? entry : undefined;
  return changeTrustList(
    visit,
    ALLOWLIST,
    'unlisted',
    (actor, transaction) => removeFromAllowlist(visit.context, actor, input, transaction),
    about,
  );
}

const MALFORMED: Mistake = { field: 'handle', message: 'Enter the handle of an agent, such as @spam.bot.' };
const ITSELF: Mistake = { field: 'handle', message: 'An agent cannot block itself.' };

const BLOCKS: TrustList<Block> = {
  path: 'blocks',
  render: renderBlocks,
  async read(visit, actor, view) {
    const { blocks, next_cursor: next } = await listBlocks(
      visit.context,
      actor,
      { query: readPageRequest(visit) },
      view,
    );
    return toListed(visit, blocks, next);
  },
};

export async function showBlocks(visit: Visit): Promise<DashboardAnswer> {
  return showTrustList(visit, BLOCKS);
}

export async function actBlock(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, account, part } = visit;
  const typed = (form.one('handle') ?? '').trim();
  const read = BlockRequest.safeParse({ handle: typed });
  if (!read.success) return blocksAgain(visit, form, mistaken(MALFORMED));
  if (typed === `@${account.username}.${part('name')}`) return blocksAgain(visit, form, mistaken(ITSELF));
  return changeTrustList(visit, BLOCKS, 'blocked', (actor, transaction) =>
    blockAgent(context, actor, { path: {}, body: read.data }, transaction),
  );
}

export async function blocksAgain(visit: Visit, form: Parameters, refusal: Refusal): Promise<DashboardAnswer> {
  return showTrustList(visit, BLOCKS, refusal, form.one('handle'));
}

export async function actUnblock(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const handle = form.one('handle') ?? '';
  return changeTrustList(
    visit,
    BLOCKS,
    'unblocked',
    (actor, transaction) => unblockAgent(visit.context, actor, { path: { blocked: handle } }, transaction),
    BlockRequest.safeParse({ handle }).success ? handle : undefined,
  );
}
