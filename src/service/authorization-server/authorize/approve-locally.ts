import type { FastifyReply, FastifyRequest } from 'fastify';

import { isFromThisMachine } from '../../local-peer.js';
import { findAccount } from '../../store/account-rows.js';
import { findAgentByHandle } from '../../store/agent-rows.js';
import type { Query } from '../../store/database.js';
import { OAuthError } from '../oauth-error.js';
import { queryOf, readParameters } from '../parameters.js';
import { isForAccount } from '../requested-scope.js';
import { isSameSecret } from '../secret.js';
import type { AuthorizationServer } from '../server.js';
import { answerWithCode, answerWithError, denied } from './authorization-answer.js';
import { type AuthorizationRequest, readAuthorizationRequest } from './authorization-request.js';
import { issueCode } from './issue-code.js';

const BEARER = /^Bearer ([!-~]+)$/i;

/**
 * Approves an authorization request without a page, for whoever holds the secret of the local service's record: the OS
 * user that runs the service, who owns its local accounts.
 */
export async function approveLocally(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  requireLocalUser(server, request);
  const { context } = server;
  const parameters = readParameters(queryOf(request.raw.url ?? ''));
  const read = await context.database.read((query) => readAuthorizationRequest(context, query, parameters));
  if (read.kind === 'refused') return answerWithError(server, reply, read.address, read.error);
  const { request: asked } = read;
  const owner = await context.database.read((query) => findLocalOwner(query, asked));
  if (owner === undefined) {
    return answerWithError(server, reply, asked, denied('No local account of this service has that agent.'));
  }
  const code = await context.database.write((transaction) =>
    issueCode(context, transaction, {
      clientId: asked.client.id,
      redirectUri: asked.redirectUri,
      scope: asked.scopes.join(' '),
      codeChallenge: asked.codeChallenge,
      resources: JSON.stringify(asked.resources),
      accountId: owner.accountId,
      agentId: isForAccount(asked.scopes) ? null : owner.agentId,
    }),
  );
  return answerWithCode(server, reply, asked, code);
}

function requireLocalUser(server: AuthorizationServer, request: FastifyRequest): void {
  const { settings } = server.context;
  if (settings.isBehindProxy || !isFromThisMachine(request.raw)) {
    throw new OAuthError('access_denied', 'Local approval works from the same machine only.');
  }
  const given = BEARER.exec(request.headers.authorization ?? '')?.[1];
  if (given === undefined || !isSameSecret(given, server.localSecret)) {
    throw new OAuthError('access_denied', 'The secret of the local service is missing or wrong.', undefined, {
      status: 401,
      headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
    });
  }
}

/** For account scopes the handle names the account by any of its agents. */
async function findLocalOwner(
  query: Query,
  { agentHandle }: AuthorizationRequest,
): Promise<{ accountId: string; agentId: string } | undefined> {
  const agent = agentHandle === null ? undefined : await findAgentByHandle(query, agentHandle);
  const account = agent === undefined ? undefined : await findAccount(query, agent.account_id);
  if (agent === undefined || account === undefined || account.is_local !== 1) return undefined;
  return { accountId: account.id, agentId: agent.id };
}
