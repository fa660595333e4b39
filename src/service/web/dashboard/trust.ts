import { HANDLE_MAX_LENGTH, isHandle, isOwnerGlob, toHandle, toOwnerGlob } from '../../../wire/handle.js';
import type { Agent } from '../../../wire/schemas/agent.js';
import { toAgent } from '../../agents/agents.js';
import type { AgentActor } from '../../core/context.js';
import type { Query, Transaction } from '../../core/database.js';
import { hasCode } from '../../core/errors.js';
import {
  ALLOWLIST_MAX_ENTRIES,
  addToAllowlist,
  blockAgents,
  isItself,
  removeFromAllowlist,
  unblockAgent,
} from '../../messaging/trust-lists.js';
import type { Parameters } from '../../oauth/parameters.js';
import {
  type BlockRow,
  type CounterpartRow,
  type EntrySelection,
  listAllowlistPage,
  listBlockRows,
  listUnlistedCounterparts,
} from '../../store/allowlists.js';
import { type Field, hidden, type Mistake, renderArea, renderField } from '../form.js';
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
  type PageRow,
  type Refusal,
  readListed,
  refused,
  UNREFUSED,
  type Visit,
} from './visit.js';

/** An agent's allowlist or block list, with the forms that add to it. */
interface TrustPage<Item> {
  readonly agent: Agent;
  readonly listed: Listed<Item>;
  /** The text that its entries contain; empty: all of them. */
  readonly search: string;
  readonly filled: Filled;
  readonly mistakes: readonly Mistake[];
  /** Agents that this one has met, and that neither of its lists names. */
  readonly counterparts: readonly CounterpartRow[];
}

/** What someone typed or pasted, if it was refused. */
interface Filled {
  readonly text: string;
  /** Whether it is a pasted list instead of a line. */
  readonly isList: boolean;
  /** How many entries can be added without the others. */
  readonly rest: number;
}
const EMPTY: Filled = { text: '', isList: false, rest: 0 };

function renderTrustList<Item>(visit: Visit, list: TrustList<Item>, trustPage: TrustPage<Item>): View {
  const { agent, listed, search, mistakes } = trustPage;
  const { context, csrf, note, noteAbout = '' } = visit;
  const { removal } = list;
  const path = `${getPath(agent)}/${list.path}`;
  const now = context.clock.now();
  const valuesFor = (entry: string) => ({ [list.field]: entry, ...keepSearch(search) });
  const renderRow = (item: Item): Html => {
    const entry = list.entryOf(item);
    const { label } = removal;
    const remove = renderButton({ path: `${path}/remove`, csrf, label, about: entry, values: valuesFor(entry) });
    return renderNamed(entry, list.describe(item, now), remove);
  };
  // An entry that was added has a row, whose button takes it back.
  const undo =
    note === removal.note && isEntry(noteAbout)
      ? { path, csrf, label: 'Undo', about: html`${removal.about} ${noteAbout}`, values: valuesFor(noteAbout) }
      : undefined;
  const added = note === list.note ? sayAdded(noteAbout, list.sayAdded) : undefined;
  const isAllowlist = list.path === 'allowlist';
  const isIdle = isAllowlist && agent.inbound_policy === 'open';
  const body = html`<div class="stack measure">
${isIdle && html`<p class="notice">${CAUTION}<span>This agent is open: anyone can invite it, on this list or not.</span></p>`}
${renderAddForms(path, csrf, list, trustPage)}
${renderSearchable(path, search, listed, renderRow, list.renderNothing(agent, context.settings.addresses.baseUrl))}
${isAllowlist && isWhole(trustPage) && renderSuggestions(path, csrf, trustPage.counterparts, now)}</div>`;
  return renderAgentPage({ context, agent, note, noteText: added, undo, mistakes }, list.path, body);
}

const isEntry = (text: string): boolean => isHandle(text) || isOwnerGlob(text);

/** With more entries than these, the note names the first and counts the others. */
const ADDED_NAMED_MAX = 3;
/** Comes before the number of entries that were left out. */
const LEFT_OUT = '~';

/** Names what was added in few words: the cookie of the note has no room for a thousand entries. */
function toAdded(entries: readonly string[], leftOut: number): string {
  const added = entries.length > ADDED_NAMED_MAX ? `${entries[0]}+${entries.length - 1}` : entries.join('+');
  return leftOut === 0 ? added : `${added}${LEFT_OUT}${leftOut}`;
}

const COUNT = /^[1-9]\d{0,5}$/;

