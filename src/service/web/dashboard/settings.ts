import { ACTIVITY, type ActivityKind } from '../../agents/activity.js';
import { renameAccount } from '../../agents/agents.js';
import { ServiceError } from '../../core/errors.js';
import { removeAccount } from '../../messaging/remove-agent.js';
import type { Parameters } from '../../oauth/parameters.js';
import { findAccount } from '../../store/accounts.js';
import { type ActivityRow, listActivities } from '../../store/activities.js';
import {
  type AccountSessionRow,
  deleteAccountSessionOf,
  deleteAccountSessions,
  listAccountSessions,
} from '../../store/browser-sessions.js';
import { AFTER_EVERY_ULID } from '../../store/cursor.js';
import { accountLock } from '../../store/lock-names.js';
import { listPasskeys } from '../../store/passkeys.js';
import { PUSH_SCRIPT } from '../assets.js';
import { DENSITIES, HOURS, type Preferences, preferencesCookie, readPreferences, THEMES, ZONES } from '../browser.js';
import { type Field, hidden, type Mistake, renderField, renderMistakes, renderTick, toTitle } from '../form.js';
import { type Html, html, strangersText } from '../html.js';
import { layOut, readLook } from '../layout.js';
import { findRelyingParty } from '../passkeys.js';
import { findPasswordMistake, hashPassword, setPassword } from '../passwords.js';
import { CURRENT_PASSWORD, DISPLAY_NAME_MAX_LENGTH } from '../sign-in.js';
import { renderTime } from '../time.js';
import {
  HELP_PATH,
  type Listed,
  renderButton,
  renderEmpty,
  renderHeading,
  renderList,
  renderNote,
  renderTrail,
  type View,
} from './frame.js';
import { renderPasskeys } from './passkeys.js';
import { readPush, renderPush } from './push-settings.js';
import { LINKS_PATH } from './share-links.js';
import {
  type DashboardAnswer,
  mistaken,
  movedWithNote,
  page,
  type Refusal,
  readListed,
  refused,
  UNREFUSED,
  type Visit,
} from './visit.js';

const PATH = '/dashboard/settings';
const ACTIVITY_PATH = `${PATH}/activity`;

/** The form that was sent, or the mistakes of the other one. */
interface SentForm {
  readonly mistakes: readonly Mistake[];
  readonly disconnectsApps: boolean;
  readonly typedName?: string;
}

export async function showSettings(visit: Visit): Promise<DashboardAnswer> {
  return page(await settingsView(visit, { mistakes: [], disconnectsApps: true }));
}

async function settingsView(visit: Visit, form: SentForm): Promise<View> {
  const { context, account, csrf, note } = visit;
  const { mistakes } = form;
  const now = context.clock.now();
  const relyingParty = findRelyingParty(context.settings.addresses.webUrl);
  const { passkeys, push, browsers } = await context.database.read(async (view) => ({
    passkeys: await listPasskeys(view, account.id),
    push: await readPush(visit, view),
    browsers: await readListed(visit, {
      scope: ['signed-in browsers', account.id],
      start: [Number.MAX_SAFE_INTEGER, ''],
      toPosition: (row: AccountSessionRow) => [row.created_at, row.id_hash],
      read: ([createdAt, idHash], limit) => listAccountSessions(view, account.id, now, { createdAt, idHash }, limit),
    }),
  }));
  const main = html`<div class="stack measure">${renderHeading({ title: 'Settings' })}${renderNote(note)}${renderMistakes(mistakes)}
${renderNameForm(visit, form)}
${renderPreferences(visit)}
${account.password_hash === null ? NO_PASSWORD : renderPasswordForm(visit, form)}
${renderPasskeys(passkeys, relyingParty.kind === 'unusable' ? relyingParty.why : undefined, now)}
${renderBrowsers(visit, browsers, now)}
${push && renderPush(push, { csrf, now })}
<section class="card stack-tight" aria-labelledby="activity"><h2 id="activity">Activity</h2>
<p class="soft">Sign-ins, and changes to your account, your agents and who can act for them.</p>
<p class="small"><a class="aside-link" href="${ACTIVITY_PATH}">See your account activity</a></p></section>
${
  context.settings.shareLinks !== 'off' &&
  html`<section class="card stack-tight" aria-labelledby="shared"><h2 id="shared">Shared sessions</h2>
<p class="soft">Links that let anyone read a copy of a session.</p>
<p class="small"><a class="aside-link" href="${LINKS_PATH}">See your links</a></p></section>`
}
<section class="card stack-tight" aria-labelledby="export"><h2 id="export">Your data</h2>
<p class="soft">One JSON file with your agents, API credentials and passkeys (without their secrets), connected apps, links to shared sessions, and all sessions and messages that your agents can see. Attached files are not included.</p>
<div class="row-actions">${renderButton({ path: `${PATH}/export`, csrf, label: 'Download your data' })}</div></section>
<section class="card stack-tight" aria-labelledby="delete"><h2 id="delete">Delete account</h2>
<p class="soft">This removes your agents and signs you out everywhere. It cannot be undone.</p>
<p class="small"><a class="aside-link quiet-danger" href="${PATH}/delete">Delete your account…</a></p></section></div>`;
  return {
    title: toTitle('Settings', mistakes),
    section: 'settings',
    main,
    ...(push !== undefined && { script: PUSH_SCRIPT, hasWorker: true }),
  };
}

