import type { Dialect, Query, Transaction } from '../core/database.js';
import type { AgentRow } from './agents.js';
import { insertRow, toContaining, toValues } from './sql.js';

/** Those that are on the list stay as they are. */
export async function insertAllowlistEntries(
  transaction: Transaction,
  agentId: string,
  entries: readonly string[],
  createdAt: number,
): Promise<void> {
  await transaction.run(
    `INSERT INTO allowlist_entry (agent_id, entry, created_at)
     SELECT CAST($1 AS TEXT), asked.value, CAST($3 AS BIGINT) FROM ${toValues(transaction.dialect, '$2')} AS asked WHERE true
     ON CONFLICT (agent_id, entry) DO NOTHING`,
    agentId,
    JSON.stringify(entries),
    createdAt,
  );
}

/** False: there was none. */
export async function deleteAllowlistEntry(transaction: Transaction, agentId: string, entry: string): Promise<boolean> {
  return (
    (await transaction.run('DELETE FROM allowlist_entry WHERE agent_id = $1 AND entry = $2', agentId, entry)) === 1
  );
}

/** The whole list of an agent, sorted. */
export async function listAllowlistEntries(query: Query, agentId: string): Promise<string[]> {
  const rows = await query.all<{ entry: string }>(
    'SELECT entry FROM allowlist_entry WHERE agent_id = $1 ORDER BY entry',
    agentId,
  );
  return rows.map((row) => row.entry);
}

/** Those that contain `text`, or that name all agents of an owner. */
export interface EntrySelection {
  readonly text?: string;
  readonly glob?: string | undefined;
}

/** The next `limit` entries of an agent after a position, sorted. */
export async function listAllowlistPage(
  query: Query,
  agentId: string,
  after: string,
  limit: number,
  { text = '', glob = '' }: EntrySelection = {},
): Promise<string[]> {
  const rows = await query.all<{ entry: string }>(
    `SELECT entry FROM allowlist_entry WHERE agent_id = $1 AND entry > $2 AND (entry LIKE $4 ESCAPE '!' OR entry = $5)
     ORDER BY entry LIMIT $3`,
    agentId,
    after,
    limit,
    toContaining(text),
    glob,
  );
  return rows.map((row) => row.entry);
}

export interface BlockRow {
  /** The blocking agent. */
  readonly agent_id: string;
  readonly blocked_handle: string;
  /** The id that the blocker got; only the handle decides. */
  readonly blocked_agent_id: string;
  readonly created_at: number;
}

/** False: it already exists. */
export async function insertBlock(transaction: Transaction, row: BlockRow): Promise<boolean> {
  const changed = await insertRow(transaction, 'block', row, '(agent_id, blocked_handle) DO NOTHING');
  return changed === 1;
}

export function findBlock(query: Query, agentId: string, blockedHandle: string): Promise<BlockRow | undefined> {
  return query.get<BlockRow>('SELECT * FROM block WHERE agent_id = $1 AND blocked_handle = $2', agentId, blockedHandle);
}

/** When the agent last blocked another; 0 if it blocks no one. */
export async function findLatestBlockTime(query: Query, agentId: string): Promise<number> {
  const row = await query.get<{ latest: number | null }>(
    'SELECT MAX(created_at) AS latest FROM block WHERE agent_id = $1',
    agentId,
  );
  return row?.latest ?? 0;
}

/** By handle or by the id that the blocker got; false: there is none. */
export async function deleteBlock(transaction: Transaction, agentId: string, blocked: string): Promise<boolean> {
  const changed = await transaction.run(
    'DELETE FROM block WHERE agent_id = $1 AND (blocked_handle = $2 OR blocked_agent_id = $2)',
    agentId,
    blocked,
  );
  return changed > 0;
}

/** The next `limit` after a position, newest first. */
export function listBlockRows(
  query: Query,
  agentId: string,
  after: { readonly createdAt: number; readonly handle: string },
  limit: number,
  { text = '', glob = '' }: EntrySelection = {},
): Promise<BlockRow[]> {
  return query.all<BlockRow>(
    `SELECT * FROM block
     WHERE agent_id = $1 AND (created_at < $2 OR (created_at = $2 AND blocked_handle < $3))
       AND (blocked_handle LIKE $5 ESCAPE '!' OR blocked_handle = $6)
     ORDER BY created_at DESC, blocked_handle DESC LIMIT $4`,
    agentId,
    after.createdAt,
    after.handle,
    limit,
    toContaining(text),
    glob,
  );
}

/** Whether the agent blocks an owner, or any of that owner's agents. */
export async function blocksAnyOf(query: Query, agentId: string, owner: string): Promise<boolean> {
  const found = await query.get(
    'SELECT 1 AS found FROM block WHERE agent_id = $1 AND blocked_handle >= $2 AND blocked_handle < $3 LIMIT 1',
    agentId,
    `@${owner}.`,
    `@${owner}/`,
  );
  return found !== undefined;
}

/** The pattern of a handle in a column, `@owner.*`. */
const toGlob = (dialect: Dialect, handle: string): string =>
  dialect === 'sqlite'
    ? `(substr(${handle}, 1, instr(${handle}, '.')) || '*')`
    : `(split_part(${handle}, '.', 1) || '.*')`;

/** How many sessions are searched for counterparts, and how many participants of each: the first ones added. */
const LOOKED_AT_SESSIONS = 20;
const LOOKED_AT_PARTICIPANTS = 50;

