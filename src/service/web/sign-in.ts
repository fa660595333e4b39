import type { FastifyReply, FastifyRequest } from 'fastify';
import { isOfAnotherUser } from '../../kit/loopback.js';
import { HandlePart } from '../../wire/schemas/requests.js';
import { createAccount } from '../agents/accounts.js';
import { type Activity, recordActivity, withoutMapping } from '../agents/activity.js';
import type { Query } from '../core/database.js';
import { hasCode, ServiceError } from '../core/errors.js';
import { isFromThisMachine } from '../http/app.js';
import { PATH } from '../oauth/metadata.js';
import { getBody, type Parameters, readParameters, readQuery } from '../oauth/parameters.js';
import { hashSecret } from '../oauth/secret.js';
import { type AuthorizationServer, takeForAddress } from '../oauth/server.js';
import {
  type AccountRow,
  type EntryLinkRow,
  findAccount,
  findEntryLink,
  hasPasswordAccounts,
  useEntryLink,
} from '../store/accounts.js';
import { rebindAuthorizationRequests } from '../store/authorizations.js';
import { deleteAccountSession, insertAccountSession } from '../store/browser-sessions.js';
import { accountLock } from '../store/lock-names.js';
import { findOAuthClient } from '../store/oauth-clients.js';
import { listLocalAccounts } from '../store/operator.js';
import { deletePasskeysOfAccount } from '../store/passkeys.js';
import { rebindPushSubscription } from '../store/push.js';
import { deleteShareLinksOfAccount } from '../store/share-links.js';
import { redirect } from './api-scope.js';
import { PASSKEY_SCRIPT } from './assets.js';
import { requireStoredRequest } from './authorization-request.js';
import {
  ACCOUNT_SESSION_LIFETIME_MS,
  type Browser,
  findAccountOf,
  forgedForm,
  matchesCsrf,
  meetBrowser,
  type PageServer,
  readBrowser,
  readReturnAddress,
  renewBrowser,
  requireSameOrigin,
} from './browser.js';
import { describeDuration, type Field, hidden, type Mistake, renderField, renderMistakes, toTitle } from './form.js';
import { type Html, html, renderName, strangersText } from './html.js';
import { type Look, layOut, pageHeaders, readLook, sendErrorPage } from './layout.js';
import { checkPasskey, createChallenge, findRelyingParty, renderPasskeyForm } from './passkeys.js';
import { checkPassword, findPasswordMistake, hashPassword, setPassword } from './passwords.js';

interface SignInPage {
  readonly look: Look;
  /** The app that waits for an answer, if there is one. */
  readonly clientName: string | undefined;
  /** The hidden fields of its forms. */
  readonly values: Readonly<Record<string, string | undefined>>;
  /** Asks the browser for a passkey; undefined: there can be none at the address of this service. */
  readonly passkeyForm: Html | undefined;
  /** Who may create an account. */
  readonly signUp: 'open' | 'invite' | 'off';
  /** Which of the two forms was sent, or is shown first. */
  readonly form: 'sign-in' | 'sign-up';
  /** Whether the visitor may have an account here without a password (D-203). */
  readonly hasLocalAccounts: boolean;
  readonly mistakes: readonly Mistake[];
  readonly filled: { readonly username?: string; readonly displayName?: string; readonly invitation?: string };
}

/** Signing in and creating an account, on one page. */
function renderSignInPage(page: SignInPage): string {
  const isSignUp = page.form === 'sign-up';
  const title = isSignUp ? 'Create your account' : 'Sign in';
  const main = html`<div class="stack">
<div class="stack-tight"><h1>${title}</h1><p class="soft">${renderPurpose(page)}</p></div>
${renderMistakes(page.mistakes)}
${isSignUp ? renderSignUpForm(page) : renderSignInForm(page)}
<hr class="rule">
${
  page.signUp === 'off'
    ? html`<p class="soft small">You cannot create an account on this service. To get one, contact its operator.</p>`
    : html`<details>
<summary>${isSignUp ? 'Already have an account? Sign in' : 'New here? Create an account'}</summary>
${isSignUp ? renderSignInForm(page) : renderSignUpForm(page)}
</details>`
}
${page.hasLocalAccounts && html`<p class="soft small">Accounts created by <code>asp serve</code> have no password. Run <code>asp serve open</code> to sign in.</p>`}
</div>`;
  const script = page.passkeyForm && { script: PASSKEY_SCRIPT };
  return layOut({ look: page.look, title: toTitle(title, page.mistakes), main, ...script });
}

