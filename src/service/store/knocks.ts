import { type Handle, isOwnerGlob, type OwnerGlob, splitHandle } from '../../wire/handle.js';
import { KNOCKS_PER_AGENT_MAX, KNOCKS_PER_OWNER_MAX } from '../../wire/limit.js';
import type { Query, Transaction } from '../core/database.js';
import { toValues } from './sql.js';

/** The record of one stranger that knocked at one agent. */
export interface KnockRow {
  readonly agent_id: string;
  readonly sender: string;
  readonly text: string | null;
  readonly times: number;
  readonly first_at: number;
  readonly last_at: number;
}

/** The handles of one owner: those from `start`, before `end`. */
const toRange = (owner: string): { start: string; end: string } => ({ start: `@${owner}.`, end: `@${owner}/` });

/**
 * Adds a knock to those of the same sender that were not dismissed, and forgets the oldest beyond the bounds. It keeps the first text. No caller
 * needs an answer, so there is no wait.
 */
export function putKnock(
  transaction: Transaction,
  { agent_id: agentId, sender, text, last_at: at }: Pick<KnockRow, 'agent_id' | 'sender' | 'text' | 'last_at'>,
  owner: string,
): void {
  const { start, end } = toRange(owner);
  transaction.send(
    `INSERT INTO knock (agent_id, sender, text, times, first_at, last_at) VALUES ($1, $2, $3, 1, $4, $4)
     ON CONFLICT (agent_id, sender) DO UPDATE
       SET text = COALESCE(CASE WHEN knock.dismissed_at IS NULL THEN knock.text END, excluded.text),
         times = CASE WHEN knock.dismissed_at IS NULL THEN knock.times ELSE 0 END + 1,
         first_at = CASE WHEN knock.dismissed_at IS NULL THEN knock.first_at ELSE excluded.first_at END,
         last_at = excluded.last_at, dismissed_at = NULL`,
    agentId,
    sender,
    text,
    at,
  );
  transaction.send(
    `DELETE FROM knock WHERE agent_id = $1 AND sender >= $2 AND sender < $3 AND sender NOT IN (
       SELECT sender FROM knock WHERE agent_id = $1 AND sender >= $2 AND sender < $3
       ORDER BY last_at DESC, sender LIMIT ${KNOCKS_PER_OWNER_MAX})`,
    agentId,
    start,
    end,
  );
  transaction.send(
    `DELETE FROM knock WHERE agent_id = $1 AND sender NOT IN (
       SELECT sender FROM knock WHERE agent_id = $1 ORDER BY last_at DESC, sender LIMIT ${KNOCKS_PER_AGENT_MAX})`,
    agentId,
  );
}

/** Those of an agent after a moment, latest first. */
export function listKnockRows(query: Query, agentId: string, after: number): Promise<KnockRow[]> {
  return query.all<KnockRow>(
    'SELECT * FROM knock WHERE agent_id = $1 AND last_at > $2 AND dismissed_at IS NULL ORDER BY last_at DESC, sender',
    agentId,
    after,
  );
}

/** A knock with the agent that refused it. */
export interface KnockOfAccountRow extends KnockRow {
  readonly handle: string;
  readonly agent_name: string;
}

/** The latest at all agents of an account after a moment. */
export function listKnocksOfAccount(
  query: Query,
  accountId: string,
  after: number,
  limit: number,
): Promise<KnockOfAccountRow[]> {
  return query.all<KnockOfAccountRow>(
    `SELECT knock.*, agent.handle AS handle, agent.name AS agent_name FROM agent JOIN knock ON knock.agent_id = agent.id
     WHERE agent.account_id = $1 AND agent.removed_at IS NULL AND knock.last_at > $2 AND knock.dismissed_at IS NULL
     ORDER BY knock.last_at DESC, knock.agent_id, knock.sender LIMIT $3`,
    accountId,
    after,
    limit,
  );
}

/** False: there is none. */
export async function deleteKnock(transaction: Transaction, agentId: string, sender: string): Promise<boolean> {
  const statement = 'DELETE FROM knock WHERE agent_id = $1 AND sender = $2 AND dismissed_at IS NULL';
  return (await transaction.run(statement, agentId, sender)) === 1;
}

/** Takes a knock off the list. Each agent keeps the one that was dismissed last, so that it can be put back. */
export async function dismissKnock(
  transaction: Transaction,
  agentId: string,
  sender: string,
  epochMs: number,
): Promise<void> {
  await transaction.run(
    'DELETE FROM knock WHERE agent_id = $1 AND dismissed_at IS NOT NULL AND sender <> $2',
    agentId,
    sender,
  );
  await transaction.run(
    'UPDATE knock SET dismissed_at = $3 WHERE agent_id = $1 AND sender = $2 AND dismissed_at IS NULL',
    agentId,
    sender,
    epochMs,
  );
}

/** Puts a dismissed knock back. */
export async function restoreKnock(transaction: Transaction, agentId: string, sender: string): Promise<void> {
  await transaction.run('UPDATE knock SET dismissed_at = NULL WHERE agent_id = $1 AND sender = $2', agentId, sender);
}

/** Deletes the knocks of senders, or of all agents of an owner, without waiting for the answer. */
export function forgetKnocks(
  transaction: Transaction,
  agentId: string,
  entries: readonly (Handle | OwnerGlob)[],
): void {
  const listed = `SELECT asked.value FROM ${toValues(transaction.dialect, '$2')} AS asked`;
  const owners = entries.filter(isOwnerGlob).map((glob) => splitHandle(glob).owner);
  const handles = entries.filter((entry) => !isOwnerGlob(entry));
  const forget = (condition: string, list: readonly string[]): void => {
    if (list.length > 0)
      transaction.send(`DELETE FROM knock WHERE agent_id = $1 AND ${condition}`, agentId, JSON.stringify(list));
  };
  forget(`sender IN (${listed})`, handles);
  // The same range as that of one owner.
  forget(`EXISTS (${listed} WHERE sender >= '@' || asked.value || '.' AND sender < '@' || asked.value || '/')`, owners);
}

/** In place of an agent: what an inviter sent to those that do not hold strangers. No one reads it. */
export const nobodyFor = (inviterId: string): string => `none ${inviterId}`;

/** Deletes what an agent held, and what is kept of its own refused messages. */
export function deleteKnocksOfAgent(transaction: Transaction, agentId: string): Promise<number> {
  return transaction.run('DELETE FROM knock WHERE agent_id IN ($1, $2)', agentId, nobodyFor(agentId));
}

/** At most `limit` of those that are older. */
export function deleteKnocksBefore(transaction: Transaction, epochMs: number, limit: number): Promise<number> {
  return transaction.run(
    `DELETE FROM knock WHERE (agent_id, sender) IN (
       SELECT agent_id, sender FROM knock WHERE last_at <= $1 ORDER BY last_at LIMIT $2)`,
    epochMs,
    limit,
  );
}
