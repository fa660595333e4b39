import { findAgent } from '../../store/agent-rows.js';
import { markOAuthClientUsed } from '../../store/oauth-client-rows.js';
import { OAuthError } from '../oauth-error.js';
import { listResources, requireResources } from '../requested-resource.js';
import { narrowScopes, parseScopes } from '../requested-scope.js';
import { invalidClient } from './authenticate-client.js';
import { type Grant, takeFromLimit } from './grant.js';

/** A confidential client acts as the one agent it was made for; `sub` is that agent's account (spec: Flows). */
export const grantClientCredentials: Grant = async (context, transaction, { parameters, client }) => {
  if (client.account_id === null || client.agent_id === null) {
    throw new OAuthError('unauthorized_client', 'This client cannot use the client_credentials grant.');
  }
  const agent = await findAgent(transaction, client.agent_id);
  if (agent === undefined) throw invalidClient('agent was removed');
  const scopes = narrowScopes(parameters.one('scope'), parseScopes(client.scope));
  const resources = requireResources(parameters, listResources(context.settings.addresses));
  await takeFromLimit(context, client);
  await markOAuthClientUsed(transaction, client.id, context.clock.now());
  return {
    kind: 'granted',
    granted: {
      clientId: client.id,
      accountId: client.account_id,
      agentId: agent.id,
      agentHandle: agent.handle,
      grantId: client.id,
      scopes,
      resources,
      isScopeShown: true,
      refreshToken: undefined,
    },
  };
};
