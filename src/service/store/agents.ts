import type { InboundPolicy, Visibility } from '../../wire/schemas/agent.js';
import type { Query, Transaction } from '../core/database.js';
import { LAST_CHARACTER } from './search.js';
import { insertRow, toContaining, toValues } from './sql.js';

export interface AgentRow {
  readonly id: string;
  readonly account_id: string;
  readonly handle: string;
  readonly owner: string;
  readonly name: string;
  readonly display_name: string;
  readonly description: string | null;
  /** The id of the attachment that is its picture. */
  readonly image_url: string | null;
  readonly visibility: Visibility;
  readonly inbound_policy: InboundPolicy;
  readonly can_initiate_sessions: number;
  readonly is_paused: number;
  /** Whether senders may learn which messages it has processed. */
  readonly reports_taken: number;
  readonly card_body: string | null;
  /** JSON: an array of skills. */
  readonly skills: string;
  readonly created_at: number;
  readonly updated_at: number;
  readonly removed_at: number | null;
}

/** An agent with facts from its account and its sockets. */
export interface AgentRecordRow extends AgentRow {
  readonly owner_display_name: string;
  readonly is_online: number;
  /** Its account is suspended: no one can act for it, or invite it. */
  readonly is_suspended: number;
}

const RECORD = `SELECT agent.*, account.display_name AS owner_display_name,
    CASE WHEN account.suspended_at IS NULL THEN 0 ELSE 1 END AS is_suspended,
    CASE WHEN EXISTS (SELECT 1 FROM socket WHERE socket.agent_id = agent.id) THEN 1 ELSE 0 END AS is_online
  FROM agent JOIN account ON account.id = agent.account_id`;

/** False: the handle is or was in use. */
export async function insertAgent(transaction: Transaction, row: AgentRow): Promise<boolean> {
  const changed = await insertRow(transaction, 'agent', row, '(handle) DO NOTHING');
  return changed === 1;
}

/** The functions below never find removed agents. */
export function findAgent(query: Query, agentId: string): Promise<AgentRecordRow | undefined> {
  return query.get<AgentRecordRow>(`${RECORD} WHERE agent.id = $1 AND agent.removed_at IS NULL`, agentId);
}

/** The next `limit` agents of all accounts whose handles begin with `prefix`, by handle. */
export function listAgentsByHandle(
  query: Query,
  prefix: string,
  afterHandle: string,
  limit: number,
): Promise<AgentRecordRow[]> {
  return query.all<AgentRecordRow>(
    `${RECORD} WHERE agent.handle >= $1 AND agent.handle < $2 AND agent.handle > $3 AND agent.removed_at IS NULL
     ORDER BY agent.handle LIMIT $4`,
    prefix,
    prefix + LAST_CHARACTER,
    afterHandle,
    limit,
  );
}

/** Only the settings that decide what an agent may do. */
export function findAgentSettings(
  query: Query,
  agentId: string,
): Promise<Pick<AgentRow, 'can_initiate_sessions' | 'reports_taken'> | undefined> {
  return query.get(
    'SELECT can_initiate_sessions, reports_taken FROM agent WHERE id = $1 AND removed_at IS NULL',
    agentId,
  );
}

export function findAgentByHandle(query: Query, handle: string): Promise<AgentRecordRow | undefined> {
  return query.get<AgentRecordRow>(`${RECORD} WHERE agent.handle = $1 AND agent.removed_at IS NULL`, handle);
}

/**
 * The same if `accountId` may know about it: it is public, or the account's own. A hidden one costs the same as a
 * missing one.
 */
export function findAgentVisibleTo(
  query: Query,
  accountId: string,
  handle: string,
): Promise<AgentRecordRow | undefined> {
  return query.get<AgentRecordRow>(
    `${RECORD} WHERE agent.handle = $1 AND agent.removed_at IS NULL AND (agent.visibility = 'public' OR agent.account_id = $2)`,
    handle,
    accountId,
  );
}

/** Agents of the owner in `@owner.*`, including removed ones. */
export async function listAgentIdsOfOwner(query: Query, glob: string): Promise<string[]> {
  const beginning = glob.slice(0, -1);
  const rows = await query.all<{ id: string }>(
    'SELECT id FROM agent WHERE handle >= $1 AND handle < $2',
    beginning,
    `${beginning.slice(0, -1)}/`,
  );
  return rows.map((row) => row.id);
}

export interface AgentSelection {
  /** Those with a greater id; ids grow with time. */
  readonly afterId?: string;
  readonly limit?: number;
  /** A part of the handle or the display name. */
  readonly text?: string | undefined;
}

