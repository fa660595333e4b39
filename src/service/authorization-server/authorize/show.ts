import type { FastifyReply, FastifyRequest } from 'fastify';

import { type Handle, splitHandle } from '../../../wire/handle.js';
import { isFromThisMachine } from '../../local-peer.js';
import { NEW_AGENT, renderConsentPage } from '../../pages/consent-page.js';
import type { Mistake } from '../../pages/form.js';
import { pageHeaders } from '../../pages/layout.js';
import { renderSignedInPage } from '../../pages/message-page.js';
import { renderSignInPage, type SignInPage } from '../../pages/sign-in-page.js';
import { type AccountRow, hasPasswordAccounts } from '../../store/account-rows.js';
import { type AgentRow, findAgentByHandle, listAgentsOfAccount } from '../../store/agent-rows.js';
import type { AuthorizationRequestRow } from '../../store/authorization-rows.js';
import type { Query } from '../../store/database.js';
import type { OAuthClientRow } from '../../store/oauth-client-rows.js';
import { listLocalAccounts } from '../../store/operator-rows.js';
import { type Browser, findAccountOf, meetBrowser, readBrowser } from '../account/browser.js';
import { readReturnAddress } from '../account/return-address.js';
import { PATH } from '../metadata.js';
import { networkOf } from '../network-of.js';
import { queryOf, readParameters } from '../parameters.js';
import { isForAccount, parseScopes } from '../requested-scope.js';
import type { AuthorizationServer } from '../server.js';
import { takeAttempt } from '../take-attempt.js';
import { answerUnaskedError, redirect } from './authorization-answer.js';
import { readAuthorizationRequest, requireClient, requireRedirectUri } from './authorization-request.js';
import { requireStoredRequest, storeRequest } from './stored-request.js';

/** GET authorization endpoint: shows a page and grants nothing. */
export async function showAuthorization(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { context } = server;
  const parameters = readParameters(queryOf(request.raw.url ?? ''));
  const read = await context.database.read((query) => readAuthorizationRequest(context, query, parameters));
  if (read.kind === 'refused') return answerUnaskedError(server, reply, read.address, read.error);
  if (context.settings.areLimitsOn) takeAttempt(server.authorizations, networkOf(request.ip));
  const browser = meetBrowser(server, request, reply);
  const { id, row } = await storeRequest(context, read.request, browser);
  return showRequest(server, reply, { browser, id, row, client: read.request.client });
}

/** The page of a stored request, again. */
export async function showStoredRequest(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { context } = server;
  const id = readParameters(queryOf(request.raw.url ?? '')).one('request');
  const browser = readBrowser(server, request);
  const { row, client } = await context.database.read(async (query) => {
    const stored = await requireStoredRequest(context, query, browser, id);
    const known = await requireClient(query, stored.client_id);
    requireRedirectUri(known, stored.redirect_uri);
    return { row: stored, client: known };
  });
  if (browser === undefined || id === undefined) throw new Error('a stored request without its browser');
  return showRequest(server, reply, { browser, id, row, client });
}

/** Signing in without an application that waits. */
export async function showSignIn(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const browser = meetBrowser(server, request, reply);
  const account = await server.context.database.read((query) => findAccountOf(server, query, browser));
  const returnTo = readParameters(queryOf(request.raw.url ?? '')).one('return_to');
  if (account === undefined) return sendSignInPage(server, reply, { browser, waiting: undefined, returnTo });
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

/** A request and the browser that is to answer it. */
export interface ShownRequest {
  readonly browser: Browser;
  readonly id: string;
  readonly row: AuthorizationRequestRow;
  readonly client: OAuthClientRow;
}

async function showRequest(
  server: AuthorizationServer,
  reply: FastifyReply,
  shown: ShownRequest,
): Promise<FastifyReply> {
  const account = await server.context.database.read((query) => findAccountOf(server, query, shown.browser));
  if (account !== undefined) return sendConsentPage(server, reply, shown, account);
  return sendSignInPage(server, reply, {
    browser: shown.browser,
    waiting: { id: shown.id, clientName: shown.client.name },
    returnTo: undefined,
  });
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
    form: isFirstUse ? 'sign-up' : 'sign-in',
    hasLocalAccounts: hasLocal,
    mistakes: [],
    filled: {},
    ...correction,
  });
  return reply.headers(pageHeaders()).send(page);
}

/** What the person chose, to be shown again after a mistake. */
export interface ConsentCorrection {
  readonly mistakes: readonly Mistake[];
  readonly chosen: string | undefined;
  readonly filled: { readonly name?: string; readonly displayName?: string };
}

export async function sendConsentPage(
  server: AuthorizationServer,
  reply: FastifyReply,
  { browser, id, row, client }: ShownRequest,
  account: AccountRow,
  correction?: ConsentCorrection,
): Promise<FastifyReply> {
  const scopes = parseScopes(row.scope);
  const agents = isForAccount(scopes)
    ? undefined
    : await server.context.database.read(listFor(account, row.agent_handle));
  const { host, origin, hostname } = new URL(row.redirect_uri);
  const isLoopback = row.redirect_uri.startsWith('http:');
  const page = renderConsentPage({
    place: placeOf(server),
    request: id,
    csrf: browser.csrfFor(id),
    decidePath: PATH.authorize,
    signOutPath: PATH.signOut,
    clientName: client.name,
    returnsTo: host,
    isLoopback,
    scopes,
    account: { username: account.username, displayName: account.display_name },
    agents: agents?.map(({ handle, display_name }) => ({ handle, displayName: display_name })),
    mistakes: [],
    ...preselect(row.agent_handle, account, agents ?? []),
    ...correction,
  });
  // A source list cannot name an IPv6 address (CSP 3 §2.3.1).
  return reply.headers(pageHeaders([hostname.startsWith('[') ? new URL(origin).protocol : origin])).send(page);
}

/** As many as can be shown, and the one that was asked for in any case. */
const listFor =
  (account: AccountRow, asked: Handle | null) =>
  async (query: Query): Promise<AgentRow[]> => {
    const agents = await listAgentsOfAccount(query, account.id);
    if (asked === null || agents.some(({ handle }) => handle === asked)) return agents;
    const named = await findAgentByHandle(query, asked);
    return named?.account_id === account.id ? [named, ...agents] : agents;
  };

/** The agent that was asked for, or the only one there is; else the person chooses. */
function preselect(asked: Handle | null, account: AccountRow, agents: readonly AgentRow[]) {
  const [first, ...others] = agents;
  if (asked !== null) {
    const { owner, name } = splitHandle(asked);
    if (agents.some(({ handle }) => handle === asked)) return { chosen: asked, missingHandle: undefined, filled: {} };
    const isOwn = owner === account.username;
    return {
      chosen: isOwn || first === undefined ? NEW_AGENT : undefined,
      missingHandle: asked,
      filled: isOwn ? { name } : {},
    };
  }
  const chosen = first === undefined ? NEW_AGENT : others.length === 0 ? first.handle : undefined;
  return { chosen, missingHandle: undefined, filled: {} };
}

export function placeOf({ context }: AuthorizationServer): string {
  return new URL(context.settings.addresses.webUrl).host;
}
