import { quoteArgs } from '../../../kit/format.js';
import { SCOPE_DESCRIPTION, type Scope } from '../../../wire/scope.js';
import { PATH } from '../../oauth/metadata.js';
import type { AccountRow } from '../../store/accounts.js';
import { FRAME_SCRIPT, READER_SCRIPT } from '../assets.js';
import { hidden } from '../form.js';
import { CAUTION, GLASS, type Html, html, MARK, renderFace, renderName, TICK } from '../html.js';
import { type Allowance, documentHeaders, type Look, renderDocument, renderScript, toPolicyHash } from '../layout.js';
import { STYLESHEET_PATH } from './stylesheet.js';

const STYLE_LINK = html`<link rel="stylesheet" href="${STYLESHEET_PATH}">`;
/** Unlike the pages of a sign-in, which an app may open in a popup, these have nothing to say to one that opened them. */
const headersWith = (allowed: Allowance): Record<string, string> => ({
  ...documentHeaders("'self'", allowed),
  'cross-origin-opener-policy': 'same-origin',
});

/** The sections of the dashboard, in the order of its navigation. The key G and then `key` go to one. */
const SECTIONS = {
  needs: { label: 'Needs you', path: '/dashboard/needs-you', key: 'n' },
  agents: { label: 'Agents', path: '/dashboard/agents', key: 'a' },
  sessions: { label: 'Sessions', path: '/dashboard/sessions', key: 's' },
  clients: { label: 'Credentials', path: '/dashboard/clients', key: 'c' },
  applications: { label: 'Apps', path: '/dashboard/applications', key: 'p' },
} as const;
export const OPERATOR_AREA = '/dashboard/operator';
export const HELP_PATH = '/dashboard/help';
/** The page that finds others by their names. */
export const GO_PATH = '/dashboard/go';
/** The sections in the menu of the account. */
const MENU = {
  settings: { label: 'Settings', path: '/dashboard/settings' },
  /** Exists only for operators. */
  operator: { label: 'Operator', path: OPERATOR_AREA },
  help: { label: 'Help', path: HELP_PATH },
} as const;
type SectionLink = (typeof SECTIONS)[keyof typeof SECTIONS];
type Section = keyof typeof SECTIONS | keyof typeof MENU | 'search';

/** The form field that leads back to the Needs you page instead of the form's own page. */
export const FROM_NEEDS = { from: 'needs-you' } as const;
export const NEEDS_PATH = SECTIONS.needs.path;
/** The same for the page with the traffic of all agents. */
export const FROM_TRAFFIC = { from: 'traffic' } as const;
export const TRAFFIC_PATH = '/dashboard/traffic';

/** The highest count shown. */
const COUNTED_MAX = 99;

/** The content of one dashboard page within the frame. */
export interface View {
  /** For the browser's tab; a problem comes first, so that screen readers announce it first. */
  readonly title: string;
  /** Undefined: the address is unknown, or the page only says why something was refused. */
  readonly section: Section | undefined;
  readonly main: Html;
  /** The page's own script. */
  readonly script?: string;
  /** Whether it loads pictures from this service, in addition to inline ones. */
  readonly hasPictures?: boolean;
  /** Whether its script may start the service worker. */
  readonly hasWorker?: boolean;
}

export interface Frame {
  readonly look: Look;
  /** The version of the program that runs the service, if known. */
  readonly version: string | undefined;
  readonly account: AccountRow;
  readonly csrf: string;
  readonly now: number;
  /** The number of entries on the Needs you page. */
  readonly needsCount: number;
  /** Whether this browser gets push notifications. */
  readonly isPushed: boolean;
}

