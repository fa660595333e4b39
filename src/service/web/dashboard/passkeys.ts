import { recordActivity } from '../../agents/activity.js';
import type { Query } from '../../core/database.js';
import { ServiceError } from '../../core/errors.js';
import type { Parameters } from '../../oauth/parameters.js';
import { markConfirmed, wasConfirmedSince } from '../../store/browser-sessions.js';
import { listPasskeys, PASSKEYS_MAX, type PasskeyRow } from '../../store/passkeys.js';
import { PASSKEY_SCRIPT } from '../assets.js';
import { type Field, hidden, type Mistake, renderField, renderMistakes, toTitle } from '../form.js';
import { type Html, html, strangersText } from '../html.js';
import {
  addPasskey,
  createChallenge,
  findRelyingParty,
  PASSKEY_NAME_MAX_LENGTH,
  type PasskeyAddition,
  removePasskey,
  renderPasskeyForm,
} from '../passkeys.js';
import { CURRENT_PASSWORD, describeVisitor } from '../sign-in.js';
import { renderTime } from '../time.js';
import { renderQuestion, renderTrail, type View } from './frame.js';
import {
  type DashboardAnswer,
  mistaken,
  moved,
  movedWithNote,
  page,
  type Refusal,
  refused,
  UNREFUSED,
  type Visit,
} from './visit.js';

const SETTINGS = '/dashboard/settings';
const PATH = `${SETTINGS}/passkeys`;
const BACK = { label: 'Settings', path: SETTINGS };
/** Within this time after a proof, a browser may add a passkey. */
const CONFIRMED_FOR_MS = 10 * 60 * 1000;

/** A section of the settings. `noPasskeys` says why there can be none. */
export function renderPasskeys(passkeys: readonly PasskeyRow[], noPasskeys: Html | undefined, now: number): Html {
  const about = noPasskeys ?? 'Sign in with the fingerprint, face or PIN of your device instead of a password.';
  const add =
    noPasskeys === undefined &&
    passkeys.length < PASSKEYS_MAX &&
    html`<a class="button plain small-button" href="${PATH}/new">Add a passkey</a>`;
  return html`<section class="stack-tight" aria-labelledby="passkeys"><div class="card stack-tight"><div class="between"><h2 id="passkeys">Passkeys</h2>${add}</div>
<p class="soft">${about}</p></div>
${passkeys.length > 0 && html`<ul class="rows">${passkeys.map((one) => renderPasskey(one, now))}</ul>`}</section>`;
}

function renderPasskey({ id, name, created_at: madeAt, last_used_at: usedAt }: PasskeyRow, now: number): Html {
  const use = usedAt === null ? 'never used' : html`last used ${renderTime(usedAt, now)}`;
  return html`<li class="row"><div class="who grow"><b>${strangersText(name)}</b><span class="soft small">Added ${renderTime(madeAt, now)}, ${use}</span></div>
<a class="button plain small-button" href="${PATH}/${id}/remove">Remove<span class="hidden-label"> ${strangersText(name)}</span></a></li>`;
}

const NAME: Field = {
  id: 'passkey-name',
  name: 'name',
  label: 'Name',
  hint: 'A name to tell your passkeys apart, such as “Work laptop”.',
  autocomplete: 'off',
  maxLength: PASSKEY_NAME_MAX_LENGTH,
  isRequired: false,
};

export async function showNewPasskey(visit: Visit): Promise<DashboardAnswer> {
  return page(await newPasskeyView(visit, UNREFUSED));
}

async function newPasskeyView(visit: Visit, { mistakes }: Refusal, name = ''): Promise<View> {
  const { context, account, browser } = visit;
  const relyingParty = findRelyingParty(context.settings.addresses.webUrl);
  const title = 'Add a passkey';
  const toView = (content: Html, script?: string): View => ({
    title: toTitle(title, mistakes),
    section: 'settings',
    main: html`<div class="narrow stack">${renderTrail(BACK.label, BACK.path)}<h1>${title}</h1>${renderMistakes(mistakes)}
${content}</div>`,
    ...(script !== undefined && { script }),
  });
  if (relyingParty.kind === 'unusable') return toView(html`<p class="card">${relyingParty.why}</p>`);
  const { isConfirmed, passkeys } = await context.database.read(async (query) => ({
    isConfirmed: await isConfirmedNow(visit, query),
    passkeys: await listPasskeys(query, account.id),
  }));
  if (!isConfirmed) return toView(renderConfirmation(visit, relyingParty, passkeys, mistakes), PASSKEY_SCRIPT);
  const form = renderPasskeyForm({
    relyingParty,
    challenge: createChallenge(context, browser, 'create'),
    path: `${PATH}/new`,
    label: 'Create passkey',
    kind: 'create',
    values: { csrf: visit.csrf },
    fields: renderField({ ...NAME, value: name }, mistakes),
    account,
    passkeys,
  });
  const about = html`<p class="soft">Your device keeps it and asks for your fingerprint, face or PIN. A password manager can bring it to your other devices.</p>`;
  return toView(html`<div class="card stack">${about}${form}${NO_SCRIPT}</div>`, PASSKEY_SCRIPT);
}

const NO_SCRIPT = html`<noscript><p>Passkeys need JavaScript, and this browser doesn’t run it here.</p></noscript>`;

