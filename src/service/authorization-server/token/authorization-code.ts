import { AUTHORIZATION_CODE_LIFETIME_S } from '../../../wire/limit.js';
import {
  type AuthorizationCodeRow,
  findAuthorizationCode,
  useAuthorizationCode,
} from '../../store/authorization-rows.js';
import type { Transaction } from '../../store/database.js';
import { secretLock } from '../../store/lock-names.js';
import { revokeRefreshFamily } from '../../store/refresh-rows.js';
import { OAuthError } from '../oauth-error.js';
import type { Parameters } from '../parameters.js';
import { requireResources } from '../requested-resource.js';
import { parseScopes } from '../requested-scope.js';
import { hashSecret } from '../secret.js';
import { isVerifierOf } from './code-verifier.js';
import { type Grant, type GrantOutcome, takeFromLimit } from './grant.js';
import { createFamilyId, findGrantee, startFamily } from './refresh-family.js';

/**
 * Exchanges a code, once. What is wrong with the request alone leaves the code alone; a wrong verifier or redirect URI
 * kills it, since whoever guesses must not guess twice; a second use ends what the first one got (RFC 6749 §4.1.2).
 */
export const grantAuthorizationCode: Grant = async (context, transaction, { parameters, client }) => {
  const now = context.clock.now();
  const presented = parameters.one('code');
  if (presented === undefined) throw new OAuthError('invalid_request', 'The code parameter is missing.');
  await transaction.lock([secretLock(hashSecret(presented))]);
  const code = await findAuthorizationCode(transaction, hashSecret(presented));
  if (code === undefined || code.client_id !== client.id) throw invalidGrant('unknown code, or of another client');
  if (code.used_at !== null) return refuseReuse(transaction, code, now);
  if (now >= code.created_at + AUTHORIZATION_CODE_LIFETIME_S * 1000) throw invalidGrant('expired code');
  if (!isProven(code, parameters)) {
    await useAuthorizationCode(transaction, code.code_hash, now, null);
    return { kind: 'refused', error: invalidGrant('wrong verifier or redirect URI') };
  }
  const resources = requireResources(parameters, JSON.parse(code.resources) as string[]);
  const grantee = await findGrantee(transaction, code);
  if (grantee === undefined) throw invalidGrant('account or agent was removed');
  await takeFromLimit(context, client);

  const familyId = createFamilyId(context);
  if (!(await useAuthorizationCode(transaction, code.code_hash, now, familyId))) {
    const used = await findAuthorizationCode(transaction, code.code_hash);
    return refuseReuse(transaction, used ?? code, now);
  }
  const refreshToken = await startFamily(context, transaction, familyId, code);
  return {
    kind: 'granted',
    granted: {
      clientId: client.id,
      accountId: code.account_id,
      agentId: code.agent_id,
      agentHandle: grantee.agentHandle,
      grantId: familyId,
      scopes: parseScopes(code.scope),
      resources,
      isScopeShown: true,
      refreshToken,
    },
  };
};

async function refuseReuse(transaction: Transaction, code: AuthorizationCodeRow, now: number): Promise<GrantOutcome> {
  if (code.family_id !== null) await revokeRefreshFamily(transaction, code.family_id, now);
  return { kind: 'refused', error: invalidGrant('code was used before') };
}

function isProven(code: AuthorizationCodeRow, parameters: Parameters): boolean {
  return (
    parameters.one('redirect_uri') === code.redirect_uri &&
    isVerifierOf(code.code_challenge, parameters.one('code_verifier'))
  );
}

function invalidGrant(detail: string): OAuthError {
  return new OAuthError('invalid_grant', 'The authorization code is not valid.', detail);
}
