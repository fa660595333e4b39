import { escapeJson } from '../../kit/json-line.js';
import { type Handle, isHandle, joinHandle, splitHandle, toOwnerGlob } from '../../wire/handle.js';
import { ID_PREFIX } from '../../wire/id.js';
import type { Agent, AgentSummary } from '../../wire/schemas/agent.js';
import {
  type CreateAgentRequest,
  HandlePart,
  type Skill,
  type UpdateAgentRequest,
} from '../../wire/schemas/requests.js';
import type { AccountActor, Actor, AgentActor, Handler, ServiceContext, Settings } from '../core/context.js';
import type { Query, Transaction } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import { type AccountRow, findAccount, findAccountById, updateDisplayName } from '../store/accounts.js';
import {
  type AgentRecordRow,
  type AgentRow,
  countPublicAgents,
  findAgent,
  findAgentVisibleTo,
  insertAgent,
  listAgentsOfAccount,
  listSharedSessions,
  updateAgentRow,
} from '../store/agents.js';
import { blocksAnyOf, insertAllowlistEntries } from '../store/allowlists.js';
import { readPage } from '../store/cursor.js';
import { accountLock, agentLock } from '../store/lock-names.js';
import { markOpen } from '../store/participants.js';
import { replaceSearchTerms, toSearchTerms } from '../store/search.js';
import { requireRoomFor } from './accounts.js';

type SettingsContext = Pick<ServiceContext, 'settings'>;

/** The page of a public agent, below the web origin. */
export const getPublicPath = (handle: string): string => `/agents/${handle}`;

/** Where everyone finds its picture. A private agent has no address for everyone. */
export function getPictureUrl(
  { addresses }: Settings,
  { handle, image_url: pictureId, visibility }: Pick<AgentRow, 'handle' | 'image_url' | 'visibility'>,
): string | null {
  if (pictureId === null || visibility !== 'public') return null;
  return new URL(`${getPublicPath(handle)}/picture`, addresses.webUrl).href;
}

/**
 * The short form: what others see. Neither form shows them a pause, because that would explain a 404 on an invitation, nor
 * that the agent holds strangers, because then they would know that someone saw them.
 */
export function toAgentSummary({ settings }: SettingsContext, row: AgentRecordRow): AgentSummary {
  return {
    canonical_handle: row.handle,
    display_name: row.display_name,
    description: row.description,
    image_url: getPictureUrl(settings, row),
    visibility: row.visibility,
    inbound_policy: row.inbound_policy === 'hold' ? 'allowlist' : row.inbound_policy,
    inactive: row.removed_at !== null,
    is_online: row.is_online === 1,
    owner_label: row.owner,
    owner_display_name: row.owner_display_name,
    owner_image_url: null,
  };
}

/** The long form, for its own account. */
export function toAgent(context: SettingsContext, row: AgentRecordRow): Agent {
  return {
    ...toAgentSummary(context, row),
    id: row.id,
    local_name: row.name,
    namespace: row.owner,
    owner_type: 'account',
    owner_id: row.account_id,
    scope: 'personal',
    can_initiate_sessions: row.can_initiate_sessions === 1,
    inbound_policy: row.inbound_policy,
    paused: row.is_paused === 1,
    reports_taken: row.reports_taken === 1,
    card_body: row.card_body,
    skills: parseSkills(row),
    created_at: row.created_at,
    updated_at: row.updated_at,
  };
}

export function parseSkills(row: Pick<AgentRecordRow, 'skills'>): Skill[] {
  return JSON.parse(row.skills) as Skill[];
}

/** The maximum number of different words by which one agent or person can be found. */
const TERMS_MAX = 200;

/** Makes an agent, and the person behind it, findable by their current words; private and removed agents by none. */
export async function refreshSearchTerms(transaction: Transaction, row: AgentRecordRow): Promise<void> {
  await transaction.lock([accountLock(row.account_id)]);
  const isFindable = row.visibility === 'public' && row.removed_at === null;
  const texts = [row.handle, row.display_name, row.description ?? '', ...parseSkills(row).map((skill) => skill.name)];
  await replaceSearchTerms(transaction, 'agent', row.id, isFindable ? distinctTerms(texts) : []);
  // Another request may have renamed the owner since the row was read.
  const account = await findAccountById(transaction, row.account_id);
  await refreshOwnerTerms(transaction, row.account_id, [row.owner, account?.display_name ?? row.owner_display_name]);
}

/** The words by which an owner with a public agent can be found. */
async function refreshOwnerTerms(transaction: Transaction, accountId: string, texts: readonly string[]): Promise<void> {
  const isKnown = (await countPublicAgents(transaction, accountId)) > 0;
  await replaceSearchTerms(transaction, 'person', accountId, isKnown ? distinctTerms(texts) : []);
}

/** Changes the owner's name that others see. */
export async function renameAccount(
  { clock }: Pick<ServiceContext, 'clock'>,
  transaction: Transaction,
  account: AccountRow,
  displayName: string,
): Promise<void> {
  await transaction.lock([accountLock(account.id)]);
  await updateDisplayName(transaction, account.id, displayName, clock.now());
  await refreshOwnerTerms(transaction, account.id, [account.username, displayName]);
}

