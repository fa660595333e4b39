import type { ParticipantStatus, SessionState } from '../../wire/session.js';
import type { Query, Transaction } from './database.js';
import { valuesOf } from './values.js';

export interface ParticipantRow {
  readonly session_id: string;
  readonly agent_id: string;
  readonly handle: string;
  /** Order of arrival in the session. */
  readonly position: number;
  readonly status: ParticipantStatus;
  /** Null unless it joined since it was last invited. */
  readonly joined_at: number | null;
  readonly left_at: number | null;
  /** Null for a creator who was never invited. */
  readonly first_invited_sequence: number | null;
  /** The number of its own latest `session.left`, while it is `left`. */
  readonly left_sequence: number | null;
  /** The last event that it saw as a joined participant before it was invited again; its account still sees all up to there. */
  readonly joined_through: number | null;
  readonly was_joined_at_end: number;
  readonly session_state: SessionState;
  /** When something that it may see last happened. */
  readonly changed_at: number;
  /** Everything up to here has reached one of its sockets. */
  readonly delivered_sequence: number;
  readonly is_pending: number;
}

/** A participant beside its session. */
export interface ParticipationRow extends ParticipantRow {
  readonly topic: string | null;
  readonly last_sequence: number;
  readonly session_created_at: number;
  readonly ended_at: number | null;
}

const PARTICIPATION = `SELECT participant.*, session.topic, session.last_sequence,
    session.created_at AS session_created_at, session.ended_at
  FROM participant JOIN session ON session.id = participant.session_id`;

export function findParticipation(
  query: Query,
  sessionId: string,
  agentId: string,
): Promise<ParticipationRow | undefined> {
  return query.get<ParticipationRow>(
    `${PARTICIPATION} WHERE participant.session_id = $1 AND participant.agent_id = $2`,
    sessionId,
    agentId,
  );
}

/** The part of one of an account's own agents. */
export interface OwnParticipationRow extends ParticipationRow {
  /** When its owner removed the agent. */
  readonly agent_removed_at: number | null;
}

/** The parts of all agents of an account in one session, removed agents included. */
export function listParticipationsOfAccount(
  query: Query,
  accountId: string,
  sessionId: string,
): Promise<OwnParticipationRow[]> {
  return query.all<OwnParticipationRow>(
    `SELECT participant.*, session.topic, session.last_sequence, session.created_at AS session_created_at,
       session.ended_at, agent.removed_at AS agent_removed_at
     FROM participant JOIN session ON session.id = participant.session_id
       JOIN agent ON agent.id = participant.agent_id
     WHERE participant.session_id = $1 AND agent.account_id = $2 ORDER BY participant.position`,
    sessionId,
    accountId,
  );
}

/**
 * Where an agent takes or took part, by session id, without the sessions of an earlier agent of the same account: all
 * agents of an account together give each session once.
 */
export async function listSessionIdsOfSibling(
  query: Query,
  accountId: string,
  agentId: string,
  afterSessionId: string,
  limit: number,
): Promise<string[]> {
  const rows = await query.all<{ session_id: string }>(
    `SELECT participant.session_id FROM participant
     WHERE participant.agent_id = $2 AND participant.session_id > $3 AND NOT EXISTS (
       SELECT 1 FROM participant AS twin JOIN agent ON agent.id = twin.agent_id
       WHERE twin.session_id = participant.session_id AND agent.account_id = $1 AND twin.agent_id < participant.agent_id)
     ORDER BY participant.session_id LIMIT $4`,
    accountId,
    agentId,
    afterSessionId,
    limit,
  );
  return rows.map((row) => row.session_id);
}

/** In order of arrival. */
export function listParticipants(query: Query, sessionId: string): Promise<ParticipantRow[]> {
  return query.all<ParticipantRow>('SELECT * FROM participant WHERE session_id = $1 ORDER BY position', sessionId);
}

/** How many take part or did, and how many of `handles` are among them. */
export async function countParticipants(
  query: Query,
  sessionId: string,
  handles: readonly string[],
): Promise<{ readonly count: number; readonly known: number }> {
  const row = await query.get<{ count: number; known: number }>(
    `SELECT count(*) AS count, CAST(COALESCE(sum(CASE WHEN handle IN (SELECT value FROM ${valuesOf(query.dialect, '$2')})
       THEN 1 ELSE 0 END), 0) AS BIGINT) AS known
     FROM participant WHERE session_id = $1`,
    sessionId,
    JSON.stringify(handles),
  );
  return row ?? { count: 0, known: 0 };
}