function renderPurpose({ clientName, form, look }: SignInPage): Html {
  if (clientName !== undefined)
    return html`“${strangersText(clientName)}” wants to use your account. You decide on the next page.`;
  return form === 'sign-up'
    ? html`Create agents and see their conversations.`
    : html`Sign in to <span class="wrap">${look.host}</span>.`;
}

function renderSignInForm(page: SignInPage): Html {
  const { mistakes } = page;
  const username = page.form === 'sign-in' ? page.filled.username : undefined;
  const autocomplete = page.passkeyForm === undefined ? 'username' : 'username webauthn';
  return html`<form method="post" action="${PATH.signIn}" class="stack" aria-label="Sign in">
${hidden(page.values)}
${renderField({ ...USERNAME, id: 'username', ...(username !== undefined && { value: username }), autocomplete }, mistakes)}
${renderField(CURRENT_PASSWORD, mistakes)}
<div class="actions single"><button class="button primary">Sign in</button></div>
</form>
${page.passkeyForm}`;
}

function renderSignUpForm(page: SignInPage): Html {
  const { mistakes, filled } = page;
  const isSent = page.form === 'sign-up';
  const username: Field = {
    ...USERNAME,
    id: 'new-username',
    autocomplete: 'username',
    prefix: '@',
    hint: html`The first half of your agents’ handles, as in <code>@you.agent</code>. Lowercase letters, digits, <code>_</code> and <code>-</code>.`,
    ...(isSent && filled.username !== undefined && { value: filled.username }),
  };
  const displayName: Field = {
    id: 'new-display-name',
    name: 'display_name',
    label: 'Your name',
    autocomplete: 'name',
    maxLength: DISPLAY_NAME_MAX_LENGTH,
    ...(isSent && filled.displayName !== undefined && { value: filled.displayName }),
  };
  const invitation: Field = {
    id: 'invitation',
    name: 'invitation',
    label: 'Invitation code',
    autocomplete: 'off',
    maxLength: 100,
    isIdentifier: true,
    hint: 'You need one from the operator of this service.',
    ...(filled.invitation !== undefined && { value: filled.invitation }),
  };
  const fields = [...(page.signUp === 'invite' ? [invitation] : []), username, displayName, NEW_PASSWORD];
  return html`<form method="post" action="${PATH.signUp}" class="stack" aria-label="Create an account">
${hidden(page.values)}
${fields.map((field) => renderField(field, mistakes))}
<div class="actions single"><button class="button primary">Create account</button></div>
</form>`;
}

const USERNAME = { name: 'username', label: 'Username', maxLength: 64, isIdentifier: true } as const;
const PASSWORD = { name: 'password', label: 'Password', kind: 'password', maxLength: 200 } as const;

const NEW_PASSWORD = {
  ...PASSWORD,
  id: 'new-password',
  autocomplete: 'new-password',
  minLength: 8,
  hint: 'At least 8 characters.',
} as const satisfies Field;

/** The field for the current password of an account. */
export const CURRENT_PASSWORD: Field = { ...PASSWORD, id: 'password', autocomplete: 'current-password' };

/** In this order: most browsers also claim to be the ones below them. */
const BROWSERS: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/\bEdg(?:A|iOS)?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\b(?:Firefox|FxiOS)\//, 'Firefox'],
  [/(?:Chrome|CriOS)\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
];
const SYSTEMS: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/\biPhone\b/, 'iPhone'],
  [/\biPad\b/, 'iPad'],
  [/\bAndroid\b/, 'Android'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b/, 'macOS'],
  [/\bLinux\b/, 'Linux'],
];