/** A complete page of the dashboard. */
export function renderFrame({ title, section, main, script }: View, frame: Frame): string {
  const { look } = frame;
  const body = html`<body>
<a class="skip" href="#main">Skip to content</a>
<header class="bar" data-now="${frame.now}"${frame.isPushed && html` data-pushed`}><div class="bar-inside">
<a class="brand" href="/dashboard">${MARK}<strong>${look.name}</strong></a>
<nav aria-label="Dashboard"><ul>${Object.entries(SECTIONS).map(([name, link]) => renderSection(link, name === section, name === 'needs' ? frame.needsCount : 0))}</ul></nav>
<a class="find" href="/dashboard/search"${section === 'search' && html` aria-current="page"`}>${GLASS}<span>Search</span></a>
${renderAccountMenu(frame, section)}
</div></header>
<main id="main" class="page" tabindex="-1">${main}${script !== undefined && renderScript(script)}</main>
<footer class="foot"><span class="mono">${look.host}</span>${frame.version !== undefined && html`<span>asp ${frame.version}</span>`}</footer>
${look.preferences.hasShortcuts && html`${OVERVIEW}${PALETTE}`}
</body>`;
  const counted = frame.needsCount === 0 ? title : `(${formatCount(frame.needsCount)}) ${title}`;
  return renderDocument({ look, title: counted, style: STYLE_LINK, script: FRAME_SCRIPT, body });
}

/** A page without the dashboard around it, for someone who may not be signed in. It says whose service it is. */
export function renderReaderPage(
  { title, main }: Pick<View, 'title' | 'main'>,
  { look, now }: Pick<Frame, 'look' | 'now'>,
): string {
  const body = html`<body>
<header class="bar" data-now="${now}"><div class="bar-inside"><span class="brand">${MARK}<strong>${look.name}</strong></span></div></header>
<main id="main" class="page">${main}</main>
<footer class="foot"><span class="mono">${look.host}</span></footer>
</body>`;
  return renderDocument({ look, title, style: STYLE_LINK, script: READER_SCRIPT, body });
}

export const readerHeaders = (): Record<string, string> =>
  headersWith({
    'script-src': [toPolicyHash(READER_SCRIPT)],
    'img-src': ['data:', "'self'"],
    'form-action': ["'none'"],
  });

const formatCount = (count: number): string => (count > COUNTED_MAX ? `${COUNTED_MAX}+` : String(count));

function renderSection({ label, path, key }: SectionLink, isCurrent: boolean, count: number): Html {
  const badge =
    count > 0 && html` <span class="count">${formatCount(count)}<span class="hidden-label"> waiting</span></span>`;
  return html`<li><a href="${path}" data-go="${key}"${isCurrent && html` aria-current="page"`}><span class="tab" data-label="${label}">${label}</span>${badge}</a></li>`;
}

/** What keys do, in the scripts `keys.js`, `palette.js` and, for replies, `transcript.js`. */
const SHORTCUTS: readonly (readonly [effect: string, ...keys: string[]])[] = [
  ['Go to a page, agent or session', 'Ctrl K'],
  ['Search', '/'],
  ['Next row or message', 'j'],
  ['Previous row or message', 'k'],
  ['Reply to the focused message', 'r'],
  ['Write a message', 'c'],
  ...Object.values(SECTIONS).map(({ label, key }) => [`Go to ${label}`, 'g', key] as const),
  ['Show or close this list', '?'],
];

const SHORTCUT_LIST = html`<dl class="shortcuts">${SHORTCUTS.map(([effect, first, second]) => html`<div><dt>${effect}</dt><dd><kbd>${first}</kbd>${second !== undefined && html` then <kbd>${second}</kbd>`}</dd></div>`)}</dl>
<p class="soft small">On a Mac, press <kbd>⌘ K</kbd> instead of <kbd>Ctrl K</kbd>. You can turn these off in the <a href="/dashboard/settings#preferences">settings</a>.</p>`;

/** The script `keys.js` shows it. */
const OVERVIEW = html`<dialog class="overview" id="keys" aria-labelledby="keys-title"><div class="stack-tight"><div class="between"><h2 id="keys-title">Keyboard shortcuts</h2><button type="button" class="button plain small-button">Close</button></div>${SHORTCUT_LIST}</div></dialog>`;

/** The script `palette.js` shows it. */
const PALETTE = html`<dialog class="overview palette" id="palette" data-places="${GO_PATH}" aria-label="Go to"><form method="get" action="/dashboard/search"><input type="text" name="q" role="combobox" aria-label="Go to a page, agent or session" aria-autocomplete="list" aria-expanded="false" aria-controls="palette-list" placeholder="Go to a page, agent or session" autocomplete="off" autofocus><ul id="palette-list" role="listbox" aria-label="Places"></ul><p class="soft small" role="status"></p></form></dialog>`;

