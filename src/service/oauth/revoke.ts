import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ServiceContext } from '../core/context.js';
import type { Transaction } from '../core/database.js';
import { closeSockets } from '../messaging/presence.js';
import { findRefreshToken, revokeRefreshFamily } from '../store/authorizations.js';
import { readPresentedClient } from './clients.js';
import { getBody, OAuthError, type Parameters, readParameters } from './parameters.js';
import { hashSecret } from './secret.js';
import type { AuthorizationServer } from './server.js';

/**
 * POST /revoke: ends the whole family of a client's own refresh token and closes the sockets opened with it. The answer is
 * the same for every token and client, known or not. Only a failing store changes it (spec: POST /revoke; RFC 7009 §2.2).
 */
export async function answerRevoke(
  { context }: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const parameters = readParameters(getBody(request));
  const clientId = findClientId(request.headers.authorization, parameters);
  const [token] = parameters.every('token');
  if (!parameters.isRepeating && token !== undefined && clientId !== undefined)
    await revokeToken(context, token, clientId);
  return reply.code(200).header('content-length', '0').send();
}

/** Only public clients have refresh tokens, so there is no secret to check. */
function findClientId(authorization: string | undefined, parameters: Parameters): string | undefined {
  try {
    return readPresentedClient(authorization, parameters).id;
  } catch (error) {
    if (error instanceof OAuthError) return undefined;
    throw error;
  }
}

/** Revokes a client's own token. Nothing happens to an unknown token or to another client's. */
export async function revokeToken(
  context: Pick<ServiceContext, 'clock' | 'database' | 'bus'>,
  token: string,
  clientId: string,
): Promise<void> {
  const { database } = context;
  const hash = hashSecret(token);
  const isOwn = await database.read(async (query) => (await findRefreshToken(query, hash))?.client_id === clientId);
  if (!isOwn) return;
  await database.write(async (transaction) => {
    const family = await findRefreshToken(transaction, hash);
    if (family !== undefined) await revokeFamily(context, transaction, family.id);
  });
}

/** Refuses the tokens of a family from now on and closes the sockets opened with them. */
export async function revokeFamily(
  { clock, bus }: Pick<ServiceContext, 'clock' | 'bus'>,
  transaction: Transaction,
  familyId: string,
): Promise<void> {
  await revokeRefreshFamily(transaction, familyId, clock.now());
  await closeSockets({ clock, bus }, transaction, [familyId]);
}