/** The common name of the browser with this `User-Agent`, such as `Firefox on Linux`. */
export function parseBrowserName(userAgent = ''): string {
  const find = (names: typeof BROWSERS): string | undefined => names.find(([pattern]) => pattern.test(userAgent))?.[1];
  const browser = find(BROWSERS) ?? 'Unknown browser';
  const system = find(SYSTEMS);
  return system === undefined ? browser : `${browser} on ${system}`;
}

/**
 * Signs an account in. The browser gets a new secret: one from before the sign-in is worthless after it. False: the account
 * was suspended or removed, or got another password, since the person in front of the browser proved who they are.
 */
async function enterAs(
  server: PageServer,
  reply: FastifyReply,
  before: Browser | undefined,
  account: AccountRow,
  passkeyName = '',
): Promise<boolean> {
  const { clock, database, log } = server.context;
  const { ip, headers } = reply.request;
  const now = clock.now();
  const browser = renewBrowser(server, reply, ACCOUNT_SESSION_LIFETIME_MS);
  const isEntered = await database.write(async (transaction) => {
    await transaction.lock([accountLock(account.id)]);
    const current = await findAccount(transaction, account.id);
    if (current?.password_hash !== account.password_hash) return false;
    if (before !== undefined) {
      await rebindPushSubscription(transaction, account.id, before.hash, browser.hash);
      await deleteAccountSession(transaction, before.hash);
      await rebindAuthorizationRequests(transaction, before.hash, browser.hash);
    }
    await insertAccountSession(transaction, {
      id_hash: browser.hash,
      account_id: account.id,
      address: withoutMapping(ip),
      browser_name: parseBrowserName(headers['user-agent']),
      created_at: now,
      confirmed_at: now,
      expires_at: now + ACCOUNT_SESSION_LIFETIME_MS,
    });
    await recordActivity(server.context, transaction, {
      ...describeVisitor(reply.request),
      accountId: account.id,
      kind: 'signed-in',
      detail: passkeyName === '' ? '' : `Passkey: ${passkeyName}`,
    });
    return true;
  });
  if (!isEntered) reply.removeHeader('set-cookie');
  const facts = { account: account.username, address: ip };
  if (isEntered) {
    server.context.meter.signedIn();
    log.security?.('signed_in', { ...facts, outcome: 'done' });
  } else log.security?.('sign_in_failed', { ...facts, outcome: 'changed_meanwhile' });
  return isEntered;
}

/** Where a request came from, for the activity log. */
export function describeVisitor({ ip, headers }: FastifyRequest): Pick<Activity, 'address' | 'browserName'> {
  return { address: ip, browserName: parseBrowserName(headers['user-agent']) };
}

export const DISPLAY_NAME_MAX_LENGTH = 100;

interface SentForm {
  readonly form: Parameters;
  readonly browser: Browser;
  readonly request: string | undefined;
}

/** Signing in without a waiting app. */
export async function showSignIn(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const browser = meetBrowser(server, request, reply);
  const account = await server.context.database.read((query) => findAccountOf(server, query, browser));
  const requested = readQuery(request);
  const returnTo = requested.one('return_to');
  const invitation = requested.one('invitation');
  if (account === undefined)
    return sendSignInPage(
      server,
      reply,
      { browser, waiting: undefined, returnTo },
      invitation === undefined ? {} : { form: 'sign-up', filled: { invitation } },
    );
  if (returnTo !== undefined) return redirect(reply, readReturnAddress(returnTo));
  const title = 'You are signed in';
  const main = html`<div class="stack">
<div class="stack-tight"><h1>${title}</h1>
<p class="soft">As ${renderName(account.display_name, `@${account.username}`)} <span class="mono wrap">@${account.username}</span>. You can close this page and go back to your application.</p></div>
<form method="post" action="${PATH.signOut}">${hidden({ csrf: browser.csrfFor(undefined) })}<div class="actions"><a class="button primary" href="${PATH.dashboard}">Dashboard</a><button class="button plain">Sign out</button></div></form>
</div>`;
  return reply.headers(pageHeaders()).send(layOut({ look: readLook(server.context, request), title, main }));
}