/** The sections that an account can open, and where they are. */
export function listPlaces(account: Pick<AccountRow, 'is_operator'>): readonly { label: string; path: string }[] {
  const menu = Object.entries(MENU).filter(([key]) => key !== 'operator' || account.is_operator === 1);
  return [...Object.values(SECTIONS), ...menu.map(([, place]) => place)];
}

function renderAccountMenu({ account, csrf }: Frame, section: Section | undefined): Html {
  const { username, display_name: name } = account;
  const links = Object.entries(MENU)
    .filter(([key]) => key !== 'operator' || account.is_operator === 1)
    .map(
      ([key, { label, path }]) =>
        html`<a class="menu-item" href="${path}"${key === section && html` aria-current="page"`}>${label}</a>`,
    );
  return html`<button class="account" type="button" popovertarget="account-menu">${renderFace(name, 'small')}<span class="account-name"><span class="hidden-label">Account: </span><bdi>${username}</bdi></span></button>
<div class="menu" id="account-menu" popover><p class="who"><b>${renderName(name, `@${username}`)}</b><span class="mono">@${username}</span></p>
${links}
<form method="post" action="${PATH.signOut}">${hidden({ csrf })}<button class="menu-item">Sign out</button></form></div>`;
}

export function frameHeaders({ script, hasPictures = false, hasWorker = false }: View): Record<string, string> {
  const scripts = script === undefined ? [FRAME_SCRIPT] : [FRAME_SCRIPT, script];
  return headersWith({
    'script-src': scripts.map(toPolicyHash),
    'connect-src': ["'self'"],
    ...(hasPictures && { 'img-src': ['data:', "'self'"] }),
    ...(hasWorker && { 'worker-src': ["'self'"] }),
  });
}

/** A part of a list, and the link to the next. */
export interface Listed<Item> {
  readonly items: readonly Item[];
  /** The cursor of the next part; null: this is the last one. */
  readonly next: string | null;
  /** The cursors of the parts on the way here, and of this one; empty for the first part. */
  readonly trail: readonly string[];
}

/** The list was always empty, or everything in it was removed. */
export function isEmpty({ items, trail }: Listed<unknown>): boolean {
  return items.length === 0 && trail.length === 0;
}

/** The items as rows, or a text if there are none; `path` is the list's, with its filters. */
export function renderList<Item>(
  path: string,
  listed: Listed<Item>,
  renderRow: (item: Item) => Html,
  nothing: Html,
): Html {
  if (isEmpty(listed)) return nothing;
  return html`<ul class="rows">${listed.items.map(renderRow)}</ul>${renderPager(path, listed)}`;
}

/** How many parts back a reader can go one by one. */
const TRAIL_MAX = 12;
/** Begins a trail whose earlier cursors were dropped. */
const FORGOTTEN = '';

function renderPager(path: string, { next, trail }: Listed<unknown>): Html | undefined {
  if (next === null && trail.length === 0) return undefined;
  const mark = path.includes('?') ? '&' : '?';
  const partAt = (cursors: readonly string[]): string =>
    cursors.length === 0 ? path : `${path}${mark}after=${encodeURIComponent(cursors.join('.'))}`;
  const before = trail.slice(0, -1);
  const hasBefore = trail.length > 0 && before.at(-1) !== FORGOTTEN;
  const after = next === null ? [] : [...trail, next];
  const kept = after.length <= TRAIL_MAX ? after : [FORGOTTEN, ...after.slice(1 - TRAIL_MAX)];
  return html`<nav class="pager" aria-label="Pages">${trail.length > 1 && html`<a class="button plain" href="${path}">First page</a>`}${hasBefore && html`<a class="button plain" rel="prev" href="${partAt(before)}">Previous page</a>`}${next !== null && html`<a class="button plain" rel="next" href="${partAt(kept)}">Next page</a>`}</nav>`;
}

/** For an empty list: says what belongs in it, and how to add something. */
export function renderEmpty(title: string, body: Html): Html {
  return html`<section class="empty"><h2>${title}</h2>${body}</section>`;
}

