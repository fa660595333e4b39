import { renameAccount } from '../../agents/agents.js';
import { ServiceError } from '../../core/errors.js';
import { removeAccount } from '../../messaging/remove-agent.js';
import type { Parameters } from '../../oauth/parameters.js';
import { findAccount } from '../../store/accounts.js';
import {
  type AccountSessionRow,
  deleteAccountSessionOf,
  deleteAccountSessions,
  listAccountSessions,
} from '../../store/browser-sessions.js';
import { listPasskeys, type PasskeyRow } from '../../store/passkeys.js';
import { PUSH_SCRIPT } from '../assets.js';
import { type Field, hidden, type Mistake, renderField, renderMistakes, renderTick } from '../form.js';
import { type Html, html } from '../html.js';
import { renderDeletedPage } from '../layout.js';
import { findPasskeyPlace, PASSKEYS_MAX } from '../passkeys.js';
import { findPasswordMistake, hashPassword, setPassword } from '../passwords.js';
import { CURRENT_PASSWORD, DISPLAY_NAME_MAX_LENGTH } from '../sign-in.js';
import { renderTime } from '../time.js';
import {
  type Listed,
  type NoteName,
  renderButton,
  renderHeading,
  renderList,
  renderNote,
  renderTrail,
  type View,
} from './frame.js';
import { renderPasskeys } from './passkeys.js';
import { type PushSection, readPush, renderPush } from './push-settings.js';
import {
  type DashboardAnswer,
  mistaken,
  movedWithNote,
  page,
  type Refusal,
  readListed,
  refused,
  type Visit,
} from './visit.js';

const PATH = '/dashboard/settings';

/** A signed-in browser. */
interface ShownBrowser {
  readonly id: string;
  readonly name: string;
  readonly address: string;
  readonly signedInAt: number;
  readonly isThisOne: boolean;
}

interface SettingsPage {
  readonly username: string;
  /** As typed or as stored. */
  readonly displayName: string;
  readonly hasPassword: boolean;
  /** The submitted password form, or the mistakes of the other one. */
  readonly form: { readonly mistakes: readonly Mistake[]; readonly disconnectsApps: boolean };
  readonly passkeys: readonly PasskeyRow[];
  /** Why there can be no passkeys; undefined: there can. */
  readonly noPasskeys: Html | undefined;
  readonly browsers: Listed<ShownBrowser>;
  /** Undefined: this service sends no push notifications. */
  readonly push: PushSection | undefined;
  readonly csrf: string;
  readonly note: NoteName | undefined;
  readonly now: number;
}

function renderSettings(page: SettingsPage): View {
  const { mistakes } = page.form;
  const main = html`<div class="stack measure">${renderHeading({ title: 'Settings' })}${renderNote(page.note)}${renderMistakes(mistakes)}
${renderNameForm(page)}
${page.hasPassword ? renderPasswordForm(page) : NO_PASSWORD}
${renderPasskeys(page)}
${renderBrowsers(page)}
${page.push && renderPush(page.push, page)}
<section class="card stack-tight" aria-labelledby="activity"><h2 id="activity">Activity</h2>
<p class="soft">Sign-ins, and changes to your account, your agents and who can act for them.</p>
<p class="small"><a class="aside-link" href="${PATH}/activity">See your account activity</a></p></section>
${renderExport(page)}
<section class="card stack-tight" aria-labelledby="delete"><h2 id="delete">Delete account</h2>
<p class="soft">This removes your agents and signs you out everywhere. It cannot be undone.</p>
<p class="small"><a class="aside-link quiet-danger" href="${PATH}/delete">Delete your account…</a></p></section></div>`;
  return {
    title: mistakes.length > 0 ? 'Problem: Settings' : 'Settings',
    section: undefined,
    main,
    ...(page.push !== undefined && { script: PUSH_SCRIPT, hasWorker: true }),
  };
}

const NO_PASSWORD = html`<section class="card stack-tight" aria-labelledby="password"><h2 id="password">Password</h2>
<p class="soft">This account has no password. Run <code>asp serve open</code> on the machine of the service to sign in.</p></section>`;