/** Signs in with a password. */
export async function signIn(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const sent = readForm(server, request);
  const username = (sent.form.one('username') ?? '').trim().replace(/^@/, '').toLowerCase();
  const checked = await checkPassword(server, request, { username, password: sent.form.one('password') ?? '' });
  if (checked.kind === 'refused')
    return refuseHurry(server, reply, sent, { form: 'sign-in', waitS: checked.waitS, filled: { username } });
  if (checked.kind === 'wrong') {
    return showAgain(server, reply.code(400), sent, {
      form: 'sign-in',
      mistakes: [{ field: 'username', message: 'The username or password is wrong.' }],
      filled: { username },
    });
  }
  return admit(server, reply, sent, checked.account);
}

/** Signs in with a passkey, which names its account itself. */
export async function signInWithPasskey(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const sent = readForm(server, request);
  const text = sent.form.one('credential') ?? '';
  const checked = await checkPasskey(server, request, { browser: sent.browser, purpose: 'sign-in', text });
  if (checked.kind === 'right') return admit(server, reply, sent, checked.account, checked.name);
  if (checked.kind === 'refused')
    return refuseHurry(server, reply, sent, { form: 'sign-in', waitS: checked.waitS, filled: {} });
  const message =
    checked.kind === 'expired'
      ? 'This page was open for too long. Try again.'
      : 'This passkey does not work here. Use another one, or your password.';
  return showAgain(server, reply.code(400), sent, { form: 'sign-in', mistakes: [{ message }] });
}

/** Signs in an account that has proved who it is. */
async function admit(
  server: AuthorizationServer,
  reply: FastifyReply,
  sent: SentForm,
  account: AccountRow,
  passkeyName?: string,
): Promise<FastifyReply> {
  const { username } = account;
  if (account.suspended_at === null) return enter(server, reply, sent, account, passkeyName);
  server.context.log.security?.('sign_in_failed', {
    account: username,
    address: reply.request.ip,
    outcome: 'suspended',
  });
  return showAgain(server, reply.code(403), sent, {
    form: 'sign-in',
    mistakes: [{ message: 'This account is suspended. Contact the operator of this service.' }],
    filled: { username },
  });
}

/** Creates an account and signs in as it. */
export async function signUp(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { context } = server;
  const sent = readForm(server, request);
  const username = (sent.form.one('username') ?? '').trim().replace(/^@/, '');
  const displayName = (sent.form.one('display_name') ?? '').trim();
  const password = sent.form.one('password') ?? '';
  const invitation = (sent.form.one('invitation') ?? '').trim();
  const filled = { username, displayName, invitation };
  const { signUp: mode } = context.settings.accountPolicy;
  if (mode === 'off') return refuseSignUp(server, reply, sent);
  const mistakes = findMistakes(username, displayName, password);
  if (mistakes.length > 0) return showAgain(server, reply.code(400), sent, { form: 'sign-up', mistakes, filled });
  const waitS = await measureWait(takeForAddress(context, 'signUp', request));
  if (waitS > 0) return refuseHurry(server, reply, sent, { form: 'sign-up', waitS, filled });
  const now = context.clock.now();
  const invited =
    mode === 'invite'
      ? await context.database.read((query) => findEntryLink(query, 'sign-up', hashSecret(invitation), now))
      : undefined;
  if (mode === 'invite' && invited === undefined)
    return showAgain(server, reply.code(403), sent, { form: 'sign-up', mistakes: [NOT_INVITED], filled });
  const passwordHash = await hashPassword(password);
  try {
    const account = await context.database.write(async (transaction) => {
      const person = { username, displayName, passwordHash, tier: 'standard', isLocal: false } as const;
      const made = await createAccount(context, transaction, person);
      if (invited !== undefined && !(await useEntryLink(transaction, invited.id, made.id, now)))
        throw new ServiceError('FORBIDDEN');
      await recordActivity(context, transaction, {
        ...describeVisitor(request),
        accountId: made.id,
        kind: 'signed-up',
      });
      return made;
    });
    context.log.security?.('signed_up', { account: username, address: request.ip, outcome: 'done' });
    return enter(server, reply, sent, account);
  } catch (error) {
    if (hasCode(error, 'FORBIDDEN'))
      return showAgain(server, reply.code(403), sent, { form: 'sign-up', mistakes: [NOT_INVITED], filled });
    if (!hasCode(error, 'DUPLICATE_HANDLE')) throw error;
    const taken = { field: 'new-username', message: 'This username is taken. Choose another.' };
    return showAgain(server, reply.code(400), sent, { form: 'sign-up', mistakes: [taken], filled });
  }
}