/** Undefined: the cookie names no entry. */
function sayAdded(about: string, say: (names: string) => string): string | undefined {
  const [added = '', leftOut] = about.split(LEFT_OUT);
  const [first = '', ...rest] = added.split('+');
  const [count = ''] = rest;
  const isCounted = rest.length === 1 && COUNT.test(count);
  if (!isEntry(first) || !(isCounted || rest.every(isEntry))) return undefined;
  const names = isCounted
    ? `${first} and ${formatCount(count)} others`
    : new Intl.ListFormat('en').format([first, ...rest]);
  const remark = leftOut !== undefined && COUNT.test(leftOut) ? ` ${formatCount(leftOut)} left out.` : '';
  return `${say(names)}${remark}`;
}

const formatCount = (count: number | string): string => Number(count).toLocaleString('en-US');

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
    hint: html`Enter part of a handle. A full handle, such as <code>@bob.helper</code>, also finds <code>@bob.*</code>.`,
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

/** The beginning of a list, without a search or a mistake that needs attention. */
const isWhole = ({ search, listed, mistakes }: TrustPage<unknown>): boolean =>
  search === '' && listed.trail.length === 0 && mistakes.length === 0;

const SUGGESTED_MAX = 5;

/** Agents that this one has met, each with a button that adds it. */
function renderSuggestions(
  path: string,
  csrf: string,
  counterparts: readonly CounterpartRow[],
  now: number,
): Html | undefined {
  if (counterparts.length === 0) return undefined;
  const rows = counterparts.slice(0, SUGGESTED_MAX).map(({ handle, changed_at: at }) => {
    const add = renderButton({ path, csrf, label: 'Add', about: handle, values: { entry: handle } });
    return renderNamed(handle, html`Latest session ${renderTime(at, now)}`, add);
  });
  return html`<section class="stack-tight" aria-labelledby="suggested"><h2 id="suggested">Recent counterparts</h2>
<p class="soft small">They were in sessions with this agent and aren’t on either of its lists.</p><ul class="rows">${rows}</ul></section>`;
}

/** The field for one entry or a few, and the one for a pasted list. */
function renderAddForms<Item>(
  path: string,
  csrf: string,
  { field, label, verb, most, hint }: TrustList<Item>,
  { search, filled, mistakes, counterparts }: TrustPage<Item>,
): Html {
  const { text, isList, rest } = filled;
  const values = hidden({ csrf, ...keepSearch(search) });
  const line: Field = {
    id: field,
    name: field,
    label,
    hint,
    value: isList ? '' : text,
    autocomplete: 'off',
    isIdentifier: true,
    ...(counterparts.length > 0 && { suggestions: counterparts.map(({ handle }) => handle) }),
  };
  const list = {
    id: LIST,
    name: LIST,
    label: 'Handles',
    value: isList ? text : '',
    rows: 6,
    isCode: true,
    hint: `Up to ${formatCount(most)}, one per line, or separated by spaces or commas. Anything after a # is ignored.`,
  };
  const skip =
    rest > 0 &&
    html`<button class="button plain" name="${SKIP}" value="1">${verb} the other ${rest === 1 ? 'one' : formatCount(rest)}</button>`;
  return html`<form method="post" action="${path}" class="card add" aria-label="${verb} agents">${values}${renderField(line, mistakes)}<div class="row-actions"><button class="button primary">${verb}</button>${!isList && skip}</div></form>
<details class="fold"${isList && html` open`}><summary>Paste a list</summary><form method="post" action="${path}" enctype="multipart/form-data" class="card stack" aria-label="Paste a list">${values}${renderArea(list, mistakes)}<div class="row-actions"><button class="button primary">${verb} all</button>${isList && skip}</div></form></details>`;
}

/** The field of a pasted list. */
const LIST = 'list';
/** The button that leaves out what is not an entry. */
const SKIP = 'skip';

/** One of an agent's two lists: how it is read and extended, and what its page looks like. */
interface TrustList<Item> {
  readonly path: 'allowlist' | 'blocks';
  /** Of the form for one entry or a few. */
  readonly field: 'entry' | 'handle';
  readonly label: string;
  readonly verb: string;
  /** How many entries can be added at once. */
  readonly most: number;
  /** Calls of the general limit that each entry after the first costs. */
  readonly cost: number;
  readonly note: NoteName;
  readonly hint: Html | string;
  readonly removal: { readonly label: string; readonly note: NoteName; readonly about: string };
  sayAdded(names: string): string;
  entryOf(item: Item): string;
  describe(item: Item, now: number): Html | false;
  renderNothing(agent: Agent, baseUrl: string): Html;
  read(visit: Visit, agentId: string, view: Query, selection: EntrySelection): Promise<Listed<Item>>;
  add(visit: Visit, actor: AgentActor, entries: readonly string[], transaction: Transaction): Promise<unknown>;
  remove(visit: Visit, actor: AgentActor, entry: string, transaction: Transaction): Promise<unknown>;
}