function distinctTerms(texts: readonly string[]): string[] {
  return [...new Set(texts.flatMap(toSearchTerms))].slice(0, TERMS_MAX);
}

/**
 * `/agents/me/allowlist` and `/agents/me/blocks` are other addresses, so agents with these handles could not be reached
 * (D-37).
 */
const UNROUTABLE: readonly string[] = ['@me.allowlist', '@me.blocks'];

export const createAgent: Handler<'createAgent'> = async (context, actor, input, transaction) => {
  // An account that is removed at the same time must not keep an agent.
  await transaction.lock([accountLock(actor.accountId)]);
  const account = await findAccount(transaction, actor.accountId);
  if (account === undefined) throw new ServiceError('UNAUTHORIZED');
  const agent = await createAgentRecord(context, transaction, account, input.body);
  return toAgent(context, { ...agent, owner_display_name: account.display_name, is_online: 0, is_suspended: 0 });
};

/**
 * Its allowlist starts with an entry for all agents of its own account, visible and removable (wire: Agents, search,
 * trust).
 */
export async function createAgentRecord(
  context: Pick<ServiceContext, 'clock' | 'ids' | 'settings'>,
  transaction: Transaction,
  account: AccountRow,
  agent: CreateAgentRequest,
): Promise<AgentRow> {
  if (!HandlePart.safeParse(agent.local_name).success) throw new ServiceError('INVALID_HANDLE');
  if (agent.inbound_policy === 'open') requireOpenAgents(context, account);
  await requireRoomFor('agents', context, transaction, account);
  const now = context.clock.now();
  const handle = joinHandle(account.username, agent.local_name);
  const row: AgentRow = {
    id: `${ID_PREFIX.agent}${context.ids.ulid()}`,
    account_id: account.id,
    handle,
    owner: account.username,
    name: agent.local_name,
    display_name: agent.display_name,
    description: agent.description ?? null,
    image_url: null,
    visibility: agent.visibility ?? 'public',
    inbound_policy: agent.inbound_policy ?? 'allowlist',
    can_initiate_sessions: agent.can_initiate_sessions === false ? 0 : 1,
    is_paused: 0,
    reports_taken: 1,
    card_body: agent.card_body ?? null,
    skills: JSON.stringify(agent.skills ?? []),
    created_at: now,
    updated_at: now,
    removed_at: null,
  };
  if (UNROUTABLE.includes(handle) || !(await insertAgent(transaction, row))) throw new ServiceError('DUPLICATE_HANDLE');
  await insertAllowlistEntries(transaction, row.id, [toOwnerGlob(handle)], now);
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
function requireOpenAgents({ settings }: Pick<ServiceContext, 'settings'>, account: AccountRow): void {
  if (mayHaveOpenAgents(settings, account)) return;
  throw new ServiceError(
    'FEATURE_NOT_AVAILABLE',
    'On this service, only accounts that its operator trusts can have open agents. Use the allowlist instead.',
  );
}

/** Writes the members of `changes` and leaves the rest unchanged. */
export async function changeAgent(
  context: Pick<ServiceContext, 'clock'>,
  transaction: Transaction,
  row: AgentRecordRow,
  changes: UpdateAgentRequest,
): Promise<AgentRecordRow> {
  const asColumn = (value: boolean | undefined, old: number): number => (value === undefined ? old : value ? 1 : 0);
  const changed: AgentRecordRow = {
    ...row,
    display_name: changes.display_name ?? row.display_name,
    description: changes.description === undefined ? row.description : changes.description,
    card_body: changes.card_body === undefined ? row.card_body : changes.card_body,
    skills: changes.skills === undefined ? row.skills : JSON.stringify(changes.skills),
    visibility: changes.visibility ?? row.visibility,
    inbound_policy: changes.inbound_policy ?? row.inbound_policy,
    can_initiate_sessions: asColumn(changes.can_initiate_sessions, row.can_initiate_sessions),
    is_paused: asColumn(changes.paused, row.is_paused),
    reports_taken: asColumn(changes.reports_taken, row.reports_taken),
    updated_at: context.clock.now(),
  };
  await updateAgentRow(transaction, changed);
  if (changed.inbound_policy !== row.inbound_policy)
    await markOpen(transaction, row.id, changed.inbound_policy === 'open');
  await refreshSearchTerms(transaction, changed);
  return changed;
}

export interface AgentPath {
  readonly owner: string;
  readonly name: string;
}

/** The agent in a path, if the caller may know about it: a private, a removed and a nonexistent agent look the same. */
async function findVisibleAgent(
  query: Query,
  actor: Pick<Actor, 'accountId'>,
  path: AgentPath,
): Promise<AgentRecordRow> {
  const row = await findAgentVisibleTo(query, actor.accountId, readHandle(path));
  if (row === undefined) throw new ServiceError('AGENT_NOT_FOUND');
  return row;
}

/** An agent of the caller's own account. Another account's public agent is FORBIDDEN, any other AGENT_NOT_FOUND. */
export async function findOwnAgent(query: Query, actor: AccountActor, path: AgentPath): Promise<AgentRecordRow> {
  const row = await findVisibleAgent(query, actor, path);
  if (row.account_id !== actor.accountId) throw new ServiceError('FORBIDDEN');
  return row;
}

/** The same; nothing else changes or removes it until the transaction ends. */
export async function lockOwnAgent(
  transaction: Transaction,
  actor: AccountActor,
  path: AgentPath,
): Promise<AgentRecordRow> {
  await transaction.lock([agentLock(readHandle(path))]);
  return findOwnAgent(transaction, actor, path);
}

/** The handle in a path, or INVALID_HANDLE. */
function readHandle(path: AgentPath): Handle {
  const handle = joinHandle(path.owner, path.name);
  if (!isHandle(handle)) throw new ServiceError('INVALID_HANDLE');
  return handle;
}

export const updateAgent: Handler<'updateAgent'> = async (context, actor, input, transaction) => {
  const row = await lockOwnAgent(transaction, actor, input.path);
  const account = await findAccount(transaction, actor.accountId);
  if (account === undefined) throw new ServiceError('UNAUTHORIZED');
  if (input.body.inbound_policy === 'open' && row.inbound_policy !== 'open') requireOpenAgents(context, account);
  return toAgent(context, await changeAgent(context, transaction, row, input.body));
};

export const getActingAgent: Handler<'getActingAgent'> = async (context, actor, _input, query) => {
  return toAgent(context, await findActingAgent(query, actor));
};

/** A token outlives a removed agent; it then acts as no one. */
async function findActingAgent(query: Query, actor: Pick<AgentActor, 'agentId'>): Promise<AgentRecordRow> {
  const row = await findAgent(query, actor.agentId);
  if (row === undefined) throw new ServiceError('UNAUTHORIZED');
  return row;
}

export const updateActingAgent: Handler<'updateActingAgent'> = async (context, actor, input, transaction) => {
  await transaction.lock([agentLock(actor.handle)]);
  return toAgent(
    context,
    await changeAgent(context, transaction, await findActingAgent(transaction, actor), input.body),
  );
};

/**
 * An agent sees the latest sessions that it has joined and the other agent is in; an account token is not a
 * participant.
 */
export const getAgent: Handler<'getAgent'> = async (context, actor, input, query) => {
  const row = await findVisibleAgent(query, actor, input.path);
  const isOwner = row.account_id === actor.accountId;
  const mayEdit = isOwner && (actor.kind === 'account' || actor.agentId === row.id);
  const isOther = actor.kind === 'agent' && actor.agentId !== row.id;
  const shared = isOther ? await listSharedSessions(query, actor.agentId, row.id) : [];
  const isShunned = !isOwner && (await blocksAnyOf(query, row.id, await findOwner(query, actor)));
  const summary = toAgentSummary(context, row);
  return {
    // A blocked agent must not see when the other comes and goes.
    agent: isOwner ? toAgent(context, row) : { ...summary, is_online: summary.is_online && !isShunned },
    shared_sessions: shared.map((session) => ({ ...session })),
    viewer: { relationship: isOwner ? 'owner' : 'none', can_edit: mayEdit },
  };
};

async function findOwner(query: Query, actor: Actor): Promise<string> {
  if (actor.kind === 'agent') return splitHandle(actor.handle).owner;
  return (await findAccount(query, actor.accountId))?.username ?? '';
}

/** The agents of the caller's own account, oldest first; `q` matches handles and display names. */
export const listAgents: Handler<'listAgents'> = async (context, actor, input, query) => {
  const { q } = input.query;
  const { rows, next } = await readPage(input.query, {
    scope: ['agents', actor.accountId, q],
    start: [''],
    toPosition: (row: AgentRecordRow) => [row.id],
    read: ([afterId], limit) => listAgentsOfAccount(query, actor.accountId, { afterId, limit, text: q }),
  });
  return { agents: rows.map((row) => toAgent(context, row)), next_cursor: next };
};

export const getAgentCard: Handler<'getAgentCard'> = async (_context, actor, input, query) => {
  const row = await findVisibleAgent(query, actor, input.path);
  const lines = [
    '---',
    `handle: ${quote(row.handle)}`,
    `display_name: ${quote(row.display_name)}`,
    `description: ${row.description === null ? 'null' : quote(row.description)}`,
    ...listSkills(parseSkills(row)),
    '---',
    '',
  ];
  return `${lines.join('\n')}${row.card_body === null ? '' : `\n${row.card_body.trimEnd()}\n`}`;
};

function listSkills(skills: readonly Skill[]): string[] {
  if (skills.length === 0) return ['skills: []'];
  return [
    'skills:',
    ...skills.flatMap(({ name, description }) => [
      `  - name: ${quote(name)}`,
      `    description: ${quote(description)}`,
    ]),
  ];
}

/** A JSON string on one line is a double-quoted YAML scalar (YAML 1.2 §1.3), so no text can end the front matter. */
function quote(text: string): string {
  return escapeJson(JSON.stringify(text)).replace(/[\ufffe\uffff]/g, (character) =>
    character === '\ufffe' ? '\\ufffe' : '\\uffff',
  );
}