/** Sorted by id. */
export function listAgentsOfAccount(
  query: Query,
  accountId: string,
  { afterId = '', limit = 1000, text = '' }: AgentSelection = {},
): Promise<AgentRecordRow[]> {
  return query.all<AgentRecordRow>(
    `${RECORD}
     WHERE agent.account_id = $1 AND agent.id > $2 AND agent.removed_at IS NULL
       AND (LOWER(agent.handle) LIKE $4 ESCAPE '!' OR LOWER(agent.display_name) LIKE $4 ESCAPE '!')
     ORDER BY agent.id LIMIT $3`,
    accountId,
    afterId,
    limit,
    toContaining(text),
  );
}

/** Including removed ones, sorted by id. */
export function listEveryAgentOfAccount(
  query: Query,
  accountId: string,
  afterId: string,
  limit: number,
): Promise<AgentRecordRow[]> {
  return query.all<AgentRecordRow>(
    `${RECORD} WHERE agent.account_id = $1 AND agent.id > $2 ORDER BY agent.id LIMIT $3`,
    accountId,
    afterId,
    limit,
  );
}

export async function countAgents(query: Query, accountId: string): Promise<number> {
  const row = await query.get<{ count: number }>(
    'SELECT COUNT(*) AS count FROM agent WHERE account_id = $1 AND removed_at IS NULL',
    accountId,
  );
  return Number(row?.count ?? 0);
}

/** How many agents of an account anyone may find. */
export async function countPublicAgents(query: Query, accountId: string): Promise<number> {
  const row = await query.get<{ count: number }>(
    `SELECT COUNT(*) AS count FROM agent WHERE account_id = $1 AND visibility = 'public' AND removed_at IS NULL`,
    accountId,
  );
  return row?.count ?? 0;
}

export interface SharedSessionRow {
  readonly id: string;
  readonly topic: string | null;
  readonly state: 'active' | 'ended';
  readonly last_activity_at: number;
  readonly created_at: number;
}

/**
 * Of the 1000 sessions that changed last, the latest 20 that the viewer has joined and the other agent has not left.
 */
export function listSharedSessions(query: Query, viewerId: string, otherId: string): Promise<SharedSessionRow[]> {
  return query.all<SharedSessionRow>(
    `SELECT session.id AS id, session.topic AS topic, session.state AS state,
       COALESCE(last.created_at, session.created_at) AS last_activity_at, session.created_at AS created_at
     FROM (
       SELECT inbox.session_id, inbox.changed_at FROM inbox CROSS JOIN participant AS mine
       WHERE inbox.agent_id = $1 AND mine.session_id = inbox.session_id AND mine.agent_id = inbox.agent_id
         AND mine.status = 'joined'
       ORDER BY inbox.changed_at DESC, inbox.session_id DESC LIMIT 1000
     ) AS recent
     JOIN participant AS other
       ON other.session_id = recent.session_id AND other.agent_id = $2 AND other.status IN ('joined', 'invited')
     JOIN session ON session.id = recent.session_id
     LEFT JOIN event AS last ON last.session_id = session.id AND last.sequence = session.last_sequence
     ORDER BY recent.changed_at DESC, recent.session_id DESC LIMIT 20`,
    viewerId,
    otherId,
  );
}

export interface ActiveParticipationRow {
  readonly session_id: string;
  readonly agent_id: string;
  readonly handle: string;
}

/** Active sessions in which an agent is invited or joined. */
export function listActiveParticipations(query: Query, agentId: string): Promise<ActiveParticipationRow[]> {
  return query.all<ActiveParticipationRow>(
    `SELECT session_id, agent_id, handle FROM participant
     WHERE agent_id = $1 AND session_state = 'active' AND status <> 'left' ORDER BY session_id`,
    agentId,
  );
}

/** Writes everything that an owner or the agent itself may change. */
export async function updateAgentRow(transaction: Transaction, row: AgentRow): Promise<void> {
  await transaction.run(
    `UPDATE agent SET display_name = $2, description = $3, visibility = $4, inbound_policy = $5,
       can_initiate_sessions = $6, is_paused = $7, card_body = $8, skills = $9, updated_at = $10, reports_taken = $11
     WHERE id = $1`,
    row.id,
    row.display_name,
    row.description,
    row.visibility,
    row.inbound_policy,
    row.can_initiate_sessions,
    row.is_paused,
    row.card_body,
    row.skills,
    row.updated_at,
    row.reports_taken,
  );
}

export async function updatePicture(
  transaction: Transaction,
  agentId: string,
  pictureId: string | null,
  updatedAt: number,
): Promise<void> {
  await transaction.run(
    'UPDATE agent SET image_url = $2, updated_at = $3 WHERE id = $1',
    agentId,
    pictureId,
    updatedAt,
  );
}

export async function markAgentRemoved(transaction: Transaction, agentId: string, removedAt: number): Promise<void> {
  await transaction.run(
    'UPDATE agent SET removed_at = $2, updated_at = $2, image_url = NULL WHERE id = $1',
    agentId,
    removedAt,
  );
}