export interface CounterpartRow {
  readonly handle: string;
  /** The last change of a session with it. */
  readonly changed_at: number;
}

/**
 * The agents of other owners in an agent's latest sessions that neither of its lists names, latest first. They are
 * not looked up, so nothing shows whether they still exist.
 */
export function listUnlistedCounterparts(
  query: Query,
  agentId: string,
  owner: string,
  limit: number,
): Promise<CounterpartRow[]> {
  const names = `(other.handle, ${toGlob(query.dialect, 'other.handle')})`;
  return query.all<CounterpartRow>(
    `SELECT other.handle, MAX(recent.changed_at) AS changed_at FROM (
       SELECT session_id, changed_at FROM inbox WHERE agent_id = $1
       ORDER BY changed_at DESC, session_id DESC LIMIT ${LOOKED_AT_SESSIONS}
     ) AS recent CROSS JOIN participant AS other
     WHERE other.session_id = recent.session_id AND other.position < ${LOOKED_AT_PARTICIPANTS}
       AND NOT (other.handle >= $2 AND other.handle < $3)
       AND NOT EXISTS (SELECT 1 FROM allowlist_entry AS held WHERE held.agent_id = $1 AND held.entry IN ${names})
       AND NOT EXISTS (SELECT 1 FROM block WHERE block.agent_id = $1 AND block.blocked_handle IN ${names})
     GROUP BY other.handle ORDER BY changed_at DESC, other.handle LIMIT $4`,
    agentId,
    `@${owner}.`,
    `@${owner}/`,
    limit,
  );
}

/** What an agent has decided about another: by its handle, or for all agents of its owner. */
export interface Decided {
  readonly isListed: boolean;
  readonly isBlocked: boolean;
}

/** What an agent has decided about each of these handles. */
export async function findDecided(
  query: Query,
  agentId: string,
  handles: readonly string[],
): Promise<ReadonlyMap<string, Decided>> {
  const names = `(asked.value, ${toGlob(query.dialect, 'asked.value')})`;
  const rows = await query.all<{ handle: string; is_listed: number; is_blocked: number }>(
    `SELECT asked.value AS handle,
       CASE WHEN EXISTS (SELECT 1 FROM allowlist_entry AS held WHERE held.agent_id = $1 AND held.entry IN ${names})
         THEN 1 ELSE 0 END AS is_listed,
       CASE WHEN EXISTS (SELECT 1 FROM block WHERE block.agent_id = $1 AND block.blocked_handle IN ${names})
         THEN 1 ELSE 0 END AS is_blocked
     FROM ${toValues(query.dialect, '$2')} AS asked`,
    agentId,
    JSON.stringify(handles),
  );
  return new Map(rows.map((row) => [row.handle, { isListed: row.is_listed === 1, isBlocked: row.is_blocked === 1 }]));
}

/** The facts that the gate needs about one handle; if there is no such agent, the agent columns are null. */
export interface GateRow {
  readonly id: string | null;
  readonly is_paused: number | null;
  readonly suspended_at: number | null;
  readonly removed_at: number | null;
  readonly inbound_policy: AgentRow['inbound_policy'] | null;
  /** The handle's agent blocks the inviter. */
  readonly is_blocking: number;
  /** The inviter blocks the handle. */
  readonly is_blocked_by_inviter: number;
  /** The handle's own list holds the inviter or all agents of its owner. */
  readonly is_listed: number;
  /** The inviter's list holds the handle or all agents of its owner. */
  readonly is_listed_by_inviter: number;
}

/** The inviter; the pattern stands for all agents of its owner. */
export interface GateQuestion {
  readonly inviterId: string;
  readonly inviterHandle: string;
  readonly inviterGlob: string;
}

/** One row per handle. The lookups are the same whether or not it exists, so that timing reveals nothing. */
export async function weighHandles(
  query: Query,
  question: GateQuestion,
  handles: readonly string[],
): Promise<ReadonlyMap<string, GateRow>> {
  const glob = toGlob(query.dialect, 'asked.value');
  const rows = await query.all<GateRow & { readonly handle: string }>(
    `SELECT asked.value AS handle, agent.id, agent.is_paused, account.suspended_at, agent.removed_at, agent.inbound_policy,
       CASE WHEN EXISTS (SELECT 1 FROM block WHERE block.agent_id = $1 AND block.blocked_handle IN (asked.value, ${glob}))
         THEN 1 ELSE 0 END AS is_blocked_by_inviter,
       CASE WHEN EXISTS (SELECT 1 FROM block WHERE block.agent_id = agent.id AND block.blocked_handle IN ($2, $3))
         THEN 1 ELSE 0 END AS is_blocking,
       CASE WHEN EXISTS (SELECT 1 FROM allowlist_entry AS held WHERE held.agent_id = agent.id AND held.entry IN ($2, $3))
         THEN 1 ELSE 0 END AS is_listed,
       CASE WHEN EXISTS (
         SELECT 1 FROM allowlist_entry AS held WHERE held.agent_id = $1 AND held.entry IN (asked.value, ${glob}))
         THEN 1 ELSE 0 END AS is_listed_by_inviter
     FROM ${toValues(query.dialect, '$4')} AS asked
       LEFT JOIN agent ON agent.handle = asked.value LEFT JOIN account ON account.id = agent.account_id`,
    question.inviterId,
    question.inviterHandle,
    question.inviterGlob,
    JSON.stringify(handles),
  );
  return new Map(rows.map((row) => [row.handle, row]));
}