const NOT_INVITED: Mistake = {
  field: 'invitation',
  message: 'This invitation does not exist, has expired or was used. Ask the operator of this service for one.',
};

function refuseSignUp(server: AuthorizationServer, reply: FastifyReply, sent: SentForm): Promise<FastifyReply> {
  const mistakes = [{ message: 'You cannot create an account on this service. Contact its operator.' }];
  return showAgain(server, reply.code(403), sent, { form: 'sign-in', mistakes });
}

/** Signs out; the next person who signs in gets the waiting request. */
export async function signOut(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const sent = readForm(server, request);
  const browser = renewBrowser(server, reply);
  await server.context.database.write(async (transaction) => {
    await deleteAccountSession(transaction, sent.browser.hash);
    await rebindAuthorizationRequests(transaction, sent.browser.hash, browser.hash);
  });
  // A browser keeps no drafts of messages after its user signs out.
  return goOn(reply.header('clear-site-data', '"storage"'), sent, PATH.signIn);
}

/** A form of the sign-in page or the consent page that came from that page. */
export function readForm(server: AuthorizationServer, request: FastifyRequest): SentForm {
  requireSameOrigin(server, request);
  const form = readParameters(getBody(request));
  const browser = readBrowser(server, request);
  const id = form.one('request');
  if (browser === undefined || !matchesCsrf(browser, id, form.one('csrf'))) throw forgedForm('csrf');
  return { form, browser, request: id };
}

async function enter(
  server: AuthorizationServer,
  reply: FastifyReply,
  sent: SentForm,
  account: AccountRow,
  passkeyName?: string,
): Promise<FastifyReply> {
  if (await enterAs(server, reply, sent.browser, account, passkeyName))
    return goOn(reply, sent, readReturnAddress(sent.form.one('return_to')));
  const message = 'This account changed while you were signing in. Sign in again.';
  return showAgain(server, reply.code(403), sent, {
    form: 'sign-in',
    mistakes: [{ message }],
    filled: { username: account.username },
  });
}

/** To the app's request, if one is waiting. */
function goOn(reply: FastifyReply, { request }: SentForm, otherwise: string): FastifyReply {
  return redirect(reply, request === undefined ? otherwise : `${PATH.consent}?request=${encodeURIComponent(request)}`);
}

function findMistakes(username: string, displayName: string, password: string): Mistake[] {
  const mistakes: Mistake[] = [];
  if (!HandlePart.safeParse(username).success) {
    mistakes.push({
      field: 'new-username',
      message: 'Choose a username of lowercase letters, digits, underscores and hyphens.',
    });
  }
  if (displayName === '' || displayName.length > DISPLAY_NAME_MAX_LENGTH) {
    mistakes.push({ field: 'new-display-name', message: 'Enter your name, up to 100 characters.' });
  }
  const passwordMistake = findPasswordMistake(password, username);
  if (passwordMistake !== undefined) mistakes.push({ field: 'new-password', message: passwordMistake });
  return mistakes;
}

/** Whole seconds until a call is possible; 0 if it was made. */
async function measureWait(taken: Promise<void>): Promise<number> {
  try {
    await taken;
    return 0;
  } catch (error) {
    if (hasCode(error, 'RATE_LIMITED')) return error.options.retryAfterS ?? 1;
    throw error;
  }
}

