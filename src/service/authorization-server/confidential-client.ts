import { ID_PREFIX } from '../../wire/id.js';
import type { Scope } from '../../wire/scope.js';
import { closeSockets } from '../bus/close-sockets.js';
import type { ServiceContext } from '../context.js';
import type { Transaction } from '../store/database.js';
import { insertOAuthClient, markOAuthClientRevoked } from '../store/oauth-client-rows.js';
import { createSecret, hashSecret } from './secret.js';

export interface NewConfidentialClient {
  readonly name: string;
  readonly accountId: string;
  /** The one agent it acts as. */
  readonly agentId: string;
  readonly scopes: readonly Scope[];
  /** Created when absent. */
  readonly secret?: string;
}

/** Creates a client for the client_credentials grant (spec: Flows). Only this call knows its secret. */
export async function createConfidentialClient(
  context: Pick<ServiceContext, 'clock' | 'ids' | 'random'>,
  transaction: Transaction,
  client: NewConfidentialClient,
): Promise<{ clientId: string; clientSecret: string }> {
  const clientId = `${ID_PREFIX.oauthClient}${context.ids.ulid()}`;
  const clientSecret = client.secret ?? createSecret(context.random, 'clientSecret');
  await insertOAuthClient(transaction, {
    id: clientId,
    kind: 'confidential',
    name: client.name,
    redirect_uris: '[]',
    scope: client.scopes.join(' '),
    secret_hash: hashSecret(clientSecret),
    account_id: client.accountId,
    agent_id: client.agentId,
    created_at: context.clock.now(),
    last_used_at: null,
    revoked_at: null,
  });
  return { clientId, clientSecret };
}

/** Closes the client's sockets and refuses it new tokens at once (spec: POST /revoke). False if it does not exist. */
export async function revokeConfidentialClient(
  context: Pick<ServiceContext, 'clock' | 'bus'>,
  transaction: Transaction,
  clientId: string,
): Promise<boolean> {
  const isRevoked = await markOAuthClientRevoked(transaction, clientId, context.clock.now());
  if (isRevoked) await closeSockets(context, transaction, [clientId]);
  return isRevoked;
}
