import { REFRESH_TOKEN_IDLE_LIFETIME_S } from '../../../wire/limit.js';
import { secretLock } from '../../store/lock-names.js';
import {
  findRefreshToken,
  markRefreshFamilyUsed,
  markRefreshTokenRotated,
  revokeRefreshFamily,
} from '../../store/refresh-rows.js';
import { OAuthError } from '../oauth-error.js';
import { requireResources } from '../requested-resource.js';
import { narrowScopes, parseScopes } from '../requested-scope.js';
import { hashSecret } from '../secret.js';
import { type Grant, takeFromLimit } from './grant.js';
import { addRefreshToken, findGrantee } from './refresh-family.js';

/**
 * Rotates a refresh token (spec: Refresh). Scope and resource are looked at before anything is consumed; a token that
 * was rotated before ends its family; another client's attempt changes nothing.
 */
export const grantRefreshToken: Grant = async (context, transaction, { parameters, client }) => {
  const now = context.clock.now();
  const presented = parameters.one('refresh_token');
  if (presented === undefined) throw new OAuthError('invalid_request', 'The refresh_token parameter is missing.');
  await transaction.lock([secretLock(hashSecret(presented))]);
  const family = await findRefreshToken(transaction, hashSecret(presented));
  if (family === undefined || family.client_id !== client.id) throw invalidToken('unknown, or of another client');
  if (family.revoked_at !== null) throw invalidToken('family is revoked');
  if (now > family.last_used_at + REFRESH_TOKEN_IDLE_LIFETIME_S * 1000) throw invalidToken('expired');
  if (family.rotated_at !== null) {
    await revokeRefreshFamily(transaction, family.id, now);
    return { kind: 'refused', error: invalidToken('rotated before: family revoked') };
  }
  const scopes = narrowScopes(parameters.one('scope'), parseScopes(family.scope));
  const resources = requireResources(parameters, JSON.parse(family.resources) as string[]);
  const grantee = await findGrantee(transaction, family);
  if (grantee === undefined) throw invalidToken('account or agent was removed');
  await takeFromLimit(context, client);

  if (!(await markRefreshTokenRotated(transaction, family.token_hash, now))) {
    await revokeRefreshFamily(transaction, family.id, now);
    return { kind: 'refused', error: invalidToken('rotated meanwhile: family revoked') };
  }
  if (!(await markRefreshFamilyUsed(transaction, family.id, now))) throw invalidToken('family was revoked meanwhile');
  return {
    kind: 'granted',
    granted: {
      clientId: client.id,
      accountId: family.account_id,
      agentId: family.agent_id,
      agentHandle: grantee.agentHandle,
      grantId: family.id,
      scopes,
      resources,
      isScopeShown: false,
      refreshToken: await addRefreshToken(context, transaction, family.id, family.token_hash),
    },
  };
};

/** One answer for every reason (spec: Authentication failures). */
function invalidToken(detail: string): OAuthError {
  return new OAuthError('invalid_client', 'The refresh token is not valid. A new authorization is needed.', detail);
}
