import type { InboundPolicy, Skill, Visibility } from '../../wire/agent.js';
import type { BodyOf, PathOf, ReplyOf } from '../../wire/endpoint.js';
import { HandlePart, joinHandle, ownerGlobOf } from '../../wire/handle.js';
import { ID_PREFIX } from '../../wire/id.js';
import type { AccountActor, ServiceContext, Settings } from '../context.js';
import { requireRoomForAgent } from '../limits/account-quota.js';
import { ServiceError } from '../service-error.js';
import { type AccountRow, findAccount } from '../store/account-rows.js';
import { type AgentRow, insertAgent } from '../store/agent-rows.js';
import { insertAllowlistEntry } from '../store/allowlist-rows.js';
import type { Transaction } from '../store/database.js';
import { toAgent } from './agent-record.js';
import { refreshSearchTerms } from './search-terms.js';

/** `/agents/me/allowlist` and `/agents/me/blocks` are other addresses: agents of these handles could not be reached (D-37). */
const UNROUTABLE: readonly string[] = ['@me.allowlist', '@me.blocks'];

export interface NewAgent {
  readonly name: string;
  readonly displayName: string;
  readonly description?: string | null;
  readonly visibility?: Visibility;
  readonly inboundPolicy?: InboundPolicy;
  readonly canInitiateSessions?: boolean;
  readonly cardBody?: string | null;
  readonly skills?: readonly Skill[];
}

export async function createAgent(
  context: ServiceContext,
  actor: AccountActor,
  input: { path: PathOf<'createAgent'>; body: BodyOf<'createAgent'> },
  transaction: Transaction,
): Promise<ReplyOf<'createAgent'>> {
  const account = await findAccount(transaction, actor.accountId);
  if (account === undefined) throw new ServiceError('UNAUTHORIZED');
  const { body } = input;
  const agent = await createAgentRecord(context, transaction, account, {
    name: body.local_name,
    displayName: body.display_name,
    ...(body.description !== undefined && { description: body.description }),
    ...(body.visibility !== undefined && { visibility: body.visibility }),
    ...(body.inbound_policy !== undefined && { inboundPolicy: body.inbound_policy }),
    ...(body.can_initiate_sessions !== undefined && { canInitiateSessions: body.can_initiate_sessions }),
    ...(body.card_body !== undefined && { cardBody: body.card_body }),
    ...(body.skills !== undefined && { skills: body.skills }),
  });
  return toAgent({ ...agent, owner_display_name: account.display_name, is_online: 0, is_suspended: 0 });
}

/** Its allowlist starts with all agents of its own account, visibly and removably (wire: Agents, search, trust). */
export async function createAgentRecord(
  context: Pick<ServiceContext, 'clock' | 'ids' | 'settings'>,
  transaction: Transaction,
  account: AccountRow,
  agent: NewAgent,
): Promise<AgentRow> {
  if (!HandlePart.safeParse(agent.name).success) throw new ServiceError('INVALID_HANDLE');
  if (agent.inboundPolicy === 'open') requireOpenAgents(context, account);
  await requireRoomForAgent(context, transaction, account);
  const now = context.clock.now();
  const handle = joinHandle(account.username, agent.name);
  const row: AgentRow = {
    id: `${ID_PREFIX.agent}${context.ids.ulid()}`,
    account_id: account.id,
    handle,
    owner: account.username,
    name: agent.name,
    display_name: agent.displayName,
    description: agent.description ?? null,
    image_url: null,
    visibility: agent.visibility ?? 'public',
    inbound_policy: agent.inboundPolicy ?? 'allowlist',
    can_initiate_sessions: agent.canInitiateSessions === false ? 0 : 1,
    is_paused: 0,
    card_body: agent.cardBody ?? null,
    skills: JSON.stringify(agent.skills ?? []),
    created_at: now,
    updated_at: now,
    removed_at: null,
  };
  if (UNROUTABLE.includes(handle) || !(await insertAgent(transaction, row))) throw new ServiceError('DUPLICATE_HANDLE');
  await insertAllowlistEntry(transaction, row.id, ownerGlobOf(handle), now);
  await refreshSearchTerms(transaction, {
    ...row,
    owner_display_name: account.display_name,
    is_online: 0,
    is_suspended: 0,
  });
  return row;
}

/** The operator decides which accounts may have agents that anyone can invite. */
export function mayHaveOpenAgents({ accountPolicy }: Settings, { tier }: Pick<AccountRow, 'tier'>): boolean {
  return accountPolicy.openAgents === 'all' || tier === 'trusted';
}

/** (spec: Errors, FEATURE_NOT_AVAILABLE) */
export function requireOpenAgents({ settings }: Pick<ServiceContext, 'settings'>, account: AccountRow): void {
  if (mayHaveOpenAgents(settings, account)) return;
  throw new ServiceError(
    'FEATURE_NOT_AVAILABLE',
    'On this service, only accounts that its operator trusts can have open agents. Use the allowlist instead.',
  );
}
