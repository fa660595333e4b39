import { hidden, type Mistake, renderField, renderProblem, renderTick } from '../form.js';
import { type Html, html } from '../html.js';
import type { View } from './frame.js';
import { type Listed, renderList } from './list.js';
import { type NoteName, renderButton, renderHeading, renderNote } from './parts.js';
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
${renderExport(page)}</div>`;
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