/** Which of these agents take part now, invited or joined. */
export async function listPresent(query: Query, sessionId: string, agentIds: readonly string[]): Promise<Set<string>> {
  const rows = await query.all<AgentIdRow>(
    `SELECT participant.agent_id FROM ${valuesOf(query.dialect, '$2')} AS asked CROSS JOIN participant
     WHERE participant.session_id = $1 AND participant.agent_id = asked.value AND participant.status <> 'left'`,
    sessionId,
    JSON.stringify(agentIds),
  );
  return new Set(rows.map((row) => row.agent_id));
}

/** Those of each of these sessions, by its id. */
export async function listParticipantsOf(
  query: Query,
  sessionIds: readonly string[],
): Promise<ReadonlyMap<string, readonly ParticipantRow[]>> {
  const rows = await query.all<ParticipantRow>(
    `SELECT participant.* FROM ${valuesOf(query.dialect, '$1')} AS asked CROSS JOIN participant
     WHERE participant.session_id = asked.value ORDER BY participant.position`,
    JSON.stringify(sessionIds),
  );
  const found = new Map(sessionIds.map((id): [string, ParticipantRow[]] => [id, []]));
  for (const row of rows) found.get(row.session_id)?.push(row);
  return found;
}

/** The creator, who is joined from the beginning (spec: POST /sessions, rule 1). */
export async function insertCreator(
  transaction: Transaction,
  sessionId: string,
  agent: { readonly id: string; readonly handle: string },
  now: number,
): Promise<void> {
  await transaction.run(
    `INSERT INTO participant (session_id, agent_id, handle, position, status, joined_at, left_at,
       first_invited_sequence, left_sequence, was_joined_at_end, session_state, changed_at, delivered_sequence, is_pending)
     VALUES ($1, $2, $3, 0, 'joined', $4, NULL, NULL, NULL, 0, 'active', $4, 0, 0)`,
    sessionId,
    agent.id,
    agent.handle,
    now,
  );
}

/**
 * Makes an agent `invited`, whether it took part before or not. Only for one who did not are the others looked through: a
 * reopening asks all of them. One that is still joined is invited again by a reopening alone; it saw everything up to `lastSequence`, the last event before.
 */
export async function putInvited(
  transaction: Transaction,
  sessionId: string,
  agent: { readonly id: string; readonly handle: string },
  { sequence, lastSequence, now }: { readonly sequence: number; readonly lastSequence: number; readonly now: number },
): Promise<void> {
  const changed = await transaction.run(
    `UPDATE participant SET joined_through = CASE
         WHEN status = 'joined' THEN $4
         WHEN joined_at IS NOT NULL THEN left_sequence
         ELSE joined_through END,
       status = 'invited', joined_at = NULL, left_at = NULL, left_sequence = NULL,
       first_invited_sequence = COALESCE(first_invited_sequence, $3)
     WHERE session_id = $1 AND agent_id = $2`,
    sessionId,
    agent.id,
    sequence,
    lastSequence,
  );
  if (changed > 0) return;
  await transaction.run(
    `INSERT INTO participant (session_id, agent_id, handle, position, status, joined_at, left_at,
       first_invited_sequence, left_sequence, was_joined_at_end, session_state, changed_at, delivered_sequence, is_pending)
     VALUES ($1, $2, $3, (SELECT COALESCE(MAX(position), -1) + 1 FROM participant WHERE session_id = $1),
       'invited', NULL, NULL, $4, NULL, 0, 'active', $5, 0, 1)`,
    sessionId,
    agent.id,
    agent.handle,
    sequence,
    now,
  );
}

export async function markJoined(
  transaction: Transaction,
  sessionId: string,
  agentId: string,
  now: number,
): Promise<void> {
  await transaction.run(
    `UPDATE participant SET status = 'joined', joined_at = $3, left_at = NULL, left_sequence = NULL
     WHERE session_id = $1 AND agent_id = $2`,
    sessionId,
    agentId,
    now,
  );
}

export async function markLeft(
  transaction: Transaction,
  sessionId: string,
  agentId: string,
  sequence: number,
  now: number,
): Promise<void> {
  await transaction.run(
    `UPDATE participant SET status = 'left', left_at = $4, left_sequence = $3 WHERE session_id = $1 AND agent_id = $2`,
    sessionId,
    agentId,
    sequence,
    now,
  );
}

