import type { AgentRow } from './agent-rows.js';
import type { Query } from './database.js';

/** What the gate weighs about one handle; where no agent has it, the columns of the agent are null. */
export interface GateRow {
  readonly id: string | null;
  readonly is_paused: number | null;
  readonly removed_at: number | null;
  readonly inbound_policy: AgentRow['inbound_policy'] | null;
  /** Either side blocks the other. */
  readonly is_blocked: number;
  /** The handle's own list holds the inviter or all agents of its owner. */
  readonly is_listed: number;
  /** The inviter's list holds the handle or all agents of its owner. */
  readonly is_listed_by_inviter: number;
}

export interface GateQuestion {
  readonly inviterId: string;
  readonly inviterHandle: string;
  readonly inviterGlob: string;
  readonly handle: string;
  readonly glob: string;
}

/** The same look-ups whether or not the handle exists, so that the time they take tells nothing. */
export async function weighHandle(query: Query, question: GateQuestion): Promise<GateRow> {
  const row = await query.get<GateRow>(
    `SELECT agent.id, agent.is_paused, agent.removed_at, agent.inbound_policy,
       CASE WHEN EXISTS (SELECT 1 FROM block WHERE block.agent_id = $1 AND block.blocked_handle = $4)
         OR EXISTS (SELECT 1 FROM block WHERE block.agent_id = agent.id AND block.blocked_handle = $2)
         THEN 1 ELSE 0 END AS is_blocked,
       CASE WHEN EXISTS (SELECT 1 FROM allowlist_entry AS held WHERE held.agent_id = agent.id AND held.entry = $2)
         OR EXISTS (SELECT 1 FROM allowlist_entry AS held WHERE held.agent_id = agent.id AND held.entry = $3)
         THEN 1 ELSE 0 END AS is_listed,
       CASE WHEN EXISTS (SELECT 1 FROM allowlist_entry AS held WHERE held.agent_id = $1 AND held.entry = $4)
         OR EXISTS (SELECT 1 FROM allowlist_entry AS held WHERE held.agent_id = $1 AND held.entry = $5)
         THEN 1 ELSE 0 END AS is_listed_by_inviter
     FROM (SELECT $4 AS handle) AS asked LEFT JOIN agent ON agent.handle = asked.handle`,
    question.inviterId,
    question.inviterHandle,
    question.inviterGlob,
    question.handle,
    question.glob,
  );
  if (row === undefined) throw new Error('The gate gave no answer.');
  return row;
}

/** The participants of a session who stand across a block from one agent, whichever side made it, and those removed. */
export async function listUnreachable(
  query: Query,
  sessionId: string,
  agent: { readonly id: string; readonly handle: string },
): Promise<ReadonlySet<string>> {
  const rows = await query.all<{ agent_id: string }>(
    `SELECT participant.agent_id FROM participant JOIN agent ON agent.id = participant.agent_id
     WHERE participant.session_id = $1 AND participant.agent_id <> $2 AND (
       agent.removed_at IS NOT NULL
       OR EXISTS (SELECT 1 FROM block WHERE block.agent_id = $2 AND block.blocked_handle = participant.handle)
       OR EXISTS (SELECT 1 FROM block WHERE block.agent_id = participant.agent_id AND block.blocked_handle = $3))`,
    sessionId,
    agent.id,
    agent.handle,
  );
  return new Set(rows.map((row) => row.agent_id));
}
