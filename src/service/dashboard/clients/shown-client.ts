import { parseScopes } from '../../authorization-server/scope-and-resource.js';
import type { ShownClient } from '../../pages/dashboard/clients-page.js';
import { ServiceError } from '../../service-error.js';
import type { Query } from '../../store/database.js';
import { type ClientOfAccountRow, findClientOfAccount } from '../../store/oauth-client-rows.js';
import type { Visit } from '../visit.js';

export function toShownClient(row: ClientOfAccountRow): ShownClient {
  return {
    id: row.id,
    name: row.name,
    handle: row.handle,
    agentName: row.agent_name,
    scopes: parseScopes(row.scope),
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at,
  };
}

/** The account's own client in the address; another's, a revoked one and one that never was are the same. */
export async function requireClientOf({ account, part }: Visit, query: Query): Promise<ClientOfAccountRow> {
  const row = await findClientOfAccount(query, account.id, part('id'));
  if (row === undefined) throw new ServiceError('NOT_FOUND');
  return row;
}