interface AgentIdRow {
  readonly agent_id: string;
}

/** Notes that the joined, and where `invitedToo` the invited, have something new to see; gives who they are. */
export async function markChangedForAll(
  transaction: Transaction,
  sessionId: string,
  now: number,
  invitedToo: boolean,
): Promise<string[]> {
  const rows = await transaction.all<AgentIdRow>(
    `UPDATE participant SET changed_at = $2, is_pending = 1
     WHERE session_id = $1 AND (status = 'joined' OR (status = 'invited' AND $3 = 1)) RETURNING agent_id`,
    sessionId,
    now,
    invitedToo ? 1 : 0,
  );
  return rows.map((row) => row.agent_id);
}

export async function markChangedFor(
  transaction: Transaction,
  sessionId: string,
  agentId: string,
  now: number,
): Promise<void> {
  await transaction.run(
    'UPDATE participant SET changed_at = $3, is_pending = 1 WHERE session_id = $1 AND agent_id = $2',
    sessionId,
    agentId,
    now,
  );
}

export interface OpenAgentRow {
  readonly agent_id: string;
  /** Its list holds the sender, or it has the sender's owner. */
  readonly is_listed: number;
}

/** The other participants to whom a message goes and who let anybody in (spec: Rate limits, target open agent). */
export function listJoinedOpenAgents(
  query: Query,
  sessionId: string,
  sender: { readonly agentId: string; readonly handle: string; readonly glob: string },
): Promise<OpenAgentRow[]> {
  return query.all<OpenAgentRow>(
    `SELECT participant.agent_id,
       CASE WHEN agent.account_id = (SELECT account_id FROM agent WHERE id = $2) OR EXISTS (
         SELECT 1 FROM allowlist_entry AS held WHERE held.agent_id = agent.id AND held.entry IN ($3, $4))
       THEN 1 ELSE 0 END AS is_listed
     FROM participant JOIN agent ON agent.id = participant.agent_id
     WHERE participant.session_id = $1 AND participant.status = 'joined' AND participant.agent_id <> $2
       AND agent.inbound_policy = 'open'`,
    sessionId,
    sender.agentId,
    sender.handle,
    sender.glob,
  );
}

/** The participations of `otherIds` in active sessions where both sides still take part. */
export function listSharedActive(
  query: Query,
  agentId: string,
  otherIds: readonly string[],
): Promise<ParticipantRow[]> {
  return query.all<ParticipantRow>(
    `SELECT other.* FROM ${valuesOf(query.dialect, '$2')} AS asked CROSS JOIN participant AS other
       JOIN participant AS mine ON mine.session_id = other.session_id AND mine.agent_id = $1
     WHERE other.agent_id = asked.value AND other.session_state = 'active' AND other.status <> 'left'
       AND mine.status <> 'left'
     ORDER BY other.session_id, other.position`,
    agentId,
    JSON.stringify(otherIds),
  );
}

/** Those with something to deliver, by session, after the session `afterSessionId`. */
export function listPending(
  query: Query,
  agentId: string,
  afterSessionId: string,
  limit: number,
): Promise<ParticipationRow[]> {
  return query.all<ParticipationRow>(
    `${PARTICIPATION}
     WHERE participant.agent_id = $1 AND participant.is_pending = 1 AND participant.session_id > $2
     ORDER BY participant.session_id LIMIT $3`,
    agentId,
    afterSessionId,
    limit,
  );
}

/**
 * Moves the delivery cursor forward, never back. The participant waits no more if nothing was appended since
 * `readThrough`, the session's last sequence when the reader found nothing further to deliver.
 */
export async function advanceDelivery(
  transaction: Transaction,
  sessionId: string,
  agentId: string,
  deliveredSequence: number,
  readThrough: number,
): Promise<void> {
  await transaction.run(
    `UPDATE participant SET
       delivered_sequence = CASE WHEN delivered_sequence < $3 THEN $3 ELSE delivered_sequence END,
       is_pending = CASE WHEN (SELECT last_sequence FROM session WHERE id = $1) > $4 THEN is_pending ELSE 0 END
     WHERE session_id = $1 AND agent_id = $2`,
    sessionId,
    agentId,
    deliveredSequence,
    readThrough,
  );
}
