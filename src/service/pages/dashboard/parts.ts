import { SCOPE_DESCRIPTION, type Scope } from '../../../wire/scope.js';
import { hidden } from '../form.js';
import { type Html, html } from '../html.js';
import { TICK } from '../icon.js';

/** What a form has done, said on the page that follows. */
const NOTE = {
  created: 'The agent was created.',
  saved: 'Your changes were saved.',
  paused: 'The agent is paused. No one can invite it.',
  resumed: 'The agent can be invited again.',
  removed: 'The agent was removed.',
  listed: 'Added to the allowlist.',
  unlisted: 'Removed from the allowlist.',
  blocked: 'Blocked. If you shared sessions, the blocked agent has left them.',
  unblocked: 'The block was lifted.',
  revoked: 'The API credential was revoked, and its connections are closed.',
  'password-changed': 'Your password was changed. All other browsers were signed out.',
  'password-changed-apps':
    'Your password was changed. All other browsers were signed out, and all connected apps were disconnected.',
  'browser-ended': 'The browser was signed out.',
  'browsers-ended': 'All other browsers were signed out.',
  disconnected: 'The app was disconnected. To act for you again, it must ask you.',
} as const;
export type NoteName = keyof typeof NOTE;

export function isNoteName(name: string): name is NoteName {
  return Object.hasOwn(NOTE, name);
}

export function renderNote(name: NoteName | undefined): Html | undefined {
  return name && html`<p class="done" role="status">${TICK}<span>${NOTE[name]}</span></p>`;
}

export interface Heading {
  readonly title: Html | string;
  readonly about?: Html | string;
  /** The one thing to do here. */
  readonly action?: { readonly label: string; readonly path: string };
}

export function renderHeading({ title, about, action }: Heading): Html {
  return html`<div class="head"><div class="stack-tight"><h1>${title}</h1>${about !== undefined && html`<p class="soft">${about}</p>`}</div>
${action !== undefined && html`<a class="button primary" href="${action.path}">${action.label}</a>`}</div>`;
}

/** The way back to the page that this one belongs to. */
export function renderTrail(label: Html | string, path: string): Html {
  return html`<nav class="trail" aria-label="Back"><a href="${path}">${label}</a></nav>`;
}

/** Which service a command is for, and as which agent it acts. */
export interface CommandTarget {
  readonly baseUrl: string;
  readonly handle?: string | undefined;
}

/** A command that does on this service, as this agent, what it says; it runs as it is printed. */
export function aspCommand({ baseUrl, handle }: CommandTarget, ...args: readonly string[]): string {
  const identity = handle === undefined ? [] : ['--as', handle];
  return ['asp', '-p', baseUrl, ...identity, ...args].map(quoteForShell).join(' ');
}

function quoteForShell(arg: string): string {
  return /^[\w@%+=:,./-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", "'\\''")}'`;
}

/** Something to type in a terminal. One click takes all of it. */
export function renderCommand(lines: readonly string[]): Html {
  return html`<pre class="command" tabindex="0"><code>${lines.map(renderLine)}</code></pre>`;
}

/** No browser breaks a line behind the hyphens of an option. */
function renderLine(line: string): Html {
  const words = line
    .split(/(?<= )/)
    .map((word) => (word.startsWith('-') ? html`<span class="option">${word}</span>` : word));
  return html`<span class="line">${words}</span>`;
}

export interface SmallForm {
  readonly path: string;
  readonly csrf: string;
  readonly label: string;
  /** What the button is about, for those who hear it without what stands around it. */
  readonly about?: Html | string;
  readonly values?: Readonly<Record<string, string>>;
  readonly kind?: 'plain' | 'danger' | 'primary';
}

/** One button that does one thing. */
export function renderButton({ path, csrf, label, about, values = {}, kind = 'plain' }: SmallForm): Html {
  return html`<form method="post" action="${path}">${hidden({ ...values, csrf })}<button class="button ${kind} small-button">${label}${about !== undefined && html`<span class="hidden-label"> ${about}</span>`}</button></form>`;
}

export interface Question {
  readonly title: Html | string;
  readonly consequences: readonly (Html | string)[];
  readonly path: string;
  readonly csrf: string;
  readonly label: string;
  /** The page from which somebody came. */
  readonly back: { readonly label: Html | string; readonly path: string };
}

/** Asks before something that cannot be undone. */
export function renderQuestion({ title, consequences, path, csrf, label, back }: Question): Html {
  return html`<div class="narrow stack">${renderTrail(back.label, back.path)}<h1>${title}</h1>
<form method="post" action="${path}" class="card stack">${hidden({ csrf })}
<ul class="points">${consequences.map((one) => html`<li>${one}</li>`)}</ul>
<div class="row-actions"><button class="button danger">${label}</button><a class="button plain" href="${back.path}">Cancel</a></div>
</form></div>`;
}

/** What scopes allow, in words. */
export function renderScopes(scopes: readonly Scope[]): Html {
  return html`<ul class="ticks">${scopes.map((scope) => html`<li>${TICK}<span>${SCOPE_DESCRIPTION[scope]}</span></li>`)}</ul>`;
}
