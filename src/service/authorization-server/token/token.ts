import type { FastifyReply, FastifyRequest } from 'fastify';
import { ACCESS_TOKEN_LIFETIME_S } from '../../../wire/limit.js';
import { GRANT_TYPES, type GrantType, type TokenReply } from '../../../wire/oauth.js';
import { signAccessToken } from '../../access-token/sign.js';
import { findOAuthClient } from '../../store/oauth-client-rows.js';
import { undoRotation } from '../../store/refresh-rows.js';
import { bodyOf } from '../api-scope.js';
import { networkOf } from '../network-of.js';
import { OAuthError } from '../oauth-error.js';
import { type Parameters, readParameters } from '../parameters.js';
import { hashSecret } from '../secret.js';
import type { AuthorizationServer } from '../server.js';
import { authenticateClient, refuseBasic } from './authenticate-client.js';
import { grantAuthorizationCode } from './authorization-code.js';
import { grantClientCredentials } from './client-credentials.js';
import { watchDelivery } from './delivery.js';
import type { Grant, Granted } from './grant.js';
import { grantRefreshToken } from './refresh-token.js';

const GRANT: Record<GrantType, Grant> = {
  client_credentials: grantClientCredentials,
  authorization_code: grantAuthorizationCode,
  refresh_token: grantRefreshToken,
};

/** POST /token: form → client → limit → grant → access token (spec: POST /token). */
export async function answerToken(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const parameters = readParameters(bodyOf(request));
  if (parameters.isRepeating) throw new OAuthError('invalid_request', 'A parameter was sent more than once.');
  refuseBasic(request.headers.authorization, parameters);
  const grantType = requireGrantType(parameters.one('grant_type'));
  await countAttempt(server, parameters, networkOf(request.ip));
  if (grantType === 'refresh_token') return answerRefresh(server, parameters, reply);
  const granted = await runGrant(server, GRANT[grantType], parameters);
  return reply.send(await toTokenReply(server, granted));
}

/**
 * A rotation is complete when its answer was written (spec: Refresh). If the connection went away before, or no access
 * token could be signed, the successor is taken back and the presented token counts again.
 */
async function answerRefresh(
  server: AuthorizationServer,
  parameters: Parameters,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const delivery = watchDelivery(reply.raw);
  const presentedHash = hashSecret(parameters.one('refresh_token') ?? '');
  const leave = await server.rotations.enter(presentedHash);
  let rotatedTo: string | undefined;
  try {
    const granted = await runGrant(server, GRANT.refresh_token, parameters, () => reply.raw.destroyed);
    rotatedTo = granted.refreshToken;
    const body = await toTokenReply(server, granted);
    void settle(server, delivery, { presentedHash, rotatedTo }).finally(leave);
    return reply.send(body);
  } catch (error) {
    await settle(server, Promise.resolve(false), { presentedHash, rotatedTo }).finally(leave);
    throw error;
  }
}

async function settle(
  { context }: AuthorizationServer,
  delivery: Promise<boolean>,
  rotation: { readonly presentedHash: string; readonly rotatedTo: string | undefined },
): Promise<void> {
  const { presentedHash, rotatedTo } = rotation;
  if ((await delivery) || rotatedTo === undefined) return;
  try {
    const successorHash = hashSecret(rotatedTo);
    const isUndone = await context.database.write((transaction) =>
      undoRotation(transaction, presentedHash, successorHash),
    );
    context.log.info('rotation_undone', { isUndone });
  } catch (error) {
    context.log.error('rotation_not_undone', error);
  }
}

/** Nothing is granted to a caller that is gone: its next try may have come first, and this one would count as a theft. */
async function runGrant(
  server: AuthorizationServer,
  grant: Grant,
  parameters: Parameters,
  isGone: () => boolean = () => false,
): Promise<Granted> {
  const { context } = server;
  const outcome = await context.database.write(async (transaction) => {
    if (isGone()) throw new OAuthError('invalid_request', 'The connection was closed before an answer.');
    const client = await authenticateClient(transaction, parameters);
    return grant(context, transaction, { parameters, client });
  });
  if (outcome.kind === 'refused') throw outcome.error;
  return outcome.granted;
}

async function toTokenReply(server: AuthorizationServer, granted: Granted): Promise<TokenReply> {
  return {
    access_token: await signAccessToken(server.context, server.keys, granted),
    token_type: 'Bearer',
    expires_in: ACCESS_TOKEN_LIFETIME_S,
    ...(granted.isScopeShown && { scope: granted.scopes.join(' ') }),
    ...(granted.refreshToken !== undefined && { refresh_token: granted.refreshToken }),
    ...(granted.agentHandle !== null && { agent_handle: granted.agentHandle.slice(1) }),
  };
}

/**
 * Every try counts for the client and the address it comes from, so that nobody can use up another's limit by failing.
 * Clients that are not there count as one: whoever invents them must not leave a count behind for each.
 */
async function countAttempt({ context }: AuthorizationServer, parameters: Parameters, address: string): Promise<void> {
  const clientId = parameters.one('client_id');
  if (clientId === undefined || !context.settings.areLimitsOn) return;
  const client = await context.database.read((query) => findOAuthClient(query, clientId));
  await context.limits.take('issueToken', hashSecret(`${client?.id ?? ''} ${address}`));
}

function requireGrantType(grantType: string | undefined): GrantType {
  if (grantType === undefined) throw new OAuthError('invalid_request', 'The grant_type parameter is missing.');
  const known = GRANT_TYPES.find((candidate) => candidate === grantType);
  if (known === undefined) throw new OAuthError('unsupported_grant_type', 'This grant type is not supported.');
  return known;
}
