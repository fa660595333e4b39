import { type Field, hidden, type Mistake, renderField, renderProblem, renderTick } from '../form.js';
import { type Html, html } from '../html.js';
import type { View } from './frame.js';
import { type Listed, renderList } from './list.js';
import { type NoteName, renderButton, renderHeading, renderNote, renderTrail } from './parts.js';
import { renderTime } from './time.js';

const PATH = '/dashboard/settings';

/** A browser in which somebody is signed in. */
export interface ShownBrowser {
  readonly id: string;
  readonly name: string;
  readonly address: string;
  readonly signedInAt: number;
  readonly isThisOne: boolean;
}

export interface SettingsPage {
  readonly username: string;
  readonly hasPassword: boolean;
  /** The form that changes the password, as it was sent. */
  readonly form: { readonly mistakes: readonly Mistake[]; readonly disconnectsApps: boolean };
  readonly browsers: Listed<ShownBrowser>;
  readonly csrf: string;
  readonly note: NoteName | undefined;
  readonly now: number;
}

export function renderSettings(page: SettingsPage): View {
  const { mistakes } = page.form;
  const main = html`<div class="stack measure">${renderHeading({ title: 'Settings' })}${renderNote(page.note)}${renderProblem('There is a problem', mistakes)}
${page.hasPassword ? renderPasswordForm(page) : NO_PASSWORD}
${renderBrowsers(page)}
${renderExport(page)}
<section class="card stack-tight" aria-labelledby="delete"><h2 id="delete">Delete account</h2>
<p class="soft">Removes your agents and signs everything out. This cannot be undone.</p>
<p class="small"><a class="aside-link quiet-danger" href="${PATH}/delete">Delete your account…</a></p></section></div>`;
  return { title: mistakes.length > 0 ? 'Problem: Settings' : 'Settings', section: undefined, main };
}

const NO_PASSWORD = html`<section class="card stack-tight" aria-labelledby="password"><h2 id="password">Password</h2>
<p class="soft">This account has no password. Run <code>asp serve open</code> on the machine of the service to sign in.</p></section>`;

function renderPasswordForm({ username, form: { mistakes, disconnectsApps }, csrf }: SettingsPage): Html {
  const current = {
    id: 'current-password',
    name: 'current_password',
    label: 'Current password',
    autocomplete: 'current-password',
  };
  const fresh = {
    id: 'new-password',
    name: 'new_password',
    label: 'New password',
    autocomplete: 'new-password',
    minLength: 8,
    hint: 'At least 8 characters.',
  };
  const fields = [current, fresh].map((field) =>
    renderField({ ...field, kind: 'password', maxLength: 200 } as const, mistakes),
  );
  // Password managers read from the first field whose password it is.
  return html`<form method="post" action="${PATH}" class="card stack" aria-labelledby="password">${hidden({ csrf })}<h2 id="password">Password</h2>
<input type="text" name="username" value="${username}" autocomplete="username" hidden>
${fields}
<div>${renderTick({ id: 'disconnect-apps', name: 'disconnect_apps', value: 'true', label: 'Disconnect all connected apps', isTicked: disconnectsApps })}
<p class="soft small">All other browsers are signed out in any case. API credentials keep working.</p></div>
<div class="row-actions"><button class="button primary">Change password</button></div></form>`;
}

function renderBrowsers({ browsers, csrf, now }: SettingsPage): Html {
  const hasOthers = browsers.next !== null || browsers.items.some(({ isThisOne }) => !isThisOne);
  const endOthers = hasOthers && renderButton({ path: `${PATH}/browsers/end-others`, csrf, label: 'Sign out others' });
  return html`<section class="stack-tight" aria-labelledby="browsers"><div class="between"><h2 id="browsers">Signed-in browsers</h2>${endOthers}</div>
${renderList(PATH, browsers, (one) => renderBrowser(one, csrf, now), html``)}</section>`;
}

function renderBrowser({ id, name, address, signedInAt, isThisOne }: ShownBrowser, csrf: string, now: number): Html {
  const end = renderButton({
    path: `${PATH}/browsers/end`,
    csrf,
    label: 'Sign out',
    about: html`${name}, ${address}`,
    values: { id },
  });
  return html`<li class="row"><div class="who grow"><b>${name}</b><span class="soft small">Signed in ${renderTime(signedInAt, now)} from <span class="mono wrap">${address}</span></span></div>
${isThisOne ? html`<span class="badge good">This browser</span>` : end}</li>`;
}

function renderExport({ csrf }: SettingsPage): Html {
  return html`<section class="card stack-tight" aria-labelledby="export"><h2 id="export">Your data</h2>
<p class="soft">One JSON file with your agents, API credentials (without their secrets), connected apps, and all sessions and messages that your agents can see. Attached files are not in it.</p>
<div class="row-actions">${renderButton({ path: `${PATH}/export`, csrf, label: 'Download your data' })}</div></section>`;
}

export interface DeleteAccountPage {
  readonly username: string;
  readonly hasPassword: boolean;
  readonly csrf: string;
  readonly mistakes: readonly Mistake[];
  readonly typed: string;
}

export function renderDeleteAccount({ username, hasPassword, csrf, mistakes, typed }: DeleteAccountPage): View {
  const name: Field = {
    id: 'username',
    name: 'username',
    label: html`Type your username, <span class="mono wrap">${username}</span>, to confirm`,
    value: typed,
    autocomplete: 'off',
    maxLength: 65,
    isIdentifier: true,
  };
  const password: Field = {
    id: 'password',
    name: 'password',
    label: 'Password',
    kind: 'password',
    autocomplete: 'current-password',
    maxLength: 200,
  };
  const title = 'Delete your account?';
  const main = html`<div class="narrow stack">${renderTrail('Settings', PATH)}<h1>${title}</h1>
${renderProblem('There is a problem', mistakes)}
<form method="post" action="${PATH}/delete" class="card stack">${hidden({ csrf })}
<ul class="points"><li>Your agents leave their sessions, and no one can reach them any more.</li>
<li>All browsers and connected apps are signed out, and API credentials stop working.</li>
<li>Messages that your agents sent stay with those who received them.</li>
<li>Your username and the handles of your agents can’t be used again. This cannot be undone.</li></ul>
<p class="soft small">To keep a copy, <a href="${PATH}#export">download your data</a> first.</p>
${(hasPassword ? [name, password] : [name]).map((field) => renderField(field, mistakes))}
<div class="row-actions"><button class="button danger">Delete account</button><a class="button plain" href="${PATH}">Cancel</a></div>
</form></div>`;
  return { title: mistakes.length > 0 ? `Problem: ${title}` : title, section: undefined, main };
}
