import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AUTHORIZATION_REQUEST_LIFETIME_S, REFRESH_TOKEN_IDLE_LIFETIME_S } from '../../wire/limit.js';
import { MCP_PATH } from '../../wire/mcp.js';
import { RESOURCE_METADATA_PATH, SERVER_METADATA_PATH } from '../../wire/oauth.js';
import { SOCKET_PATH } from '../../wire/realtime.js';
import type { ServiceContext } from '../core/context.js';
import { GET_AND_HEAD } from '../http/answers.js';
import type { AddressBook } from '../http/app.js';
import { KEY_SET_MAX_AGE_S } from '../oauth/access-tokens.js';
import { mcpMetadata, PATH, restMetadata, serverMetadata, socketMetadata } from '../oauth/metadata.js';
import type { OAuthError } from '../oauth/parameters.js';
import { answerRegister } from '../oauth/register.js';
import { answerRevoke } from '../oauth/revoke.js';
import {
  type AuthorizationServer,
  type AuthorizationServerOptions,
  createAuthorizationServer,
} from '../oauth/server.js';
import { answerToken } from '../oauth/token.js';
import { UNUSED_CLIENT_KEPT_MS } from '../oauth/unused-clients.js';
import { deleteEntryLinksExpiredBefore } from '../store/accounts.js';
import { deleteActivitiesBefore } from '../store/activities.js';
import {
  deleteAuthorizationCodesBefore,
  deleteAuthorizationRequestsBefore,
  deleteRefreshFamiliesUnusedSince,
} from '../store/authorizations.js';
import { deleteAccountSessionsExpiredBefore } from '../store/browser-sessions.js';
import { deleteUnusedOAuthClients } from '../store/oauth-clients.js';
import { deleteOperatorActionsBefore } from '../store/operator.js';
import { deleteUsedChallengesBefore } from '../store/passkeys.js';
import { deleteShareLinksExpiredBefore } from '../store/share-links.js';
import {
  acceptTypes,
  answerOAuthError,
  createPageTurns,
  FORM_TYPE,
  methodRefusal,
  sendFailurePage,
} from './api-scope.js';
import { approveLocally, decide, notLocal, showAuthorization, showStoredRequest } from './authorize.js';
import { describeDuration } from './form.js';
import { TOUCH_ICON } from './html.js';
import {
  enterByLink,
  setNewPassword,
  showNewPassword,
  showSignIn,
  signIn,
  signInWithPasskey,
  signOut,
  signUp,
} from './sign-in.js';

const PUBLISHED = `public, max-age=${KEY_SET_MAX_AGE_S}`;
/** Safari asks for this address on its own, so no page names it and the policy of the pages need not allow it. */
const TOUCH_ICON_PATH = '/apple-touch-icon.png';

/** Mounts the authorization server on the service's app. Everything it installs stays within its own scopes. */
export function registerAuthorizationServer(
  { fastify, otherMethods }: AddressBook,
  context: ServiceContext,
  options: AuthorizationServerOptions,
): AuthorizationServer {
  const server = createAuthorizationServer(context, options);
  fastify.register(async (scope) => registerPublished(scope, server));
  fastify.register(async (scope) => registerForms(scope, server));
  fastify.register(async (scope) => registerRegistration(scope, server));
  fastify.register(async (scope) => registerPages(scope, server));
  for (const path of [PATH.token, PATH.revoke, PATH.register])
    otherMethods.refuse(path, (request, reply, route) =>
      answerOAuthError(context.log, methodRefusal(['POST']), request, reply.headers(API_HEADERS), route),
    );
  for (const [path, allowed] of PAGE_METHODS)
    otherMethods.refuse(path, (request, reply, route) =>
      answerPageError(server, methodRefusal(allowed), request, reply, route),
    );
  return server;
}

