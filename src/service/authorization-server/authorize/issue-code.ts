import type { ServiceContext } from '../../context.js';
import { insertAuthorizationCode } from '../../store/authorization-rows.js';
import type { Transaction } from '../../store/database.js';
import { markOAuthClientUsed } from '../../store/oauth-client-rows.js';
import { createSecret, hashSecret } from '../secret.js';

export interface ApprovedAuthorization {
  readonly clientId: string;
  readonly redirectUri: string;
  readonly scope: string;
  readonly codeChallenge: string;
  /** JSON: an array of URIs. */
  readonly resources: string;
  readonly accountId: string;
  readonly agentId: string | null;
}

/** A code for what was approved, bound to all of it. */
export async function issueCode(
  context: ServiceContext,
  transaction: Transaction,
  approved: ApprovedAuthorization,
): Promise<string> {
  const now = context.clock.now();
  const code = createSecret(context.random, 'authorizationCode');
  await insertAuthorizationCode(transaction, {
    code_hash: hashSecret(code),
    client_id: approved.clientId,
    account_id: approved.accountId,
    agent_id: approved.agentId,
    redirect_uri: approved.redirectUri,
    scope: approved.scope,
    code_challenge: approved.codeChallenge,
    resources: approved.resources,
    created_at: now,
    used_at: null,
    family_id: null,
  });
  await markOAuthClientUsed(transaction, approved.clientId, now);
  return code;
}
