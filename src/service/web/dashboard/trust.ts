import { HANDLE_MAX_LENGTH, isHandle, toOwnerGlob } from '../../../wire/handle.js';
import type { Agent } from '../../../wire/schemas/agent.js';
import { AddAllowlistRequest, AllowlistEntry, BlockRequest } from '../../../wire/schemas/requests.js';
import { toAgent } from '../../agents/agents.js';
import type { AgentActor } from '../../core/context.js';
import type { Query, Transaction } from '../../core/database.js';
import { hasCode } from '../../core/errors.js';
import { addToAllowlist, blockAgent, removeFromAllowlist, unblockAgent } from '../../messaging/trust-lists.js';
import type { Parameters } from '../../oauth/parameters.js';
import { type BlockRow, type EntrySelection, listAllowlistPage, listBlockRows } from '../../store/allowlists.js';
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
  refused,
  UNREFUSED,
  type Visit,
} from './visit.js';

/** An agent's allowlist or block list, with the form that adds to it. */
interface TrustPage<Item> {
  readonly agent: Agent;
  readonly listed: Listed<Item>;
  /** The text that its entries contain; empty: all of them. */
  readonly search: string;
  /** The typed text that cannot be added. */
  readonly filled: string;
  readonly mistakes: readonly Mistake[];
}

