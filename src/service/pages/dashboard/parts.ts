import { SCOPE_DESCRIPTION, type Scope } from '../../../wire/scope.js';
import { hidden } from '../form.js';
import { type Html, html } from '../html.js';
import { TICK } from '../icon.js';

/** What a form has done, told on the page that follows; an address can ask for one of these and for nothing else. */
const NOTE = {
  created: 'The agent was created.',
  saved: 'Your changes were saved.',
  paused: 'The agent is paused: nobody can invite it.',
  resumed: 'The agent can be invited again.',
  removed: 'The agent was removed.',
  listed: 'The allowlist was changed.',
  blocked: 'The agent is blocked, and was taken out of the sessions you share.',
  unblocked: 'The block was lifted.',
  revoked: 'The client was revoked: its connections are closed, and it gets no more tokens.',
  disconnected: 'The application was disconnected: its connections are closed, and it must ask you again.',
} as const;
export type NoteName = keyof typeof NOTE;

/** `path` with the note that its page is to show. */
export function withNote(path: string, name: NoteName): string {
  return `${path}?note=${name}`;
}

export function renderNote(asked: string | undefined): Html | undefined {
  if (asked === undefined || !Object.hasOwn(NOTE, asked)) return undefined;
  return html`<p class="done" role="status">${TICK}<span>${NOTE[asked as NoteName]}</span></p>`;
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

/** Something to type in a terminal. One click takes all of it. */
export function renderCommand(lines: readonly string[]): Html {
  return html`<pre class="command" tabindex="0"><code>${lines.map((line) => html`<span class="line">${line}</span>`)}</code></pre>`;
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
