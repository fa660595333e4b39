import type * as z from 'zod/mini';

import { isHandle } from '../../wire/handle.js';
import type {
  AddOperatorAgentRequest,
  AddOperatorClientRequest,
  OperatorAgent,
  OperatorClient,
  OperatorClientSummary,
  OperatorKey,
  UpdateOperatorAgentRequest,
} from '../../wire/local-service.js';
import { AGENT_SCOPES, isAccountScope } from '../../wire/scope.js';
import type { SigningKeys } from '../access-token/signing-keys.js';
import { changeAgent } from '../agents/change-agent.js';
import { removeAgentRecord } from '../agents/remove-agent.js';
import { createConfidentialClient, revokeConfidentialClient } from '../authorization-server/confidential-client.js';
import type { ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { type AgentRecordRow, findAgentByHandle } from '../store/agent-rows.js';
import type { Transaction } from '../store/database.js';
import { agentLock } from '../store/lock-names.js';
import { findOAuthClient } from '../store/oauth-client-rows.js';
import { listAllAgents, listAllClients, type OperatorAgentRow } from '../store/operator-rows.js';
import { addLocalAgent, putLocalAgent } from './local-agent.js';

/** What the operator of a local service may do, outside the specification. */

export async function listOperatorAgents(context: ServiceContext): Promise<{ agents: OperatorAgent[] }> {
  const rows = await context.database.read(listAllAgents);
  return { agents: rows.map(toOperatorAgent) };
}

export async function addOperatorAgent(context: ServiceContext, body: AddOperatorAgentRequest): Promise<OperatorAgent> {
  const row = await context.database.write((transaction) =>
    addLocalAgent(context, transaction, {
      handle: body.handle,
      inboundPolicy: body.inbound_policy,
      displayName: body.display_name,
    }),
  );
  return toOperatorAgent({ ...row, is_online: 0 });
}

export async function updateOperatorAgent(
  context: ServiceContext,
  handle: string,
  body: z.infer<typeof UpdateOperatorAgentRequest>,
): Promise<OperatorAgent> {
  const changed = await context.database.write(async (transaction) =>
    changeAgent(context, transaction, await holdByHandle(transaction, handle), body),
  );
  return toOperatorAgent(changed);
}

export async function removeOperatorAgent(context: ServiceContext, handle: string): Promise<{ ok: true }> {
  await context.database.write(async (transaction) =>
    removeAgentRecord(context, transaction, await holdByHandle(transaction, handle)),
  );
  return { ok: true };
}

/** A client bound to one agent, which is added when it is new. Its secret is given this once. */
export async function addOperatorClient(
  context: ServiceContext,
  { handle, scopes = [...AGENT_SCOPES] }: AddOperatorClientRequest,
): Promise<OperatorClient> {
  if (scopes.length === 0 || scopes.some(isAccountScope))
    throw new ServiceError('VALIDATION_ERROR', 'A client that acts as an agent needs scopes of agents, and no others.');
  return await context.database.write(async (transaction) => {
    const { row, isNew } = await putLocalAgent(context, transaction, { handle });
    const client = await createConfidentialClient(context, transaction, {
      name: `${row.handle} (added by the operator)`,
      accountId: row.account_id,
      agentId: row.id,
      scopes,
    });
    return {
      client_id: client.clientId,
      client_secret: client.clientSecret,
      handle: row.handle,
      scope: scopes.join(' '),
      created_agent: isNew,
    };
  });
}

export async function listOperatorClients({ database }: ServiceContext): Promise<{ clients: OperatorClientSummary[] }> {
  const rows = await database.read(listAllClients);
  return {
    clients: rows.map(({ id, handle, name, scope, created_at, last_used_at }) => ({
      client_id: id,
      handle,
      name,
      scope,
      created_at,
      last_used_at,
    })),
  };
}

/** From now on the secret gets no token, and the sockets of the client close. */
export async function revokeOperatorClient(context: ServiceContext, clientId: string): Promise<{ ok: true }> {
  const isRevoked = await context.database.write(async (transaction) => {
    const client = await findOAuthClient(transaction, clientId);
    return client?.kind === 'confidential' && revokeConfidentialClient(context, transaction, clientId);
  });
  if (!isRevoked) throw new ServiceError('NOT_FOUND');
  return { ok: true };
}

/** The published keys, as the operator sees them. */
export async function listOperatorKeys(keys: SigningKeys): Promise<OperatorKey[]> {
  const facts = await keys.listKeys();
  return facts.map(({ kid, state, createdAt, signsFrom, publishedUntil }) => ({
    kid,
    state,
    created_at: createdAt,
    signs_from: signsFrom,
    published_until: publishedUntil,
  }));
}

async function holdByHandle(transaction: Transaction, handle: string): Promise<AgentRecordRow> {
  if (!isHandle(handle)) throw new ServiceError('INVALID_HANDLE');
  await transaction.lock([agentLock(handle)]);
  const row = await findAgentByHandle(transaction, handle);
  if (row === undefined) throw new ServiceError('AGENT_NOT_FOUND');
  return row;
}

function toOperatorAgent(row: OperatorAgentRow): OperatorAgent {
  return {
    handle: row.handle,
    inbound_policy: row.inbound_policy,
    paused: row.is_paused === 1,
    is_online: row.is_online === 1,
    created_at: row.created_at,
  };
}