function renderNameForm({ displayName, form: { mistakes }, csrf }: SettingsPage): Html {
  const name: Field = {
    id: 'display-name',
    name: 'display_name',
    label: 'Your name',
    value: displayName,
    hint: 'Others see it next to your public agents.',
    autocomplete: 'name',
    maxLength: DISPLAY_NAME_MAX_LENGTH,
  };
  return html`<form method="post" action="${PATH}/name" class="card stack" aria-label="Name">${hidden({ csrf })}${renderField(name, mistakes)}
<div class="row-actions"><button class="button plain">Change name</button></div></form>`;
}

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
  // Password managers read the account from the first field.
  return html`<form method="post" action="${PATH}" class="card stack" aria-labelledby="password">${hidden({ csrf })}<h2 id="password">Password</h2>
<input type="text" name="username" value="${username}" autocomplete="username" hidden>
${fields}
<div>${renderTick({ id: 'disconnect-apps', name: 'disconnect_apps', value: 'true', label: 'Disconnect all connected apps', isTicked: disconnectsApps })}
<p class="soft small">All other browsers are always signed out. API credentials keep working.</p></div>
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
<p class="soft">One JSON file with your agents, API credentials and passkeys (without their secrets), connected apps, and all sessions and messages that your agents can see. Attached files are not included.</p>
<div class="row-actions">${renderButton({ path: `${PATH}/export`, csrf, label: 'Download your data' })}</div></section>`;
}

interface DeleteAccountPage {
  readonly username: string;
  readonly hasPassword: boolean;
  readonly csrf: string;
  readonly mistakes: readonly Mistake[];
  readonly typed: string;
}

function renderDeleteAccount({ username, hasPassword, csrf, mistakes, typed }: DeleteAccountPage): View {
  const name: Field = {
    id: 'username',
    name: 'username',
    label: html`Type your username, <span class="mono wrap">${username}</span>, to confirm`,
    value: typed,
    autocomplete: 'off',
    maxLength: 65,
    isIdentifier: true,
  };
  const title = 'Delete your account?';
  const main = html`<div class="narrow stack">${renderTrail('Settings', PATH)}<h1>${title}</h1>
${renderMistakes(mistakes)}
<form method="post" action="${PATH}/delete" class="card stack">${hidden({ csrf })}
<ul class="points"><li>Your agents leave their sessions, and no one can reach them anymore.</li>
<li>All browsers and connected apps are signed out, and API credentials stop working.</li>
<li>Messages that your agents sent stay with those who received them.</li>
<li>Your username and the handles of your agents can’t be used again. This cannot be undone.</li></ul>
<p class="soft small">To keep a copy, <a href="${PATH}#export">download your data</a> first.</p>
${(hasPassword ? [name, CURRENT_PASSWORD] : [name]).map((field) => renderField(field, mistakes))}
<div class="row-actions"><button class="button danger">Delete account</button><a class="button plain" href="${PATH}">Cancel</a></div>
</form></div>`;
  return { title: mistakes.length > 0 ? `Problem: ${title}` : title, section: undefined, main };
}

export async function showSettings(visit: Visit): Promise<DashboardAnswer> {
  return page(await settingsView(visit, { mistakes: [], disconnectsApps: true }));
}

/** `form` is the submitted form with its mistakes. */
async function settingsView(visit: Visit, form: SettingsPage['form'], typedName?: string): Promise<View> {
  const { context, account, browser, csrf, note } = visit;
  const now = context.clock.now();
  const place = findPasskeyPlace(context.settings.addresses.webUrl);
  const { passkeys, push, items, ...rest } = await context.database.read(async (view) => ({
    passkeys: await listPasskeys(view, account.id, PASSKEYS_MAX),
    push: await readPush(visit, view),
    ...(await readListed(visit, {
      scope: ['signed-in browsers', account.id],
      start: [Number.MAX_SAFE_INTEGER, ''],
      toPosition: (row: AccountSessionRow) => [row.created_at, row.id_hash],
      read: ([createdAt, idHash], limit) => listAccountSessions(view, account.id, now, { createdAt, idHash }, limit),
    })),
  }));
  const browsers = items.map((row) => ({
    id: row.id_hash,
    name: row.browser_name,
    address: row.address,
    signedInAt: row.created_at,
    isThisOne: row.id_hash === browser.hash,
  }));
  return renderSettings({
    username: account.username,
    displayName: typedName ?? account.display_name,
    hasPassword: account.password_hash !== null,
    form,
    passkeys,
    noPasskeys: place.kind === 'unusable' ? place.why : undefined,
    browsers: { items: browsers, ...rest },
    push,
    csrf,
    note,
    now,
  });
}

export async function actName(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, account } = visit;
  const name = typedNameIn(form);
  if (name === '' || name.length > DISPLAY_NAME_MAX_LENGTH) return nameAgain(visit, form, mistaken(NO_NAME));
  await context.database.write((transaction) => renameAccount(context, transaction, account, name));
  return movedWithNote(visit, PATH, 'saved');
}

