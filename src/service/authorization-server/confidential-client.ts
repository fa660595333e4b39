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
  /** A new one unless given. */
  readonly secret?: string;
}

/** A client of the client_credentials grant (spec: Flows). Its secret is known only now. */
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

/** Closes its sockets and refuses it new tokens at once (spec: POST /revoke). False: there is no such client. */
export async function revokeConfidentialClient(
  context: Pick<ServiceContext, 'clock' | 'bus'>,
  transaction: Transaction,
  clientId: string,
): Promise<boolean> {
  const isRevoked = await markOAuthClientRevoked(transaction, clientId, context.clock.now());
  if (isRevoked) await closeSockets(context, transaction, [clientId]);
  return isRevoked;
}