async function refuseHurry(
  server: AuthorizationServer,
  reply: FastifyReply,
  sent: SentForm,
  { form, waitS, filled }: Pick<Required<Correction>, 'form' | 'filled'> & { readonly waitS: number },
): Promise<FastifyReply> {
  const message = `Too many attempts. Try again in ${describeDuration(waitS)}.`;
  const later = reply.code(429).header('retry-after', String(waitS));
  return showAgain(server, later, sent, { form, mistakes: [{ message }], filled });
}

async function showAgain(
  server: AuthorizationServer,
  reply: FastifyReply,
  { form, browser, request }: SentForm,
  correction: Correction,
): Promise<FastifyReply> {
  const { context } = server;
  const waiting =
    request === undefined
      ? undefined
      : await context.database.read(async (query) => {
          const row = await requireStoredRequest(context, query, browser.hash, request);
          return { id: request, clientName: (await findOAuthClient(query, row.client_id))?.name ?? '' };
        });
  return sendSignInPage(server, reply, { browser, waiting, returnTo: form.one('return_to') }, correction);
}

/** The contents to show again after a mistake. */
export type Correction = Partial<Pick<SignInPage, 'form' | 'mistakes' | 'filled'>>;

export async function sendSignInPage(
  server: AuthorizationServer,
  reply: FastifyReply,
  shown: {
    readonly browser: Browser;
    readonly waiting: { id: string; clientName: string } | undefined;
    readonly returnTo: string | undefined;
  },
  correction: Correction = {},
): Promise<FastifyReply> {
  const isHere = isFromThisMachine(reply.request.raw);
  const { signUp } = server.context.settings.accountPolicy;
  const { isFirstUse, hasLocal } = await server.context.database.read(async (query) => ({
    isFirstUse: !(await hasPasswordAccounts(query)),
    hasLocal: isHere && (await listLocalAccounts(query, 1)).length > 0,
  }));
  const values = {
    request: shown.waiting?.id,
    return_to: shown.returnTo,
    csrf: shown.browser.csrfFor(shown.waiting?.id),
  };
  const relyingParty = findRelyingParty(server.context.settings.addresses.webUrl);
  const page = renderSignInPage({
    look: readLook(server.context, reply.request),
    clientName: shown.waiting?.clientName,
    values,
    passkeyForm:
      relyingParty.kind === 'unusable'
        ? undefined
        : renderPasskeyForm({
            relyingParty,
            challenge: createChallenge(server.context, shown.browser, 'sign-in'),
            path: PATH.passkey,
            label: 'Sign in with a passkey',
            kind: 'sign-in',
            values,
            isPrimary: false,
          }),
    signUp,
    form: isFirstUse && signUp !== 'off' ? 'sign-up' : 'sign-in',
    hasLocalAccounts: hasLocal,
    mistakes: [],
    filled: {},
    ...correction,
  });
  return reply.headers(pageHeaders(relyingParty.kind === 'usable' ? PASSKEY_SCRIPT : undefined)).send(page);
}

/** Signs in the browser that brings an unused link from the operator. */
export async function enterByLink(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { database } = server.context;
  const secret = readQuery(request).one('once');
  // Every user of this machine can read the link on the command line of the browser.
  const isHere = isFromThisMachine(request.raw) && !(await isOfAnotherUser(request.raw.socket));
  const link = isHere && secret !== undefined ? server.signInLinks.take(secret) : undefined;
  if (link === undefined) return refuseLink(server, reply, 'signIn');
  const account = await database.read((query) => findAccount(query, link.accountId));
  if (account?.is_local !== 1) return refuseLink(server, reply, 'signIn');
  const isEntered = await enterAs(server, reply, readBrowser(server, request), account);
  return isEntered ? redirect(reply, link.path) : refuseLink(server, reply, 'signIn');
}

