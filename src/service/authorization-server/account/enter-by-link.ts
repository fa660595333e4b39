import type { FastifyReply, FastifyRequest } from 'fastify';

import { isFromThisMachine } from '../../local-peer.js';
import { pageHeaders } from '../../pages/layout.js';
import { renderErrorPage } from '../../pages/message-page.js';
import { findAccount } from '../../store/account-rows.js';
import { placeOf, redirect } from '../api-scope.js';
import { PATH } from '../metadata.js';
import { queryOf, readParameters } from '../parameters.js';
import type { AuthorizationServer } from '../server.js';
import { readBrowser } from './browser.js';
import { enterAs } from './enter-as.js';

/** Signs in the browser that brings a link which the operator has made, and which nobody has used yet. */
export async function enterByLink(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { database } = server.context;
  const secret = readParameters(queryOf(request.raw.url ?? '')).one('once');
  const isHere = isFromThisMachine(request.raw);
  const accountId = isHere && secret !== undefined ? server.signInLinks.take(secret) : undefined;
  if (accountId === undefined) return refuse(server, reply);
  const account = await database.read((query) => findAccount(query, accountId));
  if (account?.is_local !== 1) return refuse(server, reply);
  await enterAs(server, reply, readBrowser(server, request), account);
  return redirect(reply, PATH.dashboard);
}

function refuse(server: AuthorizationServer, reply: FastifyReply): FastifyReply {
  const page = renderErrorPage({
    place: placeOf(server),
    title: 'This link has expired',
    message: 'Sign-in links work once, for one minute, on the machine that created them.',
    advice: 'Run “asp serve open” again for a new one.',
    code: 'access_denied',
    onward: { href: PATH.signIn, label: 'Sign in' },
  });
  return reply.code(403).headers(pageHeaders()).send(page);
}