/** The page of a list, with the typed text. */
async function showTrustList<Item>(
  visit: Visit,
  list: TrustList<Item>,
  refusal: Refusal = UNREFUSED,
  filled: Filled = EMPTY,
): Promise<DashboardAnswer> {
  const search = readSearch(visit.query);
  const { context, account } = visit;
  const shown = await context.database.read(async (view) => {
    const found = await requireAgent(visit, view);
    return {
      agent: toAgent(context, found),
      listed: await list.read(visit, found.id, view, toSelection(search)),
      counterparts: await listUnlistedCounterparts(view, found.id, account.username, COUNTERPARTS_MAX),
    };
  });
  const { mistakes } = refusal;
  return refused(renderTrustList(visit, list, { ...shown, search, filled, mistakes }), refusal);
}

/** Suggested while someone types. */
const COUNTERPARTS_MAX = 20;

/** The characters of entries. */
const SEARCHABLE = /^[@.*\w-]*$/;
/** No entry contains it. */
const NOWHERE = ' ';

const readSearch = (parameters: Parameters): string =>
  (parameters.one('q') ?? '').trim().toLowerCase().slice(0, HANDLE_MAX_LENGTH);

/** A whole handle also finds the entry for all agents of its owner, because that one concerns it too. */
function toSelection(search: string): EntrySelection {
  const handle = toHandle(search);
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
  field: 'entry',
  label: 'Add to allowlist',
  verb: 'Add',
  most: ALLOWLIST_MAX_ENTRIES,
  cost: 0,
  note: 'listed',
  hint: html`An agent such as <code>@bob.helper</code>, or all agents of one owner: <code>@bob.*</code>. Separate several with spaces.`,
  removal: { label: 'Remove', note: 'unlisted', about: 'the removal of' },
  sayAdded: (names) => `Added ${names} to the allowlist.`,
  entryOf: (entry) => entry,
  describe: (entry) => entry.endsWith('.*') && html`Every agent of ${entry.slice(0, -2)}`,
  renderNothing({ canonical_handle: handle }, baseUrl) {
    const add = aspCommand({ baseUrl, handle }, 'allowlist', 'add', toOwnerGlob(handle));
    return renderEmpty(
      'No one is on the list',
      html`<p>While the list is empty, no agent can start a session with this one, unless it is open to anyone. To let your own agents in again from a terminal:</p>${renderCommand([add])}`,
    );
  },
  read: (visit, agentId, view, selection) =>
    readListed(visit, {
      scope: ['allowlist', agentId],
      start: [''],
      toPosition: (entry) => [entry],
      read: ([after], limit) => listAllowlistPage(view, agentId, after, limit, selection),
    }),
  add: (visit, actor, entries, transaction) =>
    addToAllowlist(visit.context, actor, { path: getAgentPath(visit), body: { entries: [...entries] } }, transaction),
  remove: (visit, actor, entry, transaction) =>
    removeFromAllowlist(visit.context, actor, { path: { ...getAgentPath(visit), entry } }, transaction),
};

/** The entries that someone typed, each once, and what is wrong with the first of the other words. */
interface Typed {
  readonly entries: readonly string[];
  readonly faults: readonly string[];
  readonly faultCount: number;
  /** There are more than can be added at once; the rest was not read. */
  readonly isTooLong: boolean;
}

/** The most faults that a page shows. */
const FAULTS_SHOWN_MAX = 20;

/** A `#` starts a comment, as in the files that `asp allowlist apply` reads. */
function readTyped<Item>(text: string, list: TrustList<Item>, handle: string): Typed {
  const lines = text.split(/\r\n?|\n/);
  const entries = new Set<string>();
  const faults: string[] = [];
  let faultCount = 0;
  for (const [index, line] of lines.entries()) {
    const [listed = ''] = line.split('#', 1);
    for (const word of listed.split(/[\s,;]+/)) {
      if (word === '') continue;
      const isAllowed = isEntry(word) && !(list.path === 'blocks' && isItself({ handle }, word));
      if (isAllowed) entries.add(word);
      else faultCount += 1;
      if (!isAllowed && faultCount <= FAULTS_SHOWN_MAX)
        faults.push(`${lines.length > 1 ? `Line ${index + 1}: ` : ''}${describeFault(word)}`);
      if (entries.size + faultCount > list.most) return { entries: [], faults, faultCount, isTooLong: true };
    }
  }
  return { entries: [...entries], faults, faultCount, isTooLong: false };
}

/** Why a word cannot be an entry of the list. */
function describeFault(word: string): string {
  if (isEntry(word)) return 'An agent cannot block itself.';
  const shown = `“${untrustedText(word)}”`;
  if (isEntry(`@${word}`)) return `${shown} does not begin with @.`;
  return `${shown} ${isEntry(word.toLowerCase()) ? 'has capital letters' : 'is not a handle'}.`;
}

const EXAMPLES = 'Enter handles such as @bob.helper, or @bob.* for all agents of @bob.';