/** The result of a form, shown on the next page. */
const NOTE = {
  created: 'The agent was created.',
  saved: 'Your changes were saved.',
  'picture-changed': 'The picture was changed.',
  'picture-removed': 'The picture was removed.',
  paused: 'The agent is paused. No one can invite it.',
  resumed: 'The agent can be invited again.',
  removed: 'The agent was removed.',
  'webhook-set': 'The webhook was set. A test is on its way.',
  'webhook-removed': 'The webhook was removed. Messages are kept until the agent connects.',
  listed: 'Added to the allowlist.',
  unlisted: 'Removed from the allowlist.',
  blocked: 'Blocked. If you shared sessions, the blocked agent has left them.',
  unblocked: 'The block was lifted.',
  dismissed: 'Dismissed. It appears here again the next time the agent knocks.',
  restored: 'Back on the list.',
  revoked: 'The API credential was revoked, and its connections are closed.',
  'password-changed': 'Your password was changed. All other browsers were signed out.',
  'password-changed-apps':
    'Your password was changed. All other browsers were signed out, and all connected apps were disconnected.',
  'passkey-added': 'The passkey was added. You can sign in with it.',
  'passkey-removed': 'The passkey was removed. It can no longer sign in here.',
  'push-on': 'Push notifications are on in this browser.',
  'push-tested':
    'A test notification is on its way. If it doesn’t appear within a minute, check the notification settings of that browser and of its system.',
  'push-off': 'Push notifications are off in that browser.',
  'browser-ended': 'The browser was signed out.',
  'browsers-ended': 'All other browsers were signed out.',
  started: 'The session was started.',
  'partly-started': 'The session was started. Some agents can’t be invited.',
  joined: 'Your agent has joined the session.',
  declined: 'The invitation was declined.',
  answered: 'Your answer was sent.',
  'question-dismissed': 'The question was dismissed. It can still be answered in its session.',
  'unanswered-dismissed': 'Dismissed. It appears here again the next time the agent stops.',
  invited: 'The agents were invited.',
  'partly-invited': 'Some agents were invited. The others can’t be invited, or are already in the session.',
  'not-invited': 'No one was invited. These agents can’t be invited, or are already in the session.',
  left: 'Your agent has left the session.',
  ended: 'The session has ended.',
  reopened: 'The session is open again.',
  'signed-out': 'Nothing was changed: you were signed out. You can try again now.',
  'too-late': 'Nothing was changed: the session changed in the meantime.',
  'all-disconnected': 'All apps were disconnected. Each must ask you before it can act for you again.',
  'account-suspended': 'The account was suspended.',
  'account-resumed': 'The account was resumed. Its owner must sign in again.',
  'account-trusted': 'The account is trusted.',
  'account-standard': 'The account is no longer trusted.',
  'account-removed': 'The account was removed.',
  'account-erased': 'The account was removed, and its data was erased.',
  'invitation-revoked': 'The invitation was revoked. If someone used it, their account stays.',
  'keys-rotated': 'A new signing key was published. It takes over soon.',
  'keys-waiting': 'Nothing was changed: a new key is already published and takes over soon.',
  'app-disconnected': 'The app was disconnected.',
  'link-revoked': 'The link was revoked. It no longer works.',
  disconnected: 'The app was disconnected. It must ask you before it can act for you again.',
} as const;
export type NoteName = keyof typeof NOTE;

/** Notes that something was not done, or not all of it. */
const WARNINGS: ReadonlySet<NoteName> = new Set([
  'partly-started',
  'partly-invited',
  'not-invited',
  'signed-out',
  'too-late',
  'keys-waiting',
]);

export function isNoteName(name: string): name is NoteName {
  return Object.hasOwn(NOTE, name);
}

/** With a button to undo it, if possible; `text` says more than the note's own words. */
export function renderNote(name: NoteName | undefined, undo?: SmallForm, text?: string): Html | undefined {
  const [kind, icon] = name !== undefined && WARNINGS.has(name) ? ['notice', CAUTION] : ['done', TICK];
  const note = name && html`<p class="${kind}" role="status">${icon}<span>${text ?? NOTE[name]}</span></p>`;
  return note && undo ? html`<div class="undo">${note}${renderButton(undo)}</div>` : note;
}

export interface Heading {
  readonly title: Html | string;
  readonly about?: Html | string;
  /** The main action of the page. */
  readonly action?: { readonly label: string; readonly path: string };
}

export function renderHeading({ title, about, action }: Heading): Html {
  return html`<div class="head"><div class="stack-tight"><h1>${title}</h1>${about !== undefined && html`<p class="soft">${about}</p>`}</div>
${action !== undefined && html`<a class="button primary" href="${action.path}">${action.label}</a>`}</div>`;
}

