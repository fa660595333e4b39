import type { FastifyReply, FastifyRequest } from 'fastify';

import { HandlePart } from '../../../wire/handle.js';
import { createAccount } from '../../agents/create-account.js';
import { isFromThisMachine } from '../../local-peer.js';
import { durationInWords, type Mistake } from '../../pages/form.js';
import { pageHeaders } from '../../pages/layout.js';
import { renderSignedInPage } from '../../pages/message-page.js';
import { renderSignInPage, type SignInPage } from '../../pages/sign-in-page.js';
import { ServiceError } from '../../service-error.js';
import { type AccountRow, hasPasswordAccounts } from '../../store/account-rows.js';
import { deleteAccountSession } from '../../store/account-session-rows.js';
import { rebindAuthorizationRequests } from '../../store/authorization-rows.js';
import { findEntryLink, useEntryLink } from '../../store/entry-link-rows.js';
import { findOAuthClient } from '../../store/oauth-client-rows.js';
import { listLocalAccounts } from '../../store/operator-rows.js';
import { bodyOf, placeOf, redirect } from '../api-scope.js';
import { requireStoredRequest } from '../authorization-request.js';
import { PATH } from '../metadata.js';
import { type Parameters, queryOf, readParameters } from '../parameters.js';
import { hashSecret } from '../secret.js';
import { type AuthorizationServer, takeForAddress } from '../server.js';
import { type Browser, findAccountOf, isCsrfOf, meetBrowser, readBrowser, renewBrowser } from './browser.js';
import { checkPassword } from './check-password.js';
import { enterAs } from './enter-as.js';
import { findPasswordMistake, hashPassword } from './password.js';
import { readReturnAddress } from './return-address.js';
import { forgedForm, requireSameOrigin } from './same-origin.js';

const DISPLAY_NAME_MAX_LENGTH = 100;

/** A form of the sign-in page that came from that page. */
export interface SentForm {
  readonly form: Parameters;
  readonly browser: Browser;
  readonly request: string | undefined;
}

/** Signing in without an application that waits. */
export async function showSignIn(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const browser = meetBrowser(server, request, reply);
  const account = await server.context.database.read((query) => findAccountOf(server, query, browser));
  const asked = readParameters(queryOf(request.raw.url ?? ''));
  const returnTo = asked.one('return_to');
  const invitation = asked.one('invitation');
  if (account === undefined)
    return sendSignInPage(
      server,
      reply,
      { browser, waiting: undefined, returnTo },
      invitation === undefined ? {} : { form: 'sign-up', filled: { invitation } },
    );
  if (returnTo !== undefined) return redirect(reply, readReturnAddress(returnTo));
  const page = renderSignedInPage({
    place: placeOf(server),
    csrf: browser.csrfFor(undefined),
    signOutPath: PATH.signOut,
    dashboardPath: PATH.dashboard,
    account: { username: account.username, displayName: account.display_name },
  });
  return reply.headers(pageHeaders()).send(page);
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
      mistakes: [{ field: 'username', message: 'The username or the password is not right.' }],
      filled: { username },
    });
  }
  const { account } = checked;
  if (account.suspended_at !== null) {
    server.context.log.security?.('sign_in_failed', { account: username, address: request.ip, outcome: 'suspended' });
    return showAgain(server, reply.code(403), sent, {
      form: 'sign-in',
      mistakes: [{ message: 'This account is suspended. Contact the operator of this service.' }],
      filled: { username },
    });
  }
  return enter(server, reply, sent, account);
}

/** Makes an account and signs in as it. */
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
  const waitS = await waitOf(takeForAddress(context, 'signUp', request));
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
      return made;
    });
    context.log.security?.('signed_up', { account: username, address: request.ip, outcome: 'done' });
    return enter(server, reply, sent, account);
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'FORBIDDEN')
      return showAgain(server, reply.code(403), sent, { form: 'sign-up', mistakes: [NOT_INVITED], filled });
    if (!(error instanceof ServiceError) || error.code !== 'DUPLICATE_HANDLE') throw error;
    const taken = { field: 'new-username', message: 'This username is taken. Choose another.' };
    return showAgain(server, reply.code(400), sent, { form: 'sign-up', mistakes: [taken], filled });
  }
}

const NOT_INVITED: Mistake = {
  field: 'invitation',
  message: 'This invitation does not exist, has expired or was used. Ask the operator of this service for one.',
};

function refuseSignUp(server: AuthorizationServer, reply: FastifyReply, sent: SentForm): Promise<FastifyReply> {
  const mistakes = [{ message: 'This service takes no new accounts. Contact its operator.' }];
  return showAgain(server, reply.code(403), sent, { form: 'sign-in', mistakes });
}

/** Signs out; a request that waits is asked of whoever signs in next. */
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
  return goOn(reply, sent, PATH.signIn);
}

export function readForm(server: AuthorizationServer, request: FastifyRequest): SentForm {
  requireSameOrigin(server, request);
  const form = readParameters(bodyOf(request));
  const browser = readBrowser(server, request);
  const id = form.one('request');
  if (browser === undefined || !isCsrfOf(browser, id, form.one('csrf'))) throw forgedForm('csrf');
  return { form, browser, request: id };
}

async function enter(
  server: AuthorizationServer,
  reply: FastifyReply,
  sent: SentForm,
  account: AccountRow,
): Promise<FastifyReply> {
  await enterAs(server, reply, sent.browser, account);
  return goOn(reply, sent, readReturnAddress(sent.form.one('return_to')));
}

/** To the application's request, where one waits. */
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
    mistakes.push({ field: 'new-display-name', message: 'Enter your name, 100 characters at most.' });
  }
  const passwordMistake = findPasswordMistake(password, username);
  if (passwordMistake !== undefined) mistakes.push({ field: 'new-password', message: passwordMistake });
  return mistakes;
}

/** Whole seconds until a call can be taken; 0 when it was taken. */
async function waitOf(taken: Promise<void>): Promise<number> {
  try {
    await taken;
    return 0;
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'RATE_LIMITED') return error.options.retryAfterS ?? 1;
    throw error;
  }
}

async function refuseHurry(
  server: AuthorizationServer,
  reply: FastifyReply,
  sent: SentForm,
  { form, waitS, filled }: Pick<Required<Correction>, 'form' | 'filled'> & { readonly waitS: number },
): Promise<FastifyReply> {
  const message = `Too many attempts. Try again in ${durationInWords(waitS)}.`;
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

/** What is to be shown again after a mistake. */
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
  const page = renderSignInPage({
    place: placeOf(server),
    clientName: shown.waiting?.clientName,
    request: shown.waiting?.id,
    returnTo: shown.returnTo,
    csrf: shown.browser.csrfFor(shown.waiting?.id),
    signInPath: PATH.signIn,
    signUpPath: PATH.signUp,
    signUp,
    form: isFirstUse && signUp !== 'off' ? 'sign-up' : 'sign-in',
    hasLocalAccounts: hasLocal,
    mistakes: [],
    filled: {},
    ...correction,
  });
  return reply.headers(pageHeaders()).send(page);
}
