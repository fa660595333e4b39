import type { FastifyInstance } from 'fastify';

import { RESOURCE_METADATA_PATH, SERVER_METADATA_PATH } from '../../wire/oauth.js';
import { KEY_SET_MAX_AGE_S } from '../access-token/signing-keys.js';
import type { ServiceContext } from '../context.js';
import { acceptTypes, answerOAuthError, FORM_TYPE, refuseOtherMethods } from './api-scope.js';
import { PATH, resourceMetadata, serverMetadata } from './metadata.js';
import { registerPages } from './page-scope.js';
import { answerRegister } from './register.js';
import { answerRevoke } from './revoke.js';
import { type AuthorizationServer, type AuthorizationServerOptions, createAuthorizationServer } from './server.js';
import { sweepRegularly } from './sweep.js';
import { answerToken } from './token/token.js';

const PUBLISHED = `public, max-age=${KEY_SET_MAX_AGE_S}`;

/** Mounts the authorization server on the service's app; whatever it installs stays within its own scopes. */
export function registerAuthorizationServer(
  app: FastifyInstance,
  context: ServiceContext,
  options: AuthorizationServerOptions,
): void {
  const server = createAuthorizationServer(context, options);
  app.register(async (scope) => registerPublished(scope, server));
  app.register(async (scope) => registerForms(scope, server));
  app.register(async (scope) => registerRegistration(scope, server));
  app.register(async (scope) => registerPages(scope, server));
  app.register(async (scope) => {
    const stop = sweepRegularly(server);
    scope.addHook('onClose', stop);
  });
}

/** What anybody may read and keep for a while. */
function registerPublished(scope: FastifyInstance, server: AuthorizationServer): void {
  const { addresses } = server.context.settings;
  const basePath = new URL(addresses.baseUrl).pathname;
  const documents: Record<string, () => unknown> = {
    [SERVER_METADATA_PATH]: () => serverMetadata(addresses),
    // Below the resource, and where RFC 9728 §3.1 puts it.
    [`/v1${RESOURCE_METADATA_PATH}`]: () => resourceMetadata(addresses),
    [`${RESOURCE_METADATA_PATH}${basePath}`]: () => resourceMetadata(addresses),
    [PATH.keySet]: () => server.keys.publicKeySet(),
  };
  for (const [path, read] of Object.entries(documents)) {
    scope.get(path, async (_request, reply) =>
      reply.headers({ 'cache-control': PUBLISHED, 'x-content-type-options': 'nosniff' }).send(await read()),
    );
  }
}

function registerForms(scope: FastifyInstance, server: AuthorizationServer): void {
  prepareApi(scope, server, [FORM_TYPE]);
  scope.post(PATH.token, async (request, reply) => answerToken(server, request, reply));
  scope.post(PATH.revoke, async (request, reply) => answerRevoke(server, request, reply));
  for (const path of [PATH.token, PATH.revoke]) refuseOtherMethods(scope, path, ['POST']);
}

function registerRegistration(scope: FastifyInstance, server: AuthorizationServer): void {
  prepareApi(scope, server, ['application/json']);
  scope.post(PATH.register, async (request, reply) => answerRegister(server, request, reply));
  refuseOtherMethods(scope, PATH.register, ['POST']);
}

function prepareApi(scope: FastifyInstance, { context }: AuthorizationServer, types: string[]): void {
  acceptTypes(scope, types);
  scope.setErrorHandler((error, request, reply) => answerOAuthError(context.log, error, request, reply));
  scope.addHook('onRequest', async (_request, reply) => {
    reply.headers({ 'cache-control': 'no-store', pragma: 'no-cache', 'x-content-type-options': 'nosniff' });
  });
}
