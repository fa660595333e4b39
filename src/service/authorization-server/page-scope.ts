import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { pageHeaders } from '../pages/layout.js';
import { renderErrorPage } from '../pages/message-page.js';
import { ServiceError } from '../service-error.js';
import { enterByLink } from './account/enter-by-link.js';
import { signIn, signOut, signUp } from './account/sign-in.js';
import { acceptTypes, answerOAuthError, asOAuthError, FORM_TYPE, refuseOtherMethods } from './api-scope.js';
import { approveLocally } from './authorize/approve-locally.js';
import { decide } from './authorize/decide.js';
import { placeOf, showAuthorization, showSignIn, showStoredRequest } from './authorize/show.js';
import { PATH } from './metadata.js';
import { OAuthError } from './oauth-error.js';
import type { AuthorizationServer } from './server.js';

/** Whatever the app does about HEAD, here it is no GET. */
const GET_ALONE = { exposeHeadRoute: false } as const;

/** What a person sees in a browser, and where its forms go. */
export function registerPages(scope: FastifyInstance, server: AuthorizationServer): void {
  acceptTypes(scope, [FORM_TYPE]);
  scope.setErrorHandler((error, request, reply) => answerPageError(server, error, request, reply));
  scope.get(PATH.authorize, GET_ALONE, async (request, reply) => showAuthorization(server, request, reply));
  scope.post(PATH.authorize, async (request, reply) =>
    isForProgram(request) ? approveLocally(server, request, reply) : decide(server, request, reply),
  );
  scope.get(PATH.consent, GET_ALONE, async (request, reply) => showStoredRequest(server, request, reply));
  scope.get(PATH.signIn, GET_ALONE, async (request, reply) => showSignIn(server, request, reply));
  scope.get(PATH.signInLink, GET_ALONE, async (request, reply) => enterByLink(server, request, reply));
  scope.post(PATH.signIn, async (request, reply) => signIn(server, request, reply));
  scope.post(PATH.signUp, async (request, reply) => signUp(server, request, reply));
  scope.post(PATH.signOut, async (request, reply) => signOut(server, request, reply));
  refuseOtherMethods(scope, PATH.authorize, ['GET', 'POST']);
  refuseOtherMethods(scope, PATH.consent, ['GET']);
  refuseOtherMethods(scope, PATH.signInLink, ['GET']);
  refuseOtherMethods(scope, PATH.signIn, ['GET', 'POST']);
  for (const path of [PATH.signUp, PATH.signOut]) refuseOtherMethods(scope, path, ['POST']);
}

/** No browser sends this header by itself. */
function isForProgram(request: FastifyRequest): boolean {
  return request.headers.authorization !== undefined;
}

const ADVICE: Record<string, string> = {
  invalid_client: 'Sign in again from the application. If this page comes back, the application must register again.',
  invalid_redirect_uri: 'Nothing was sent there. Tell whoever made the application.',
  slow_down: 'Nothing was changed. Wait a few minutes, then start again from the application.',
  access_denied: 'Nothing was changed. Start again from the application.',
};
const DEFAULT_ADVICE = 'Nothing was changed. Start again from the application.';

/** Nothing is sent to an application whose address may not be its own: the person sees what went wrong. */
function answerPageError(
  server: AuthorizationServer,
  thrown: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const { log } = server.context;
  if (isForProgram(request)) return answerOAuthError(log, thrown, request, reply);
  const known = asOAuthError(thrown);
  if (known === undefined && thrown instanceof ServiceError) throw thrown;
  if (known === undefined) log.error('page_failed', thrown);
  const error = known ?? new OAuthError('server_error', 'Something went wrong. It is safe to try again.');
  const page = renderErrorPage({
    place: placeOf(server),
    title: error.status >= 500 ? 'Something went wrong' : 'This request cannot be completed',
    message: error.description,
    advice: ADVICE[error.error] ?? DEFAULT_ADVICE,
    code: error.error,
  });
  return reply
    .code(error.status)
    .headers({ ...pageHeaders(), ...error.headers })
    .send(page);
}