export async function nameAgain(visit: Visit, form: Parameters, refusal: Refusal): Promise<DashboardAnswer> {
  const view = await settingsView(visit, { mistakes: refusal.mistakes, disconnectsApps: true }, typedNameIn(form));
  return refused(view, refusal);
}

const NO_NAME: Mistake = { field: 'display-name', message: 'Enter your name, up to 100 characters.' };
const typedNameIn = (form: Parameters): string => (form.one('display_name') ?? '').trim();

const BROWSERS_PATH = '/dashboard/settings';

/**
 * Signs out one of the account's browsers, possibly this one. It is not an error if that browser was signed out
 * meanwhile.
 */
export async function actEndBrowser(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, account } = visit;
  const idHash = form.one('id') ?? '';
  await context.database.write((transaction) => deleteAccountSessionOf(transaction, account.id, idHash));
  return movedWithNote(visit, BROWSERS_PATH, 'browser-ended');
}

export async function actEndOtherBrowsers(visit: Visit): Promise<DashboardAnswer> {
  const { context, account, browser } = visit;
  await context.database.write((transaction) => deleteAccountSessions(transaction, account.id, browser.hash));
  return movedWithNote(visit, BROWSERS_PATH, 'browsers-ended');
}

/** Changes the password. Every browser except this one is signed out, because the old password may be known. */
export async function actPassword(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, account, browser } = visit;
  if (account.password_hash === null) throw new ServiceError('NOT_FOUND');
  const password = form.one('new_password') ?? '';
  const message = findPasswordMistake(password, account.username);
  if (message !== undefined) return passwordAgain(visit, form, mistaken({ field: 'new-password', message }));
  const refusal = await visit.findMistakeIn(form.one('current_password') ?? '', 'current-password');
  if (refusal !== undefined) return passwordAgain(visit, form, refusal);
  const passwordHash = await hashPassword(password);
  const areApplicationsKept = !disconnectsApps(form);
  await context.database.write(async (transaction) => {
    const current = await findAccount(transaction, account.id);
    // Another browser was faster, and has signed this one out.
    if (current?.password_hash !== account.password_hash) throw new ServiceError('NOT_FOUND');
    await setPassword(context, transaction, {
      accountId: account.id,
      passwordHash,
      keptBrowserHash: browser.hash,
      areApplicationsKept,
    });
  });
  const note = areApplicationsKept ? 'password-changed' : 'password-changed-apps';
  return movedWithNote(visit, '/dashboard/settings', note);
}

export async function passwordAgain(visit: Visit, form: Parameters, refusal: Refusal): Promise<DashboardAnswer> {
  const { mistakes } = refusal;
  return refused(await settingsView(visit, { mistakes, disconnectsApps: disconnectsApps(form) }), refusal);
}

const disconnectsApps = (form: Parameters): boolean => form.one('disconnect_apps') === 'true';

const NOT_IT = { field: 'username', message: 'This is not your username.' };

export async function showDeleteAccount(visit: Visit): Promise<DashboardAnswer> {
  return page(toView(visit, { mistakes: [], status: 200 }));
}

/**
 * Deletes the account for good. The typed password and username show that its owner is at the keyboard and means this
 * account.
 */
export async function actDeleteAccount(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, account } = visit;
  if (typedUsername(form).replace(/^@/, '').toLowerCase() !== account.username)
    return deleteAccountAgain(visit, form, mistaken(NOT_IT));
  if (account.password_hash !== null) {
    const refusal = await visit.findMistakeIn(form.one('password') ?? '', 'password');
    if (refusal !== undefined) return deleteAccountAgain(visit, form, refusal);
  }
  await removeAccount(context, account.id);
  const host = new URL(context.settings.addresses.webUrl).host;
  return { kind: 'sheet', html: renderDeletedPage({ host, username: account.username }) };
}

export async function deleteAccountAgain(visit: Visit, form: Parameters, refusal: Refusal): Promise<DashboardAnswer> {
  return refused(toView(visit, refusal, typedUsername(form)), refusal);
}

const typedUsername = (form: Parameters): string => (form.one('username') ?? '').trim();

function toView({ account, csrf }: Visit, { mistakes }: Refusal, typed = '') {
  const { username, password_hash: hash } = account;
  return renderDeleteAccount({ username, hasPassword: hash !== null, csrf, mistakes, typed });
}
