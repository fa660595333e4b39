import type { ParticipantStatus, SessionState } from '../../wire/schemas/session.js';
import type { Query, Transaction } from '../core/database.js';
import { toValues } from './sql.js';

const SESSIONS_PER_LOOK = 500;

/** The agents, out of some, that take part in any of the sessions. */
export async function listConcerned(
  query: Query,
  sessionIds: readonly string[],
  agentIds: readonly string[],
): Promise<string[]> {
  const concerned = new Set<string>();
  for (let start = 0; start < sessionIds.length; start += SESSIONS_PER_LOOK) {
    const rows = await query.all<{ agent_id: string }>(
      `SELECT DISTINCT participant.agent_id FROM ${toValues(query.dialect, '$1')} AS asked
       CROSS JOIN participant WHERE participant.session_id = asked.value
         AND participant.agent_id IN (SELECT value FROM ${toValues(query.dialect, '$2')} AS each)`,
      JSON.stringify(sessionIds.slice(start, start + SESSIONS_PER_LOOK)),
      JSON.stringify(agentIds),
    );
    for (const { agent_id } of rows) concerned.add(agent_id);
  }
  return [...concerned];
}

export interface ParticipantRow {
  readonly session_id: string;
  readonly agent_id: string;
  readonly handle: string;
  /** Order of arrival in the session. */
  readonly position: number;
  readonly status: ParticipantStatus;
  /** Null unless it has joined since it was last invited. */
  readonly joined_at: number | null;
  readonly left_at: number | null;
  /** Null for a creator who was never invited. */
  readonly first_invited_sequence: number | null;
  /** The number of its own latest `session.left`, while it is `left`. */
  readonly left_sequence: number | null;
  /**
   * The last event that it saw as a joined participant before it was invited again; its account can still see
   * everything up to there.
   */
  readonly joined_through: number | null;
  readonly was_joined_at_end: number;
  readonly session_state: SessionState;
  /** Whether the agent lets anyone in. */
  readonly is_open: number;
}

/** A participant with its session. */
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

/** The participation of one of an account's own agents. */
export interface OwnParticipationRow extends ParticipationRow {
  /** When its owner removed the agent. */
  readonly agent_removed_at: number | null;
}

const OWN_PARTICIPATION = `SELECT participant.*, session.topic, session.last_sequence,
    session.created_at AS session_created_at, session.ended_at, agent.removed_at AS agent_removed_at`;

/** The participations of all agents of an account in one session, including removed agents. */
export function listParticipationsOfAccount(
  query: Query,
  accountId: string,
  sessionId: string,
): Promise<OwnParticipationRow[]> {
  return query.all<OwnParticipationRow>(
    `${OWN_PARTICIPATION} FROM participant JOIN session ON session.id = participant.session_id
       JOIN agent ON agent.id = participant.agent_id
     WHERE participant.session_id = $1 AND agent.account_id = $2 ORDER BY participant.position`,
    sessionId,
    accountId,
  );
}

/** The same in each of these sessions. */
export function listParticipationsOfAccountIn(
  query: Query,
  accountId: string,
  sessionIds: readonly string[],
): Promise<OwnParticipationRow[]> {
  return query.all<OwnParticipationRow>(
    `${OWN_PARTICIPATION} FROM ${toValues(query.dialect, '$2')} AS asked CROSS JOIN participant
       JOIN session ON session.id = participant.session_id JOIN agent ON agent.id = participant.agent_id
     WHERE participant.session_id = asked.value AND agent.account_id = $1 ORDER BY participant.position`,
    accountId,
    JSON.stringify(sessionIds),
  );
}