/** Deletes what the owner of a removed agent wrote about it, and what only the agent and its owner could see. */
export async function eraseAgent(transaction: Transaction, agentId: string): Promise<void> {
  await transaction.run(
    `UPDATE agent SET display_name = name, description = NULL, image_url = NULL, card_body = NULL, skills = '[]'
     WHERE id = $1`,
    agentId,
  );
  for (const table of ['absence', 'allowlist_entry', 'block', 'unanswered', 'webhook', 'webhook_queue'])
    await transaction.run(`DELETE FROM ${table} WHERE agent_id = $1`, agentId);
  for (const table of ['claim', 'handled'])
    await transaction.run(
      `DELETE FROM ${table} WHERE agent_id = $1
         AND session_id IN (SELECT session_id FROM participant WHERE participant.agent_id = $1)`,
      agentId,
    );
}

/** Deletes what an account has read and dismissed in the sessions of its agents. */
export async function eraseMarks(transaction: Transaction, accountId: string): Promise<void> {
  for (const table of ['seen_session', 'dismissed_question'])
    await transaction.run(`DELETE FROM ${table} WHERE account_id = $1`, accountId);
}

/** What the lists of an account depend on, for each of its agents. */
export interface AgentMarkRow {
  readonly id: string;
  readonly updated_at: number;
  readonly is_online: number;
  /** Null: it has no sessions. */
  readonly changed_at: number | null;
  readonly last_sequence: number | null;
  /** Of the last knock, and of the last message that the agent reported as unanswered. */
  readonly knocked_at: number | null;
  readonly reported_at: number | null;
  readonly webhook_off_at: number | null;
}

export function listAgentMarks(query: Query, accountId: string): Promise<AgentMarkRow[]> {
  return query.all<AgentMarkRow>(
    `SELECT agent.id, agent.updated_at,
       CASE WHEN EXISTS (SELECT 1 FROM socket WHERE socket.agent_id = agent.id) THEN 1 ELSE 0 END AS is_online,
       (SELECT inbox.changed_at FROM inbox WHERE inbox.agent_id = agent.id
         ORDER BY inbox.changed_at DESC, inbox.session_id DESC LIMIT 1) AS changed_at,
       (SELECT inbox.last_sequence FROM inbox WHERE inbox.agent_id = agent.id
         ORDER BY inbox.changed_at DESC, inbox.session_id DESC LIMIT 1) AS last_sequence,
       (SELECT MAX(last_at) FROM knock WHERE knock.agent_id = agent.id) AS knocked_at,
       (SELECT MAX(reported_at) FROM unanswered WHERE unanswered.agent_id = agent.id) AS reported_at,
       (SELECT off_at FROM webhook WHERE webhook.agent_id = agent.id) AS webhook_off_at
     FROM agent WHERE agent.account_id = $1 AND agent.removed_at IS NULL ORDER BY agent.id`,
    accountId,
  );
}

/** The accounts that own one of these agents. */
export async function listOwnersOf(query: Query, agentIds: readonly string[]): Promise<string[]> {
  const rows = await query.all<Pick<AgentRow, 'account_id'>>(
    `SELECT DISTINCT agent.account_id FROM ${toValues(query.dialect, '$1')} AS asked CROSS JOIN agent
     WHERE agent.id = asked.value`,
    JSON.stringify(agentIds),
  );
  return rows.map((row) => row.account_id);
}

/** What the owner of an account has done so far; each is 0 or 1. */
export interface FirstStepsRow {
  /** Whether a credential or an app can act as one of its agents. */
  readonly is_connected: number;
  readonly has_session: number;
  /** Whether agents of others can invite one of its agents. */
  readonly is_reachable: number;
}

export async function findFirstSteps(query: Query, accountId: string): Promise<FirstStepsRow | undefined> {
  return query.get<FirstStepsRow>(
    `SELECT
       CASE WHEN EXISTS (SELECT 1 FROM refresh_family WHERE refresh_family.account_id = account.id)
         OR EXISTS (SELECT 1 FROM oauth_client WHERE oauth_client.account_id = account.id) THEN 1 ELSE 0 END AS is_connected,
       CASE WHEN EXISTS (SELECT 1 FROM agent JOIN inbox ON inbox.agent_id = agent.id WHERE agent.account_id = account.id)
         THEN 1 ELSE 0 END AS has_session,
       CASE WHEN EXISTS (SELECT 1 FROM agent WHERE agent.account_id = account.id AND agent.inbound_policy = 'open')
         OR EXISTS (SELECT 1 FROM agent JOIN allowlist_entry ON allowlist_entry.agent_id = agent.id
           WHERE agent.account_id = account.id AND allowlist_entry.entry <> '@' || account.username || '.*')
         THEN 1 ELSE 0 END AS is_reachable
     FROM account WHERE account.id = $1`,
    accountId,
  );
}
