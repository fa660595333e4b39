import { AGENT_SCOPES } from '../../../wire/scope.js';
import { createConfidentialClient } from '../../authorization-server/confidential-client.js';
import type { Parameters } from '../../authorization-server/parameters.js';
import { requireRoomForClient } from '../../limits/account-quota.js';
import { type NewClientPage, renderNewClient } from '../../pages/dashboard/clients-page.js';
import type { Mistake } from '../../pages/form.js';
import { ServiceError } from '../../service-error.js';
import { type AgentRecordRow, findAgentByHandle, listAgentsOfAccount } from '../../store/agent-rows.js';
import type { Query } from '../../store/database.js';
import { findClientOfAccount } from '../../store/oauth-client-rows.js';
import { createFormKey, keyOf, once } from '../once.js';
import { type DashboardAnswer, mistaken, moved, page, type Refusal, type Visit } from '../visit.js';
import { clientSecretOf, letShowSecret } from './secret-cookie.js';

const PATH = '/dashboard/new-client';
const NAME_MAX_LENGTH = 100;
/** How long the form that made a client still leads to its secret: as long as a double click may take. */
const REPEATED_WITHIN_MS = 30_000;

type Filled = Pick<NewClientPage, 'name' | 'chosen' | 'scopes'>;

export async function showNewClient(visit: Visit): Promise<DashboardAnswer> {
  const filled = { name: '', chosen: visit.query.one('agent'), scopes: AGENT_SCOPES };
  return formOf(visit, filled, { mistakes: [], status: 200 });
}

export async function actNewClient(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context } = visit;
  const { name, chosen, scopes } = readForm(visit, form);
  const agent = await context.database.read((query) => findNamedAgent(visit, query, chosen));
  const mistakes = findMistakes(name, { chosen, isThere: agent !== undefined }, scopes);
  if (mistakes.length > 0) return newClientAgain(visit, form, mistaken(...mistakes));
  const key = keyOf(form, ['name', 'agent', 'scope']);
  const clientId = await once(visit, { path: PATH, key }, async (transaction) => {
    const found = await findNamedAgent(visit, transaction, chosen);
    if (found === undefined) throw new ServiceError('NOT_FOUND');
    await requireRoomForClient(context, transaction, visit.account);
    const secret = clientSecretOf(visit, key);
    const client = { name, accountId: visit.account.id, agentId: found.id, scopes, secret };
    return (await createConfidentialClient(context, transaction, client)).clientId;
  });
  const made = await context.database.read((query) => findClientOfAccount(query, visit.account.id, clientId));
  if (made === undefined) throw new ServiceError('NOT_FOUND');
  const isNew = context.clock.now() - made.created_at < REPEATED_WITHIN_MS;
  return moved(`/dashboard/clients/${clientId}`, isNew ? letShowSecret(visit, clientId, key) : {});
}

export async function newClientAgain(visit: Visit, form: Parameters, refusal: Refusal): Promise<DashboardAnswer> {
  return formOf(visit, readForm(visit, form), refusal);
}

function readForm(visit: Visit, form: Parameters) {
  return {
    name: (form.one('name') ?? '').trim(),
    chosen: readAgentName(visit, form),
    scopes: AGENT_SCOPES.filter((scope) => form.every('scope').includes(scope)),
  };
}

/** The second half of a handle, also where somebody has typed both. */
function readAgentName({ account }: Visit, form: Parameters): string {
  const typed = (form.one('agent') ?? '').trim();
  const own = `@${account.username}.`;
  return typed.startsWith(own) ? typed.slice(own.length) : typed;
}

/** Another account's agents have no name here. */
function findNamedAgent({ account }: Visit, query: Query, name: string): Promise<AgentRecordRow | undefined> {
  return findAgentByHandle(query, `@${account.username}.${name}`);
}

function findMistakes(
  name: string,
  agent: { readonly chosen: string; readonly isThere: boolean },
  scopes: readonly string[],
): Mistake[] {
  const mistakes: Mistake[] = [];
  if (name === '' || name.length > NAME_MAX_LENGTH)
    mistakes.push({ field: 'name', message: 'Enter a name of 1 to 100 characters.' });
  if (agent.chosen === '') mistakes.push({ field: 'agent', message: 'Choose the agent it acts as.' });
  else if (!agent.isThere) mistakes.push({ field: 'agent', message: 'You have no agent of this name.' });
  if (scopes.length === 0) mistakes.push({ field: 'scope-0', message: 'Choose at least one thing it may do.' });
  return mistakes;
}

async function formOf(visit: Visit, filled: Filled, { mistakes, status }: Refusal): Promise<DashboardAnswer> {
  const { context, account, csrf } = visit;
  const agents = await context.database.read((query) => listAgentsOfAccount(query, account.id));
  const view = renderNewClient({
    csrf,
    key: createFormKey(context),
    username: account.username,
    agents: agents.map(({ name, display_name: displayName }) => ({ name, displayName })),
    mistakes,
    ...filled,
  });
  return page(view, { status });
}