/**
 * Sessions in which an agent takes or took part, by session id, without those of an earlier agent of the same account:
 * all agents of an account together list each session once.
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

/** How many agents take part or did, and how many of `handles` are among them. */
export async function countParticipants(
  query: Query,
  sessionId: string,
  handles: readonly string[],
): Promise<{ readonly count: number; readonly known: number }> {
  const row = await query.get<{ count: number; known: number }>(
    `SELECT count(*) AS count, CAST(COALESCE(sum(CASE WHEN handle IN (SELECT value FROM ${toValues(query.dialect, '$2')})
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
    `SELECT participant.agent_id FROM ${toValues(query.dialect, '$2')} AS asked CROSS JOIN participant
     WHERE participant.session_id = $1 AND participant.agent_id = asked.value AND participant.status <> 'left'`,
    sessionId,
    JSON.stringify(agentIds),
  );
  return new Set(rows.map((row) => row.agent_id));
}

/**
 * The handles of participants that are connected, as far as this account may know: those of its own agents, and of public
 * agents that block none of them.
 */
export async function listOnline(
  query: Query,
  sessionId: string,
  { accountId, owner }: { readonly accountId: string; readonly owner: string },
): Promise<ReadonlySet<string>> {
  const rows = await query.all<Pick<ParticipantRow, 'handle'>>(
    `SELECT participant.handle FROM participant JOIN agent ON agent.id = participant.agent_id
     WHERE participant.session_id = $1 AND participant.status <> 'left'
       AND EXISTS (SELECT 1 FROM socket WHERE socket.agent_id = participant.agent_id)
       AND (agent.account_id = $2 OR (agent.visibility = 'public' AND NOT EXISTS (
         SELECT 1 FROM block WHERE block.agent_id = participant.agent_id AND block.blocked_handle >= $3
           AND block.blocked_handle < $4)))`,
    sessionId,
    accountId,
    `@${owner}.`,
    `@${owner}/`,
  );
  return new Set(rows.map((row) => row.handle));
}

/** Those of these sessions in which one of these agents takes part or is invited. */
export async function listSessionsWith(
  query: Query,
  sessionIds: readonly string[],
  agentIds: readonly string[],
): Promise<string[]> {
  const rows = await query.all<Pick<ParticipantRow, 'session_id'>>(
    `SELECT DISTINCT participant.session_id
     FROM ${toValues(query.dialect, '$1')} AS asked CROSS JOIN participant
     WHERE participant.session_id = asked.value AND participant.status <> 'left'
       AND participant.agent_id IN (SELECT each.value FROM ${toValues(query.dialect, '$2')} AS each)`,
    JSON.stringify(sessionIds),
    JSON.stringify(agentIds),
  );
  return rows.map((row) => row.session_id);
}

/** Those of each of these sessions, by its id. */
export async function listParticipantsOf(
  query: Query,
  sessionIds: readonly string[],
): Promise<ReadonlyMap<string, readonly ParticipantRow[]>> {
  const rows = await query.all<ParticipantRow>(
    `SELECT participant.* FROM ${toValues(query.dialect, '$1')} AS asked CROSS JOIN participant
     WHERE participant.session_id = asked.value ORDER BY participant.position`,
    JSON.stringify(sessionIds),
  );
  const found = new Map(sessionIds.map((id): [string, ParticipantRow[]] => [id, []]));
  for (const row of rows) found.get(row.session_id)?.push(row);
  return found;
}

const IS_OPEN = `CASE WHEN agent.inbound_policy = 'open' THEN 1 ELSE 0 END`;
/** Until this write is over. SQLite has one writer. */
const keepPolicy = ({ dialect }: Query): string => (dialect === 'postgres' ? 'FOR SHARE OF agent' : '');

/** The creator, who is joined from the beginning (spec: POST /sessions, rule 1). */
export async function insertCreator(
  transaction: Transaction,
  sessionId: string,
  agent: { readonly id: string; readonly handle: string },
  now: number,
): Promise<void> {
  await transaction.run(
    `INSERT INTO participant (session_id, agent_id, handle, position, status, joined_at, left_at,
       first_invited_sequence, left_sequence, was_joined_at_end, session_state, is_open)
     SELECT $1, agent.id, $3, 0, 'joined', $4, NULL, NULL, NULL, 0, 'active', ${IS_OPEN}
     FROM agent WHERE agent.id = $2 ${keepPolicy(transaction)}`,
    sessionId,
    agent.id,
    agent.handle,
    now,
  );
}

/**
 * Makes an agent `invited`, whether or not it took part before. Only for a new one are the others searched: a reopening
 * invites all of them. Only a reopening can invite an agent that is still joined; it saw everything up to
 * `lastSequence`, the previous event.
 */
export async function putInvited(
  transaction: Transaction,
  sessionId: string,
  agent: { readonly id: string; readonly handle: string },
  { sequence, lastSequence }: { readonly sequence: number; readonly lastSequence: number },
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
       first_invited_sequence, left_sequence, was_joined_at_end, session_state, is_open)
     SELECT $1, agent.id, $3, (SELECT COALESCE(MAX(position), -1) + 1 FROM participant WHERE session_id = $1),
       'invited', NULL, NULL, $4, NULL, 0, 'active', ${IS_OPEN}
     FROM agent WHERE agent.id = $2 ${keepPolicy(transaction)}`,
    sessionId,
    agent.id,
    agent.handle,
    sequence,
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

/** A participant, for live delivery. */
export interface MemberRow {
  readonly agent_id: string;
  readonly status: ParticipantStatus;
}

/** Those who may see events of a session past `after`: the joined, the invited, and those who left later. */
export function listMembers(query: Query, sessionId: string, after: number): Promise<MemberRow[]> {
  return query.all<MemberRow>(
    `SELECT agent_id, status FROM participant
     WHERE session_id = $1 AND (status <> 'left' OR left_sequence > $2)`,
    sessionId,
    after,
  );
}

export interface OpenAgentRow {
  readonly agent_id: string;
  /** Its list contains the sender, or it has the sender's owner. */
  readonly is_listed: number;
}

/** The other recipients of a message that are open to anyone (spec: Rate limits, target open agent). */
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
       AND participant.is_open = 1`,
    sessionId,
    sender.agentId,
    sender.handle,
    sender.glob,
  );
}

/** An agent lets anyone in from now on, or no longer. Its participations say so too: a message asks them alone. */
export async function markOpen(transaction: Transaction, agentId: string, isOpen: boolean): Promise<void> {
  await transaction.run('UPDATE participant SET is_open = $2 WHERE agent_id = $1', agentId, isOpen ? 1 : 0);
}

/** The participations of `otherIds` in active sessions where both sides still take part. */
export function listSharedActive(
  query: Query,
  agentId: string,
  otherIds: readonly string[],
): Promise<ParticipantRow[]> {
  return query.all<ParticipantRow>(
    `SELECT other.* FROM ${toValues(query.dialect, '$2')} AS asked CROSS JOIN participant AS other
       JOIN participant AS mine ON mine.session_id = other.session_id AND mine.agent_id = $1
     WHERE other.agent_id = asked.value AND other.session_state = 'active' AND other.status <> 'left'
       AND mine.status <> 'left'
     ORDER BY other.session_id, other.position`,
    agentId,
    JSON.stringify(otherIds),
  );
}

/** An agent that was disconnected from a session that it has joined, and may come back. */
export interface AbsenceRow {
  readonly agent_id: string;
  readonly session_id: string;
  readonly since: number;
}

/** An absence counts from the moment it began. */
export async function insertAbsence(transaction: Transaction, row: AbsenceRow): Promise<void> {
  await transaction.run(
    `INSERT INTO absence (agent_id, session_id, since) VALUES ($1, $2, $3)
     ON CONFLICT (agent_id, session_id) DO NOTHING`,
    row.agent_id,
    row.session_id,
    row.since,
  );
}

/** Those of an agent begin again now; one from before it joined its session again ends. */
export async function restartAbsences(transaction: Transaction, agentId: string, since: number): Promise<void> {
  await transaction.run(
    `DELETE FROM absence WHERE agent_id = $1 AND NOT EXISTS (SELECT 1 FROM participant
       WHERE participant.agent_id = absence.agent_id AND participant.session_id = absence.session_id
         AND participant.status = 'joined' AND participant.joined_at <= absence.since)`,
    agentId,
  );
  await transaction.run('UPDATE absence SET since = $2 WHERE agent_id = $1', agentId, since);
}

/** Those that began after `tooLate` begin now. */
export async function restartFutureAbsences(transaction: Transaction, now: number, tooLate: number): Promise<void> {
  await transaction.run('UPDATE absence SET since = $1 WHERE since > $2', now, tooLate);
}

/** False: another service has handled it, or it began again in the meantime. */
export async function deleteAbsence(
  transaction: Transaction,
  { agent_id: agentId, session_id: sessionId, since }: AbsenceRow,
): Promise<boolean> {
  const sql = 'DELETE FROM absence WHERE agent_id = $1 AND session_id = $2 AND since = $3';
  return (await transaction.run(sql, agentId, sessionId, since)) === 1;
}

export function listAbsencesOf(query: Query, agentId: string, limit: number): Promise<AbsenceRow[]> {
  return query.all<AbsenceRow>(
    'SELECT * FROM absence WHERE agent_id = $1 ORDER BY session_id LIMIT $2',
    agentId,
    limit,
  );
}

/** Oldest first. */
export function listAbsences(query: Query, limit: number): Promise<AbsenceRow[]> {
  return query.all<AbsenceRow>('SELECT * FROM absence ORDER BY since, agent_id, session_id LIMIT $1', limit);
}

/** Active sessions in which an agent is joined and not yet absent, by session, after `afterSessionId`. */
export function listPresences(
  query: Query,
  agentId: string,
  afterSessionId: string,
  limit: number,
): Promise<ParticipantRow[]> {
  return query.all<ParticipantRow>(
    `SELECT participant.* FROM participant
     WHERE agent_id = $1 AND status = 'joined' AND session_state = 'active' AND session_id > $2
       AND NOT EXISTS (SELECT 1 FROM absence
         WHERE absence.agent_id = participant.agent_id AND absence.session_id = participant.session_id)
     ORDER BY session_id LIMIT $3`,
    agentId,
    afterSessionId,
    limit,
  );
}

/** An agent of an account that is invited to each of the sessions with open invitations, newest session first. */
export async function listInvitedAgents(
  query: Query,
  accountId: string,
  limit: number,
): Promise<ReadonlyMap<string, string>> {
  const rows = await query.all<{ session_id: string; handle: string }>(
    `SELECT participant.session_id, MIN(participant.handle) AS handle FROM agent CROSS JOIN participant
     WHERE agent.account_id = $1 AND agent.removed_at IS NULL AND participant.agent_id = agent.id
       AND participant.status = 'invited' AND participant.session_state = 'active'
     GROUP BY participant.session_id ORDER BY participant.session_id DESC LIMIT $2`,
    accountId,
    limit,
  );
  return new Map(rows.map((row) => [row.session_id, row.handle]));
}