const NO_PASSWORD = html`<section class="card stack-tight" aria-labelledby="password"><h2 id="password">Password</h2>
<p class="soft">This account has no password. Run <code>asp serve open</code> on the machine of the service to sign in.</p></section>`;

function renderNameForm({ account, csrf }: Visit, { mistakes, typedName }: SentForm): Html {
  const name: Field = {
    id: 'display-name',
    name: 'display_name',
    label: 'Your name',
    value: typedName ?? account.display_name,
    hint: 'Others see it next to your public agents.',
    autocomplete: 'name',
    maxLength: DISPLAY_NAME_MAX_LENGTH,
  };
  return html`<form method="post" action="${PATH}/name" class="card stack" aria-label="Name">${hidden({ csrf })}${renderField(name, mistakes)}
<div class="row-actions"><button class="button plain">Change name</button></div></form>`;
}

/** Tells this browser's settings apart from those of the account. */
function renderPreferences({ context, csrf, request }: Visit): Html {
  const { theme, hours, zone, density, hasShortcuts } = readPreferences(context.settings.addresses.webUrl, request);
  const shortcuts = { id: 'shortcuts', name: 'shortcuts', value: 'on', label: 'Single-key keyboard shortcuts' };
  return html`<form method="post" action="${PATH}/preferences" class="card stack" aria-labelledby="preferences">${hidden({ csrf })}<h2 id="preferences">This browser</h2>
${renderInLine('theme', 'Theme', THEMES, THEME_LABEL, theme)}
${renderInLine('hours', 'Time of day', HOURS, HOURS_LABEL, hours)}
${renderInLine('zone', 'Time zone', ZONES, ZONE_LABEL, zone)}
${renderInLine('density', 'Density', DENSITIES, DENSITY_LABEL, density)}
<div>${renderTick({ ...shortcuts, isTicked: hasShortcuts })}<p class="soft small">Press <kbd>?</kbd> on any page to see them, or find them in the <a href="${HELP_PATH}#shortcuts">help</a>.</p></div>
<div class="row-actions"><button class="button plain">Save</button></div></form>`;
}

/** A few choices in one line. */
function renderInLine<Value extends string>(
  name: string,
  legend: string,
  values: readonly Value[],
  labels: Readonly<Record<Value, string>>,
  chosen: Value,
): Html {
  const choices = values.map(
    (value) =>
      html`<div class="tick"><label for="${name}-${value}"><input type="radio" id="${name}-${value}" name="${name}" value="${value}"${value === chosen && html` checked`}><span>${labels[value]}</span></label></div>`,
  );
  return html`<fieldset><legend>${legend}</legend><div class="ticks-in in-line">${choices}</div></fieldset>`;
}

const HOURS_LABEL: Readonly<Record<Preferences['hours'], string>> = { 24: '24 hours', 12: 'AM and PM' };
const ZONE_LABEL: Readonly<Record<Preferences['zone'], string>> = { local: 'Yours', utc: 'UTC' };
const DENSITY_LABEL: Readonly<Record<Preferences['density'], string>> = {
  comfortable: 'Comfortable',
  compact: 'Compact',
};
const THEME_LABEL: Readonly<Record<Preferences['theme'], string>> = {
  system: 'Same as system',
  light: 'Light',
  dark: 'Dark',
};

