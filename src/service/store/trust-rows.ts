import type { AgentRow } from './agent-rows.js';
import type { Dialect, Query } from './database.js';
import { valuesOf } from './values.js';

/** What the gate weighs about one handle; where no agent has it, the columns of the agent are null. */
export interface GateRow {
  readonly id: string | null;
  readonly is_paused: number | null;
  readonly suspended_at: number | null;
  readonly removed_at: number | null;
  readonly inbound_policy: AgentRow['inbound_policy'] | null;
  /** Either side blocks the other. */
  readonly is_blocked: number;
  /** The handle's own list holds the inviter or all agents of its owner. */
  readonly is_listed: number;
  /** The inviter's list holds the handle or all agents of its owner. */
  readonly is_listed_by_inviter: number;
}

/** Who asks; the glob stands for all agents of its owner. */
export interface GateQuestion {
  readonly inviterId: string;
  readonly inviterHandle: string;
  readonly inviterGlob: string;
}

/** The glob of a handle in a column, `@owner.*`. */
const globOf = (dialect: Dialect, handle: string): string =>
  dialect === 'sqlite'
    ? `(substr(${handle}, 1, instr(${handle}, '.')) || '*')`
    : `(split_part(${handle}, '.', 1) || '.*')`;

/** One row for each handle. The same look-ups whether or not it exists, so that the time they take tells nothing. */
export async function weighHandles(
  query: Query,
  question: GateQuestion,
  handles: readonly string[],
): Promise<ReadonlyMap<string, GateRow>> {
  const glob = globOf(query.dialect, 'asked.value');
  const rows = await query.all<GateRow & { readonly handle: string }>(
    `SELECT asked.value AS handle, agent.id, agent.is_paused, account.suspended_at, agent.removed_at, agent.inbound_policy,
       CASE WHEN EXISTS (SELECT 1 FROM block WHERE block.agent_id = $1 AND block.blocked_handle IN (asked.value, ${glob}))
         OR EXISTS (SELECT 1 FROM block WHERE block.agent_id = agent.id AND block.blocked_handle IN ($2, $3))
         THEN 1 ELSE 0 END AS is_blocked,
       CASE WHEN EXISTS (SELECT 1 FROM allowlist_entry AS held WHERE held.agent_id = agent.id AND held.entry IN ($2, $3))
         THEN 1 ELSE 0 END AS is_listed,
       CASE WHEN EXISTS (
         SELECT 1 FROM allowlist_entry AS held WHERE held.agent_id = $1 AND held.entry IN (asked.value, ${glob}))
         THEN 1 ELSE 0 END AS is_listed_by_inviter
     FROM ${valuesOf(query.dialect, '$4')} AS asked
       LEFT JOIN agent ON agent.handle = asked.value LEFT JOIN account ON account.id = agent.account_id`,
    question.inviterId,
    question.inviterHandle,
    question.inviterGlob,
    JSON.stringify(handles),
  );
  return new Map(rows.map((row) => [row.handle, row]));
}