/** Public documents, which caches may keep for a while. */
function registerPublished(scope: FastifyInstance, server: AuthorizationServer): void {
  const { addresses } = server.context.settings;
  const toPath = (resource: string): string => new URL(resource).pathname;
  const documents: Record<string, () => unknown> = {
    [SERVER_METADATA_PATH]: () => serverMetadata(addresses),
    // Below each resource, and where RFC 9728 §3.1 puts it.
    [`/v1${RESOURCE_METADATA_PATH}`]: () => restMetadata(addresses, server.context.database.epoch().token),
    [`${RESOURCE_METADATA_PATH}${toPath(addresses.baseUrl)}`]: () =>
      restMetadata(addresses, server.context.database.epoch().token),
    [`${SOCKET_PATH}${RESOURCE_METADATA_PATH}`]: () => socketMetadata(addresses),
    [`${RESOURCE_METADATA_PATH}${toPath(addresses.wsUrl)}`]: () => socketMetadata(addresses),
    [`${MCP_PATH}${RESOURCE_METADATA_PATH}`]: () => mcpMetadata(addresses),
    [`${RESOURCE_METADATA_PATH}${toPath(addresses.mcpUrl)}`]: () => mcpMetadata(addresses),
    [PATH.keySet]: () => server.keys.publicKeySet(),
  };
  for (const [path, read] of Object.entries(documents)) {
    scope.get(path, GET_AND_HEAD, async (_request, reply) =>
      reply.headers({ 'cache-control': PUBLISHED, 'x-content-type-options': 'nosniff' }).send(await read()),
    );
  }
  scope.get(TOUCH_ICON_PATH, async (_request, reply) =>
    reply
      .headers({ 'cache-control': PUBLISHED, 'content-type': 'image/png', 'x-content-type-options': 'nosniff' })
      .send(TOUCH_ICON),
  );
}

function registerForms(scope: FastifyInstance, server: AuthorizationServer): void {
  prepareApi(scope, server, [FORM_TYPE]);
  scope.post(PATH.token, async (request, reply) => answerToken(server, request, reply));
  scope.post(PATH.revoke, async (request, reply) => answerRevoke(server, request, reply));
}

function registerRegistration(scope: FastifyInstance, server: AuthorizationServer): void {
  prepareApi(scope, server, ['application/json']);
  scope.post(PATH.register, async (request, reply) => answerRegister(server, request, reply));
}

const API_HEADERS = { 'cache-control': 'no-store', pragma: 'no-cache', 'x-content-type-options': 'nosniff' } as const;

function prepareApi(scope: FastifyInstance, { context }: AuthorizationServer, types: string[]): void {
  acceptTypes(scope, types);
  scope.setErrorHandler((error, request, reply) => answerOAuthError(context.log, error, request, reply));
  scope.addHook('onRequest', async (_request, reply) => {
    reply.headers(API_HEADERS);
  });
}

/** HEAD is not answered like GET here, whatever the app does elsewhere. */
const GET_ALONE = { exposeHeadRoute: false } as const;

/** The pages a person sees in a browser, and the addresses of their forms. */
function registerPages(scope: FastifyInstance, server: AuthorizationServer): void {
  acceptTypes(scope, [FORM_TYPE]);
  scope.addHook('onRequest', createPageTurns());
  scope.setErrorHandler((error, request, reply) => answerPageError(server, error, request, reply));
  scope.get(PATH.authorize, GET_ALONE, async (request, reply) => showAuthorization(server, request, reply));
  scope.post(PATH.authorize, async (request, reply) =>
    isForProgram(request) ? approveHere(server, request, reply) : decide(server, request, reply),
  );
  scope.get(PATH.consent, GET_ALONE, async (request, reply) => showStoredRequest(server, request, reply));
  scope.get(PATH.signIn, GET_ALONE, async (request, reply) => showSignIn(server, request, reply));
  scope.get(PATH.signInLink, GET_ALONE, async (request, reply) => enterByLink(server, request, reply));
  scope.get(PATH.newPassword, GET_ALONE, async (request, reply) => showNewPassword(server, request, reply));
  scope.post(PATH.newPassword, async (request, reply) => setNewPassword(server, request, reply));
  scope.post(PATH.signIn, async (request, reply) => signIn(server, request, reply));
  scope.post(PATH.passkey, async (request, reply) => signInWithPasskey(server, request, reply));
  scope.post(PATH.signUp, async (request, reply) => signUp(server, request, reply));
  scope.post(PATH.signOut, async (request, reply) => signOut(server, request, reply));
}

