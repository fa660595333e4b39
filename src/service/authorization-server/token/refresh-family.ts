import type { ServiceContext } from '../../context.js';
import { findAccount } from '../../store/account-rows.js';
import { findAgent } from '../../store/agent-rows.js';
import type { AuthorizationCodeRow } from '../../store/authorization-rows.js';
import type { Query, Transaction } from '../../store/database.js';
import { insertRefreshFamily, insertRefreshToken } from '../../store/refresh-rows.js';
import { createSecret, hashSecret } from '../secret.js';

const FAMILY_PREFIX = 'fam_';

export function createFamilyId(context: Pick<ServiceContext, 'ids'>): string {
  return `${FAMILY_PREFIX}${context.ids.ulid()}`;
}

/** Starts the family of an authorization, and gives its first token (spec: Refresh). */
export async function startFamily(
  context: ServiceContext,
  transaction: Transaction,
  familyId: string,
  code: AuthorizationCodeRow,
): Promise<string> {
  const now = context.clock.now();
  await insertRefreshFamily(transaction, {
    id: familyId,
    client_id: code.client_id,
    account_id: code.account_id,
    agent_id: code.agent_id,
    scope: code.scope,
    resources: code.resources,
    created_at: now,
    last_used_at: now,
    revoked_at: null,
  });
  return addRefreshToken(context, transaction, familyId, null);
}

/** The newest token of a family. */
export async function addRefreshToken(
  context: ServiceContext,
  transaction: Transaction,
  familyId: string,
  parentHash: string | null,
): Promise<string> {
  const refreshToken = createSecret(context.random, 'refreshToken');
  await insertRefreshToken(transaction, {
    token_hash: hashSecret(refreshToken),
    family_id: familyId,
    parent_hash: parentHash,
    created_at: context.clock.now(),
    rotated_at: null,
  });
  return refreshToken;
}

/** Whoever was granted something, as long as they exist; a null handle is an account's own. */
export async function findGrantee(
  query: Query,
  grant: { readonly account_id: string; readonly agent_id: string | null },
): Promise<{ agentHandle: string | null } | undefined> {
  if (grant.agent_id === null) {
    return (await findAccount(query, grant.account_id)) === undefined ? undefined : { agentHandle: null };
  }
  const agent = await findAgent(query, grant.agent_id);
  return agent === undefined ? undefined : { agentHandle: agent.handle };
}
