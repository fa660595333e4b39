import type { FastifyReply, FastifyRequest } from 'fastify';

import { pageHeaders } from '../../pages/layout.js';
import { renderErrorPage } from '../../pages/message-page.js';
import { renderNewPasswordPage } from '../../pages/sign-in-page.js';
import { type AccountRow, findAccount } from '../../store/account-rows.js';
import type { Query } from '../../store/database.js';
import { type EntryLinkRow, findEntryLink, useEntryLink } from '../../store/entry-link-rows.js';
import { placeOf, redirect } from '../api-scope.js';
import { PATH } from '../metadata.js';
import { queryOf, readParameters } from '../parameters.js';
import { hashSecret } from '../secret.js';
import type { AuthorizationServer } from '../server.js';
import { type Browser, meetBrowser } from './browser.js';
import { enterAs } from './enter-as.js';
import { findPasswordMistake, hashPassword } from './password.js';
import { setPassword } from './set-password.js';
import { readForm } from './sign-in.js';

/** The page that a link of the operator leads to. To look at it does not use the link up. */
export async function showNewPassword(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const once = readParameters(queryOf(request.raw.url ?? '')).one('once') ?? '';
  const found = await server.context.database.read((query) => findLinked(server, query, once));
  if (found === undefined) return refuse(server, reply);
  return show(server, reply, { browser: meetBrowser(server, request, reply), once, account: found.account });
}

/** Sets the password, signs everybody out, and signs this browser in. */
export async function setNewPassword(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { context } = server;
  const { form, browser } = readForm(server, request);
  const once = form.one('once') ?? '';
  const found = await context.database.read((query) => findLinked(server, query, once));
  if (found === undefined) return refuse(server, reply);
  const { account } = found;
  const password = form.one('password') ?? '';
  const mistake = findPasswordMistake(password, account.username);
  if (mistake !== undefined) return show(server, reply.code(400), { browser, once, account, mistake });
  const passwordHash = await hashPassword(password);
  const isSet = await context.database.write(async (transaction) => {
    if (!(await useEntryLink(transaction, found.link.id, account.id, context.clock.now()))) return false;
    await setPassword(context, transaction, { accountId: account.id, passwordHash });
    return true;
  });
  if (!isSet) return refuse(server, reply);
  await enterAs(server, reply, browser, account);
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

interface Shown {
  readonly browser: Browser;
  readonly once: string;
  readonly account: AccountRow;
  readonly mistake?: string;
}

function show(
  server: AuthorizationServer,
  reply: FastifyReply,
  { browser, once, account, mistake }: Shown,
): FastifyReply {
  const page = renderNewPasswordPage({
    place: placeOf(server),
    csrf: browser.csrfFor(undefined),
    path: PATH.newPassword,
    once,
    username: account.username,
    mistakes: mistake === undefined ? [] : [{ field: 'new-password', message: mistake }],
  });
  return reply.headers(pageHeaders()).send(page);
}

function refuse(server: AuthorizationServer, reply: FastifyReply): FastifyReply {
  const page = renderErrorPage({
    place: placeOf(server),
    title: 'This link has expired',
    message: 'Links that set a password work once, for one hour.',
    advice: 'Ask the operator of this service for a new one.',
    code: 'access_denied',
    onward: { href: PATH.signIn, label: 'Sign in' },
  });
  return reply.code(403).headers(pageHeaders()).send(page);
}