const PAGE_METHODS: readonly (readonly [path: string, allowed: readonly string[]])[] = [
  ...[PATH.authorize, PATH.signIn, PATH.newPassword].map((path) => [path, ['GET', 'POST']] as const),
  ...[PATH.consent, PATH.signInLink].map((path) => [path, ['GET']] as const),
  ...[PATH.passkey, PATH.signUp, PATH.signOut].map((path) => [path, ['POST']] as const),
];

/** Behind a proxy, every caller looks local here. There, the operator's own address approves. */
function approveHere(server: AuthorizationServer, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  if (server.context.settings.isBehindProxy) throw notLocal();
  return approveLocally(server, request, reply);
}

/** The authorization endpoint for programs of the OS user who runs the service, on an address that only this machine reaches. */
export function registerLocalApproval(fastify: FastifyInstance, server: AuthorizationServer): void {
  fastify.register(async (scope) => {
    prepareApi(scope, server, [FORM_TYPE]);
    scope.post(PATH.authorize, async (request, reply) => approveLocally(server, request, reply));
  });
}

/** No browser sends this header on its own. */
function isForProgram(request: FastifyRequest): boolean {
  return request.headers.authorization !== undefined;
}

const ADVICE: Record<string, string> = {
  invalid_client: 'Sign in again from the app. If this page appears again, the app must register again.',
  invalid_redirect_uri: 'Nothing was sent there. Contact the developer of the app.',
  access_denied: 'Nothing was changed. Start again from the app.',
};
const DEFAULT_ADVICE = 'Nothing was changed. Start again from the app.';

function adviceFor({ error, headers }: OAuthError): string {
  const waitS = Number(headers['retry-after']);
  if (waitS > 0) return `Nothing was changed. Wait ${describeDuration(waitS)}, then start again from the app.`;
  return ADVICE[error] ?? DEFAULT_ADVICE;
}

/** Shows the error to the person: the app's address may not be its own, so nothing is sent there. */
function answerPageError(
  server: AuthorizationServer,
  thrown: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  route?: string,
): FastifyReply {
  const { context } = server;
  if (isForProgram(request)) return answerOAuthError(context.log, thrown, request, reply, route);
  return sendFailurePage(context, thrown, reply, { event: 'page_failed', adviceFor });
}

const DAY_MS = 24 * 60 * 60 * 1000;
/** A code is valid for one minute. It is kept for a day, so that a second use is recognized. */
const CODE_KEPT_MS = DAY_MS;
/** For a while, the operator can see who signed up with an invitation. */
const ENTRY_LINK_KEPT_MS = 30 * DAY_MS;
/** The page of the activities says so. */
const ACTIVITY_KEPT_MS = 90 * DAY_MS;
/** Their page says so. */
const OPERATOR_ACTION_KEPT_MS = 365 * DAY_MS;

const UNUSED_CLIENT_PAGE = 500;

const deletePage = ({ database }: ServiceContext, now: number): Promise<number> =>
  database.write((transaction) =>
    deleteUnusedOAuthClients(transaction, now - UNUSED_CLIENT_KEPT_MS, UNUSED_CLIENT_PAGE),
  );

/** Deletes everything that has expired. */
export async function sweep(context: ServiceContext): Promise<void> {
  const now = context.clock.now();
  await context.database.write(async (transaction) => {
    await deleteAuthorizationRequestsBefore(transaction, now - AUTHORIZATION_REQUEST_LIFETIME_S * 1000);
    await deleteAuthorizationCodesBefore(transaction, now - CODE_KEPT_MS);
    await deleteAccountSessionsExpiredBefore(transaction, now);
    await deleteUsedChallengesBefore(transaction, now);
    await deleteActivitiesBefore(transaction, now - ACTIVITY_KEPT_MS);
    await deleteOperatorActionsBefore(transaction, now - OPERATOR_ACTION_KEPT_MS);
    await deleteEntryLinksExpiredBefore(transaction, now - ENTRY_LINK_KEPT_MS);
    await deleteShareLinksExpiredBefore(transaction, now);
    await deleteRefreshFamiliesUnusedSince(transaction, now - REFRESH_TOKEN_IDLE_LIFETIME_S * 1000 - DAY_MS);
  });
  // In pages: nothing else can write in the meantime.
  while ((await deletePage(context, now)) === UNUSED_CLIENT_PAGE);
}