function describeFaults({ faults, faultCount }: Typed): string[] {
  const more = faultCount - faults.length;
  if (faultCount === 1) return faults.map((fault) => `${fault} ${EXAMPLES}`);
  return more > 0 ? [...faults, `And ${formatCount(more)} more.`] : [...faults];
}

/** Adds what someone typed or pasted. If some of it cannot be added, it asks first, and changes nothing. */
async function addTyped<Item>(visit: Visit, form: Parameters, list: TrustList<Item>): Promise<DashboardAnswer> {
  const { context, account, part } = visit;
  const filled = readFilled(form, list);
  const typed = readTyped(filled.text, list, `@${account.username}.${part('name')}`);
  const { entries, faultCount } = typed;
  const refuse = (messages: readonly string[], rest = 0): Promise<DashboardAnswer> => {
    const field = filled.isList ? LIST : list.field;
    return showTrustList(visit, list, mistaken(...messages.map((message) => ({ field, message }))), {
      ...filled,
      rest,
    });
  };
  if (typed.isTooLong) return refuse([`Enter at most ${formatCount(list.most)} handles at once.`]);
  const isSkipping = form.one(SKIP) !== undefined && entries.length > 0;
  if (faultCount > 0 && !isSkipping) return refuse(describeFaults(typed), entries.length);
  if (entries.length === 0) return refuse([EXAMPLES]);
  const weight = list.cost * (entries.length - 1);
  if (weight > 0) await context.limits.takeAll([{ name: 'general', subjectId: account.id, weight }]);
  try {
    return await changeTrustList(
      visit,
      form,
      list,
      list.note,
      (actor, transaction) => list.add(visit, actor, entries, transaction),
      toAdded(entries, faultCount),
    );
  } catch (error) {
    if (!hasCode(error, 'VALIDATION_ERROR')) throw error;
    return refuse([error.message]);
  }
}

function readFilled<Item>(form: Parameters, { field }: TrustList<Item>): Filled {
  const list = form.one(LIST);
  return { text: list ?? form.one(field) ?? '', isList: list !== undefined, rest: 0 };
}

/** The page of a list, and the forms that add to it. */
const toPage = <Item>(list: TrustList<Item>): Omit<PageRow, 'path'> => ({
  show: (visit) => showTrustList(visit, list),
  act: (visit, form) => addTyped(visit, form, list),
  again: (visit, form, refusal) => showTrustList(visit, list, refusal, readFilled(form, list)),
});

/** The form that takes an entry off a list. */
const toRemoval =
  <Item>(list: TrustList<Item>) =>
  (visit: Visit, form: Parameters): Promise<DashboardAnswer> => {
    const entry = form.one(list.field) ?? '';
    const about = isEntry(entry) ? entry : undefined;
    const remove = (actor: AgentActor, transaction: Transaction) => list.remove(visit, actor, entry, transaction);
    return changeTrustList(visit, form, list, list.removal.note, remove, about);
  };

export const ALLOWLIST_PAGE = toPage(ALLOWLIST);

export const actRemoveEntry = toRemoval(ALLOWLIST);

/** Each block costs a call of the general limit, and may take others out of sessions. */
const BLOCKED_AT_ONCE_MAX = 200;

const BLOCKS: TrustList<BlockRow> = {
  path: 'blocks',
  field: 'handle',
  label: 'Block an agent',
  verb: 'Block',
  most: BLOCKED_AT_ONCE_MAX,
  cost: 1,
  note: 'blocked',
  hint: 'Neither agent can invite the other, and the blocked agent leaves the sessions you share. It isn’t notified.',
  removal: { label: 'Unblock', note: 'unblocked', about: 'the unblocking of' },
  sayAdded: (names) => `Blocked ${names}. Any sessions you shared go on without them.`,
  entryOf: ({ blocked_handle: handle }) => handle,
  describe: ({ created_at: at }, now) => html`Blocked ${renderTime(at, now)}`,
  renderNothing: () =>
    renderEmpty('No one is blocked', html`<p>Blocked agents cannot reach this one, even if its policy is open.</p>`),
  read: (visit, agentId, view, selection) =>
    readListed(visit, {
      scope: ['blocks', agentId],
      start: [Number.MAX_SAFE_INTEGER, ''],
      toPosition: ({ created_at: at, blocked_handle: handle }: BlockRow) => [at, handle],
      read: ([createdAt, handle], limit) => listBlockRows(view, agentId, { createdAt, handle }, limit, selection),
    }),
  add: ({ context }, actor, handles, transaction) => blockAgents(context, actor, handles, transaction),
  remove: ({ context }, actor, blocked, transaction) =>
    unblockAgent(context, actor, { path: { blocked } }, transaction),
};

export const BLOCKS_PAGE = toPage(BLOCKS);

export const actUnblock = toRemoval(BLOCKS);