/** The link back to the parent page. */
export function renderTrail(label: Html | string, path: string): Html {
  return html`<nav class="trail" aria-label="Back"><a href="${path}">${label}</a></nav>`;
}

/** The service and agent of a command. */
export interface CommandTarget {
  readonly baseUrl: string;
  readonly handle?: string | undefined;
}

/** A command for this service and agent; it runs exactly as printed. */
export function aspCommand({ baseUrl, handle }: CommandTarget, ...args: readonly string[]): string {
  const identity = handle === undefined ? [] : ['--as', handle];
  return quoteArgs(['asp', '-p', baseUrl, ...identity, ...args]);
}

/** A command for a terminal. One click selects all of it, another copies it. */
export function renderCommand(lines: readonly string[]): Html {
  return renderCopyable(html`<pre class="command" tabindex="0"><code>${lines.map(renderLine)}</code></pre>`);
}

/** With a button that copies its `code`. */
export function renderCopyable(shown: Html): Html {
  return html`<div class="code beside">${shown}<button type="button" class="copy">Copy</button></div>`;
}

/** Keeps browsers from breaking a line after the hyphens of an option. */
function renderLine(line: string): Html {
  const label = line
    .split(/(?<= )/)
    .map((word) => (word.startsWith('-') ? html`<span class="option">${word}</span>` : word));
  return html`<span class="line">${label}</span>`;
}

export interface SmallForm {
  readonly path: string;
  readonly csrf: string;
  readonly label: Html | string;
  /** The object of the button, for screen readers. */
  readonly about?: Html | string;
  readonly values?: Readonly<Record<string, string>>;
  readonly kind?: 'plain' | 'danger' | 'primary';
}

/** One button with one action. */
export function renderButton({ path, csrf, label, about, values = {}, kind = 'plain' }: SmallForm): Html {
  return html`<form method="post" action="${path}">${hidden({ ...values, csrf })}<button class="button ${kind} small-button">${label}${about !== undefined && html`<span class="hidden-label"> ${about}</span>`}</button></form>`;
}

export interface Question {
  readonly title: Html | string;
  readonly consequences: readonly (Html | string)[];
  readonly path: string;
  readonly csrf: string;
  readonly label: string;
  /** More of the form, before its buttons. */
  readonly fields?: Html;
  /** The previous page. */
  readonly back: { readonly label: Html | string; readonly path: string };
}

/** Asks for confirmation of an action that cannot be undone. */
export function renderQuestion({ title, consequences, path, csrf, label, fields, back }: Question): Html {
  return html`<div class="narrow stack">${renderTrail(back.label, back.path)}<h1>${title}</h1>
<form method="post" action="${path}" class="card stack">${hidden({ csrf })}
<ul class="points">${consequences.map((one) => html`<li>${one}</li>`)}</ul>
${fields}<div class="row-actions"><button class="button danger">${label}</button><a class="button plain" href="${back.path}">Cancel</a></div>
</form></div>`;
}

const HELP = {
  'Every command, by topic': 'help',
  'What an error means, and how to fix it': 'explain NOT_FOUND',
  'Whether this machine can reach the service, and what to fix': 'doctor',
} as const;

/** The help comes from the program itself, so that it matches the reader's version. */
export function renderHelp(baseUrl: string): View {
  const rows = Object.entries(HELP).map(
    ([about, name]) =>
      html`<section class="card stack-tight"><h2>${about}</h2>${renderCommand([name === 'doctor' ? aspCommand({ baseUrl }, name) : `asp ${name}`])}</section>`,
  );
  const heading = renderHeading({ title: 'Help', about: 'Run these commands in a terminal.' });
  return {
    title: 'Help',
    section: 'help',
    main: html`<div class="stack measure">${heading}${rows}<section class="card stack-tight" aria-labelledby="shortcuts"><h2 id="shortcuts">Keyboard shortcuts on these pages</h2>${SHORTCUT_LIST}</section></div>`,
  };
}

/** A description of the scopes. */
export function renderScopes(scopes: readonly Scope[]): Html {
  return html`<ul class="ticks">${scopes.map((scope) => html`<li>${TICK}<span>${SCOPE_DESCRIPTION[scope]}</span></li>`)}</ul>`;
}