function refuseLink({ context }: AuthorizationServer, reply: FastifyReply, kind: keyof typeof USED_UP): FastifyReply {
  return sendErrorPage(reply, context, 403, {
    title: 'This link has expired',
    ...USED_UP[kind],
    code: 'access_denied',
    onward: { href: PATH.signIn, label: 'Sign in' },
  });
}

const USED_UP = {
  signIn: {
    message:
      'Sign-in links work once, for one minute, on the machine that created them, for the user who runs the service there.',
    advice: 'Run “asp serve open” again for a new one.',
  },
  password: {
    message: 'Password links work once, for one hour.',
    advice: 'Ask the operator of this service for a new one.',
  },
} as const;

/** The page of a link from the operator. Opening it does not use the link up. */
export async function showNewPassword(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const once = readQuery(request).one('once') ?? '';
  const found = await server.context.database.read((query) => findLinked(server, query, once));
  if (found === undefined) return refuseLink(server, reply, 'password');
  return sendPasswordForm(server, reply, {
    browser: meetBrowser(server, request, reply),
    once,
    account: found.account,
  });
}

/** Sets the password, signs everyone out, and signs this browser in. */
export async function setNewPassword(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { context } = server;
  const { form, browser } = readForm(server, request);
  const once = form.one('once') ?? '';
  const found = await context.database.read((query) => findLinked(server, query, once));
  if (found === undefined) return refuseLink(server, reply, 'password');
  const { account } = found;
  const password = form.one('password') ?? '';
  const mistake = findPasswordMistake(password, account.username);
  if (mistake !== undefined) return sendPasswordForm(server, reply.code(400), { browser, once, account, mistake });
  const passwordHash = await hashPassword(password);
  const isSet = await context.database.write(async (transaction) => {
    if (!(await useEntryLink(transaction, found.link.id, account.id, context.clock.now()))) return false;
    await setPassword(context, transaction, { accountId: account.id, passwordHash });
    // An intruder may have made some.
    await deletePasskeysOfAccount(transaction, account.id);
    await deleteShareLinksOfAccount(transaction, account.id);
    await recordActivity(context, transaction, {
      ...describeVisitor(request),
      accountId: account.id,
      kind: 'password-link',
    });
    return true;
  });
  if (!isSet) return refuseLink(server, reply, 'password');
  await enterAs(server, reply, browser, { ...account, password_hash: passwordHash });
  return redirect(reply, PATH.dashboard);
}

async function findLinked(
  { context }: AuthorizationServer,
  query: Query,
  once: string,
): Promise<{ link: EntryLinkRow; account: AccountRow } | undefined> {
  const link = await findEntryLink(query, 'password', hashSecret(once), context.clock.now());
  const account = link?.account_id == null ? undefined : await findAccount(query, link.account_id);
  return link === undefined || account === undefined ? undefined : { link, account };
}

interface PasswordForm {
  readonly browser: Browser;
  /** The secret of the link that leads here. */
  readonly once: string;
  readonly account: AccountRow;
  readonly mistake?: string;
}

/** A new password for someone who has forgotten theirs. */
function sendPasswordForm(
  { context }: AuthorizationServer,
  reply: FastifyReply,
  { browser, once, account: { username }, mistake }: PasswordForm,
): FastifyReply {
  const mistakes = mistake === undefined ? [] : [{ field: NEW_PASSWORD.id, message: mistake }];
  const title = 'Choose a new password';
  const main = html`<div class="stack">
<div class="stack-tight"><h1>${title}</h1><p class="soft">For <span class="mono wrap">@${username}</span>. This signs out every browser and app of this account, and removes its passkeys.</p></div>
${renderMistakes(mistakes)}
<form method="post" action="${PATH.newPassword}" class="stack" aria-label="${title}">
${hidden({ once, csrf: browser.csrfFor(undefined) })}
<input type="text" name="username" value="${username}" autocomplete="username" hidden>
${renderField(NEW_PASSWORD, mistakes)}
<div class="actions single"><button class="button primary">Set password</button></div>
</form></div>`;
  return reply
    .headers(pageHeaders())
    .send(layOut({ look: readLook(context, reply.request), title: toTitle(title, mistakes), main }));
}