export async function actPreferences(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const choose = <Word extends string>(name: string, known: readonly [Word, ...Word[]]): Word =>
    known.find((word) => word === form.one(name)) ?? known[0];
  const preferences = {
    theme: choose('theme', THEMES),
    hours: choose('hours', HOURS),
    zone: choose('zone', ZONES),
    density: choose('density', DENSITIES),
    hasShortcuts: form.one('shortcuts') === 'on',
  };
  const cookie = preferencesCookie(visit.context.settings.addresses.webUrl, preferences);
  return movedWithNote(visit, PATH, 'saved', undefined, [cookie]);
}

function renderPasswordForm({ account, csrf }: Visit, { mistakes, disconnectsApps }: SentForm): Html {
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
<input type="text" name="username" value="${account.username}" autocomplete="username" hidden>
${fields}
<div>${renderTick({ id: 'disconnect-apps', name: 'disconnect_apps', value: 'true', label: 'Disconnect all connected apps', isTicked: disconnectsApps })}
<p class="soft small">All other browsers are always signed out. API credentials keep working.</p></div>
<div class="row-actions"><button class="button primary">Change password</button></div></form>`;
}

function renderBrowsers({ browser, csrf }: Visit, browsers: Listed<AccountSessionRow>, now: number): Html {
  const isThisOne = ({ id_hash: hash }: AccountSessionRow): boolean => hash === browser.hash;
  const hasOthers = browsers.next !== null || browsers.items.some((row) => !isThisOne(row));
  const endOthers = hasOthers && renderButton({ path: `${PATH}/browsers/end-others`, csrf, label: 'Sign out others' });
  const renderBrowser = (row: AccountSessionRow): Html => {
    const { id_hash: id, browser_name: name, address, created_at: signedInAt } = row;
    const about = html`${name}, ${address}`;
    const end = renderButton({ path: `${PATH}/browsers/end`, csrf, label: 'Sign out', about, values: { id } });
    return html`<li class="row"><div class="who grow"><b>${name}</b><span class="soft small">Signed in ${renderTime(signedInAt, now)} from <span class="mono wrap">${address}</span></span></div>
${isThisOne(row) ? html`<span class="badge good">This browser</span>` : end}</li>`;
  };
  return html`<section class="stack-tight" aria-labelledby="browsers"><div class="between"><h2 id="browsers">Signed-in browsers</h2>${endOthers}</div>
${renderList(PATH, browsers, renderBrowser, html``)}</section>`;
}

export async function actName(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, account } = visit;
  const name = typedNameIn(form);
  if (name === '' || name.length > DISPLAY_NAME_MAX_LENGTH) return nameAgain(visit, form, mistaken(NO_NAME));
  await context.database.write((transaction) => renameAccount(context, transaction, account, name));
  return movedWithNote(visit, PATH, 'saved');
}

export async function nameAgain(visit: Visit, form: Parameters, refusal: Refusal): Promise<DashboardAnswer> {
  const { mistakes } = refusal;
  const view = await settingsView(visit, { mistakes, disconnectsApps: true, typedName: typedNameIn(form) });
  return refused(view, refusal);
}

const NO_NAME: Mistake = { field: 'display-name', message: 'Enter your name, up to 100 characters.' };
const typedNameIn = (form: Parameters): string => (form.one('display_name') ?? '').trim();

/**
 * Signs out one of the account's browsers, possibly this one. It is not an error if that browser was signed out
 * in the meantime.
 */
export async function actEndBrowser(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, account } = visit;
  const idHash = form.one('id') ?? '';
  await context.database.write((transaction) => deleteAccountSessionOf(transaction, account.id, idHash));
  return movedWithNote(visit, PATH, 'browser-ended');
}

export async function actEndOtherBrowsers(visit: Visit): Promise<DashboardAnswer> {
  const { context, account, browser } = visit;
  await context.database.write((transaction) => deleteAccountSessions(transaction, account.id, browser.hash));
  return movedWithNote(visit, PATH, 'browsers-ended');
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
    await transaction.lock([accountLock(account.id)]);
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
  return movedWithNote(visit, PATH, note);
}

export async function passwordAgain(visit: Visit, form: Parameters, refusal: Refusal): Promise<DashboardAnswer> {
  const { mistakes } = refusal;
  return refused(await settingsView(visit, { mistakes, disconnectsApps: disconnectsApps(form) }), refusal);
}

const disconnectsApps = (form: Parameters): boolean => form.one('disconnect_apps') === 'true';

export async function showDeleteAccount(
  { account, csrf }: Visit,
  form?: Parameters,
  refusal = UNREFUSED,
): Promise<DashboardAnswer> {
  const { mistakes } = refusal;
  const name: Field = {
    id: 'username',
    name: 'username',
    label: html`Type your username, <span class="mono wrap">${account.username}</span>, to confirm`,
    value: typedUsername(form),
    autocomplete: 'off',
    maxLength: 65,
    isIdentifier: true,
  };
  const fields = account.password_hash === null ? [name] : [name, CURRENT_PASSWORD];
  const title = 'Delete your account?';
  const main = html`<div class="narrow stack">${renderTrail('Settings', PATH)}<h1>${title}</h1>
${renderMistakes(mistakes)}
<form method="post" action="${PATH}/delete" class="card stack" aria-label="Delete account">${hidden({ csrf })}
<ul class="points"><li>Your agents leave their sessions, and no one can reach them anymore.</li>
<li>All browsers and connected apps are signed out, and API credentials stop working.</li>
<li>Messages that your agents sent stay with those who received them.</li>
<li>Your username and the handles of your agents can’t be used again. This cannot be undone.</li></ul>
<p class="soft small">To keep a copy, <a href="${PATH}#export">download your data</a> first.</p>
${fields.map((field) => renderField(field, mistakes))}
<div class="row-actions"><button class="button danger">Delete account</button><a class="button plain" href="${PATH}">Cancel</a></div>
</form></div>`;
  return refused({ title: toTitle(title, mistakes), section: 'settings', main }, refusal);
}

const typedUsername = (form: Parameters | undefined): string => (form?.one('username') ?? '').trim();

const NOT_IT = { field: 'username', message: 'This is not your username.' };

/**
 * Deletes the account for good. The typed password and username show that its owner is at the keyboard and means this
 * account.
 */
export async function actDeleteAccount(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, account, request } = visit;
  if (typedUsername(form).replace(/^@/, '').toLowerCase() !== account.username)
    return showDeleteAccount(visit, form, mistaken(NOT_IT));
  if (account.password_hash !== null) {
    const refusal = await visit.findMistakeIn(form.one('password') ?? '', 'password');
    if (refusal !== undefined) return showDeleteAccount(visit, form, refusal);
  }
  await removeAccount(context, account.id);
  const title = 'Your account was deleted';
  const main = html`<div class="stack"><h1>${title}</h1>
<p class="soft"><span class="mono wrap">@${account.username}</span> and its agents are gone. All browsers, apps and API credentials were signed out.</p></div>`;
  return { kind: 'sheet', html: layOut({ look: readLook(context, request), title, main }) };
}

export async function showActivity(visit: Visit): Promise<DashboardAnswer> {
  const { context, account } = visit;
  const listed = await context.database.read((query) =>
    readListed(visit, {
      scope: ['activity', account.id],
      start: [AFTER_EVERY_ULID],
      toPosition: ({ id }: ActivityRow) => [id],
      read: ([beforeId], limit) => listActivities(query, account.id, beforeId, limit),
    }),
  );
  const heading = renderHeading({
    title: 'Activity',
    about: 'Sign-ins, and changes to your account, your agents and who can act for them. Entries are kept for 90 days.',
  });
  const now = context.clock.now();
  const nothing = renderEmpty('No activity', html`<p>Sign-ins and changes appear here.</p>`);
  const list = renderList(ACTIVITY_PATH, listed, (row) => renderActivity(row, now), nothing);
  const main = html`<div class="stack">${renderTrail('Settings', PATH)}${heading}${list}</div>`;
  return page({ title: 'Activity', section: 'settings', main });
}

function renderActivity(
  { kind, detail, address, browser_name: browser, created_at: at }: ActivityRow,
  now: number,
): Html {
  const { label, isAlert } = ACTIVITY[kind as ActivityKind];
  return html`<li class="row"><div class="who grow"><b>${label}</b>${detail !== '' && html`<span class="soft small">${strangersText(detail)}</span>`}</div>
<div class="facts">${isAlert && html`<span class="badges"><span class="badge warn">Check this</span></span>`}<span class="soft small">${browser !== '' && html`${browser}, `}<span class="mono">${address}</span></span><span class="soft small">${renderTime(at, now)}</span></div></li>`;
}