/** Access to an unattended browser must not be enough to add a way in. */
function renderConfirmation(
  { context, account, browser, csrf }: Visit,
  relyingParty: Extract<ReturnType<typeof findRelyingParty>, { kind: 'usable' }>,
  passkeys: readonly PasskeyRow[],
  mistakes: readonly Mistake[],
): Html {
  const byPassword =
    account.password_hash !== null &&
    html`<form method="post" action="${PATH}/confirm" class="stack">${hidden({ csrf })}
<input type="text" name="username" value="${account.username}" autocomplete="username" hidden>
${renderField(CURRENT_PASSWORD, mistakes)}<div class="actions single"><button class="button primary">Continue</button></div></form>`;
  const byPasskey =
    passkeys.length > 0 &&
    renderPasskeyForm({
      relyingParty,
      challenge: createChallenge(context, browser, 'confirm'),
      path: `${PATH}/confirm`,
      label: 'Use a passkey',
      kind: 'confirm',
      values: { csrf },
      isPrimary: account.password_hash === null,
      passkeys,
    });
  const byCommand =
    account.password_hash === null &&
    account.is_local === 1 &&
    html`<p>Run <code>asp serve open</code> on the machine that runs the service, and come back within ten minutes.</p>`;
  return html`<div class="card stack"><p class="soft">You signed in a while ago. Confirm that it’s still you.</p>${byPassword}${byPasskey}${byCommand}</div>`;
}

function isConfirmedNow({ context, browser }: Visit, query: Query): Promise<boolean> {
  return wasConfirmedSince(query, browser.hash, context.clock.now() - CONFIRMED_FOR_MS);
}

/** Confirms again who is at the keyboard, with the password or a passkey. */
export async function actConfirm(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, browser } = visit;
  const credential = form.one('credential');
  const refusal =
    credential === undefined
      ? await visit.findMistakeIn(form.one('password') ?? '', 'password')
      : await visit.findMistakeInPasskey(credential);
  if (refusal !== undefined) return refused(await newPasskeyView(visit, refusal), refusal);
  await context.database.write((transaction) => markConfirmed(transaction, browser.hash, context.clock.now()));
  return moved(`${PATH}/new`);
}

const REFUSED: Readonly<Record<Exclude<PasskeyAddition, 'added'>, string>> = {
  expired: 'This page was open for too long. Try again.',
  wrong: 'This passkey cannot be used here. Try again, or use another device.',
  duplicate: 'This passkey was already added.',
  full: `An account can have ${PASSKEYS_MAX} passkeys. Remove one first.`,
};

export async function actNewPasskey(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, account, browser } = visit;
  const name = (form.one('name') ?? '').trim();
  const again = async (refusal: Refusal): Promise<DashboardAnswer> =>
    refused(await newPasskeyView(visit, refusal, name), refusal);
  if (!(await context.database.read((query) => isConfirmedNow(visit, query))))
    return again(mistaken({ message: 'You signed in a while ago. Confirm that it’s still you, then try again.' }));
  if (name.length > PASSKEY_NAME_MAX_LENGTH)
    return again(
      mistaken({ field: NAME.id, message: `Enter a name of ${PASSKEY_NAME_MAX_LENGTH} characters at most.` }),
    );
  const shownName = name === '' ? 'Passkey' : name;
  const addition = await addPasskey(context, browser, account, { text: form.one('credential') ?? '', name: shownName });
  if (addition !== 'added') return again(mistaken({ message: REFUSED[addition] }));
  await tell(visit, 'passkey-added', shownName);
  return movedWithNote({ context }, SETTINGS, 'passkey-added');
}

export async function showRemovePasskey(visit: Visit): Promise<DashboardAnswer> {
  const { name, id } = await findOwn(visit);
  const main = renderQuestion({
    title: html`Remove ${strangersText(name)}?`,
    consequences: [
      'It can no longer sign in here. Browsers that are signed in stay signed in.',
      'Your device may still offer it until you delete it there.',
    ],
    path: `${PATH}/${id}/remove`,
    csrf: visit.csrf,
    label: 'Remove passkey',
    back: BACK,
  });
  return page({ title: 'Remove passkey', section: 'settings', main });
}

export async function actRemovePasskey(visit: Visit): Promise<DashboardAnswer> {
  const { name, id } = await findOwn(visit);
  if (!(await removePasskey(visit.context, visit.account.id, id)))
    throw new ServiceError(
      'FEATURE_NOT_AVAILABLE',
      'This is the only way to sign in to your account. Add another passkey first.',
    );
  await tell(visit, 'passkey-removed', name);
  return movedWithNote(visit, SETTINGS, 'passkey-removed');
}

async function findOwn({ context, account, part }: Visit): Promise<PasskeyRow> {
  const own = await context.database.read((query) => listPasskeys(query, account.id));
  const found = own.find(({ id }) => id === part('id'));
  if (found === undefined) throw new ServiceError('NOT_FOUND');
  return found;
}

/** With the name of the passkey, which its address does not have. */
async function tell(
  { context, account, request }: Visit,
  kind: 'passkey-added' | 'passkey-removed',
  detail: string,
): Promise<void> {
  const entry = { ...describeVisitor(request), accountId: account.id, kind, detail };
  await context.database.write((transaction) => recordActivity(context, transaction, entry));
}