function renderAllowlist(visit: Visit, { agent, listed, search, filled, mistakes }: TrustPage<string>): View {
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
    const values = { entry, ...keepSearch(search) };
    const remove = renderButton({ path: `${path}/remove`, csrf, label: 'Remove', about: entry, values });
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
      ? {
          path,
          csrf,
          label: 'Undo',
          about: html`the removal of ${noteAbout}`,
          values: { entry: noteAbout, ...keepSearch(search) },
        }
      : undefined;
  const added = note === 'listed' ? sayAdded(noteAbout) : undefined;
  const body = html`<div class="stack measure">
${agent.inbound_policy === 'open' && html`<p class="notice">${CAUTION}<span>This agent is open: anyone can invite it, on this list or not.</span></p>`}
${renderAddForm(path, csrf, 'Add', field, mistakes)}
${renderSearchable(path, search, listed, renderRow, nobody)}</div>`;
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

function renderBlocks(visit: Visit, { agent, listed, search, filled, mistakes }: TrustPage<BlockRow>): View {
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
  const renderRow = ({ blocked_handle: handle, created_at: at }: BlockRow): Html => {
    const values = { handle, ...keepSearch(search) };
    const unblock = renderButton({ path: `${path}/remove`, csrf, label: 'Unblock', about: handle, values });
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
      ? {
          path,
          csrf,
          label: 'Undo',
          about: html`the unblocking of ${noteAbout}`,
          values: { ...values, ...keepSearch(search) },
        }
      : undefined;
  const body = html`<div class="stack measure">${renderAddForm(path, csrf, 'Block', field, mistakes)}
${renderSearchable(path, search, listed, renderRow, nobody)}</div>`;
  return renderAgentPage({ agent, note, undo, mistakes }, 'blocks', body);
}

/** The forms of a list lead back to the entries that someone searched for. */
const keepSearch = (search: string): Record<string, string> => (search === '' ? {} : { q: search });

const addressOf = (path: string, search: string): string =>
  search === '' ? path : `${path}?q=${encodeURIComponent(search)}`;

/** A list, and a field that searches it if it has more than one page. */
function renderSearchable<Item>(
  path: string,
  search: string,
  listed: Listed<Item>,
  renderRow: (item: Item) => Html,
  nothing: Html,
): Html {
  const isLong = search !== '' || listed.next !== null || listed.trail.length > 0;
  if (!isLong) return renderList(path, listed, renderRow, nothing);
  const field: Field = {
    id: 'q',
    name: 'q',
    label: 'Search this list',
    hint: html`A part of a handle. A whole one, such as <code>@bob.helper</code>, also finds <code>@bob.*</code>.`,
    value: search,
    autocomplete: 'off',
    maxLength: HANDLE_MAX_LENGTH,
    isIdentifier: true,
    isRequired: false,
  };
  const whole = search !== '' && html`<a class="button plain" href="${path}">Whole list</a>`;
  const unfound = renderEmpty('Nothing found', html`<p>No entry contains “${untrustedText(search)}”.</p>`);
  const list = renderList(addressOf(path, search), listed, renderRow, search === '' ? nothing : unfound);
  return html`<form method="get" action="${path}" role="search" class="search-form">${renderField(field, [])}<div class="row-actions"><button class="button plain">Search</button>${whole}</div></form>
${list}`;
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
  read(visit: Visit, agentId: string, view: Query, selection: EntrySelection): Promise<Listed<Item>>;
  render(visit: Visit, trustPage: TrustPage<Item>): View;
}

/** The page of a list, with the typed text. */
async function showTrustList<Item>(
  visit: Visit,
  list: TrustList<Item>,
  refusal: Refusal = UNREFUSED,
  filled = '',
): Promise<DashboardAnswer> {
  const search = readSearch(visit.query);
  const { row, listed } = await visit.context.database.read(async (view) => {
    const found = await requireAgent(visit, view);
    return { row: found, listed: await list.read(visit, found.id, view, toSelection(search)) };
  });
  const { mistakes } = refusal;
  return refused(list.render(visit, { agent: toAgent(visit.context, row), listed, search, filled, mistakes }), refusal);
}

/** The characters of entries. */
const SEARCHABLE = /^[@.*\w-]*$/;
/** No entry contains it. */
const NOWHERE = ' ';

const readSearch = (parameters: Parameters): string =>
  (parameters.one('q') ?? '').trim().toLowerCase().slice(0, HANDLE_MAX_LENGTH);

/** A whole handle also finds the entry for all agents of its owner, because that one concerns it too. */
function toSelection(search: string): EntrySelection {
  const handle = search.startsWith('@') ? search : `@${search}`;
  return { text: SEARCHABLE.test(search) ? search : NOWHERE, glob: isHandle(handle) ? toOwnerGlob(handle) : undefined };
}

/** Changes a list as its agent does, and shows it. */
async function changeTrustList<Item>(
  visit: Visit,
  form: Parameters,
  { path }: TrustList<Item>,
  note: NoteName,
  work: (actor: AgentActor, transaction: Transaction) => Promise<unknown>,
  about?: string,
): Promise<DashboardAnswer> {
  await visit.context.database.write(async (transaction) => {
    await work(actingAs(visit.account.id, await requireAgent(visit, transaction)), transaction);
  });
  const address = addressOf(`/dashboard/agents/${visit.part('name')}/${path}`, readSearch(form));
  return movedWithNote(visit, address, note, about);
}

const ALLOWLIST: TrustList<string> = {
  path: 'allowlist',
  render: renderAllowlist,
  read: (visit, agentId, view, selection) =>
    readListed(visit, {
      scope: ['allowlist', agentId],
      start: [''],
      toPosition: (entry) => [entry],
      read: ([after], limit) => listAllowlistPage(view, agentId, after, limit, selection),
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
      form,
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
    form,
    ALLOWLIST,
    'unlisted',
    (actor, transaction) => removeFromAllowlist(visit.context, actor, input, transaction),
    about,
  );
}

const MALFORMED: Mistake = { field: 'handle', message: 'Enter the handle of an agent, such as @spam.bot.' };
const ITSELF: Mistake = { field: 'handle', message: 'An agent cannot block itself.' };

const BLOCKS: TrustList<BlockRow> = {
  path: 'blocks',
  render: renderBlocks,
  read: (visit, agentId, view, selection) =>
    readListed(visit, {
      scope: ['blocks', agentId],
      start: [Number.MAX_SAFE_INTEGER, ''],
      toPosition: ({ created_at: at, blocked_handle: handle }: BlockRow) => [at, handle],
      read: ([createdAt, handle], limit) => listBlockRows(view, agentId, { createdAt, handle }, limit, selection),
    }),
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
  return changeTrustList(visit, form, BLOCKS, 'blocked', (actor, transaction) =>
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
    form,
    BLOCKS,
    'unblocked',
    (actor, transaction) => unblockAgent(visit.context, actor, { path: { blocked: handle } }, transaction),
    BlockRequest.safeParse({ handle }).success ? handle : undefined,
  );
}
