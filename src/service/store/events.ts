import { SENT_BY } from '../../wire/message.js';
import type { LoggedEvent } from '../core/bus.js';
import type { Query, Transaction } from '../core/database.js';
import { recordsIn } from './sql.js';

export interface EventRow extends LoggedEvent {
  /** The invitee of a `session.invited`, the leaver of a `session.left`; null elsewhere. */
  readonly subject_agent_id: string | null;
}

/** The part of an event that readers get. */
export type ReadEventRow = LoggedEvent;

const READ = 'SELECT session_id, sequence, id, type, created_at, payload FROM event';

const INSERT = `INSERT INTO event (session_id, sequence, id, type, subject_agent_id, created_at, payload)
  VALUES ($1, $2, $3, $4, $5, $6, $7)`;
const QUEUE = 'INSERT INTO inbox_queue (position) SELECT position FROM logged';
/** With its position in the queues that fill inboxes and the word index, if a log position is not enough. */
const APPEND = {
  sqlite: { plain: INSERT, indexed: INSERT },
  postgres: {
    plain: `WITH logged AS (${INSERT} RETURNING position) ${QUEUE}`,
    indexed: `WITH logged AS (${INSERT} RETURNING position), queued AS (${QUEUE})
      INSERT INTO search_queue (position) SELECT position FROM logged`,
  },
} as const;

/** `isIndexed`: its words can be found. */
export function insertEvent(transaction: Transaction, row: EventRow, isIndexed: boolean): void {
  const { plain, indexed } = APPEND[transaction.dialect];
  transaction.send(
    isIndexed ? indexed : plain,
    row.session_id,
    row.sequence,
    row.id,
    row.type,
    row.subject_agent_id,
    row.created_at,
    row.payload,
  );
}

/** The stream of a session after `after` up to and including `through`. */
export function listEvents(
  query: Query,
  sessionId: string,
  after: number,
  through: number,
  limit: number,
): Promise<ReadEventRow[]> {
  return query.all<ReadEventRow>(
    `${READ} WHERE session_id = $1 AND sequence > $2 AND sequence <= $3 ORDER BY sequence LIMIT $4`,
    sessionId,
    after,
    through,
    limit,
  );
}

/** The invitations and departures of an account's agents, as far as each agent may see its own. */
export function listEventsAboutAgentsOf(
  query: Query,
  accountId: string,
  sessionId: string,
  after: number,
  limit: number,
): Promise<ReadEventRow[]> {
  return query.all<ReadEventRow>(
    `SELECT event.session_id, event.sequence, event.id, event.type, event.created_at, event.payload
     FROM participant JOIN agent ON agent.id = participant.agent_id
       JOIN event ON event.session_id = participant.session_id AND event.subject_agent_id = participant.agent_id
     WHERE participant.session_id = $1 AND agent.account_id = $2 AND event.sequence > $3
       AND event.type IN ('session.invited', 'session.left')
       AND (participant.status <> 'left' OR event.sequence <= participant.left_sequence)
     ORDER BY event.sequence LIMIT $4`,
    sessionId,
    accountId,
    after,
    limit,
  );
}

/** When an event happened, and the beginning of a message, which names its sender; empty: it is not a message. */
export interface MessageHeadRow {
  readonly created_at: number;
  readonly head: string;
}

const HEAD_LENGTH = 400;

/** Of the last `limit` events of a session up to and including `through`, those after a moment. */
export function listMessageHeads(
  query: Query,
  sessionId: string,
  through: number,
  since: number,
  limit: number,
): Promise<MessageHeadRow[]> {
  return query.all<MessageHeadRow>(
    `SELECT latest.created_at, latest.head FROM (
       SELECT created_at, CASE type WHEN 'session.message' THEN substr(payload, 1, ${HEAD_LENGTH}) ELSE '' END AS head FROM event
       WHERE session_id = $1 AND sequence <= $2 ORDER BY sequence DESC LIMIT $3) AS latest
     WHERE latest.created_at > $4`,
    sessionId,
    through,
    limit,
    since,
  );
}

/** An event, and the payload of a message that may say that a person wrote it. */
export interface ClaimRow {
  readonly sequence: number;
  readonly id: string;
  readonly type: string;
  readonly claim: string | null;
}

/** The events of a session from `from` up to and including `through`, latest first. */
export function listClaims(
  query: Query,
  sessionId: string,
  from: number,
  through: number,
  limit: number,
): Promise<ClaimRow[]> {
  return query.all<ClaimRow>(
    `SELECT sequence, id, type, CASE WHEN type = 'session.message' AND payload LIKE '%"${SENT_BY}":"%' THEN payload END AS claim
     FROM event WHERE session_id = $1 AND sequence >= $2 AND sequence <= $3 ORDER BY sequence DESC LIMIT $4`,
    sessionId,
    from,
    through,
    limit,
  );
}

/** The same, with the payloads of an agent's own messages too. */
export function listOwnAndClaims(
  query: Query,
  sessionId: string,
  handle: string,
  through: number,
  limit: number,
): Promise<ClaimRow[]> {
  return query.all<ClaimRow>(
    `SELECT sequence, id, type, CASE WHEN type = 'session.message' AND
       (payload LIKE '%"${SENT_BY}":"%' OR payload LIKE $2) THEN payload END AS claim
     FROM event WHERE session_id = $1 AND sequence <= $3 ORDER BY sequence DESC LIMIT $4`,
    sessionId,
    `%"sender":"${handle}"%`,
    through,
    limit,
  );
}

/** The ends of a session after `after` up to and including `through`. */
export function listEnds(
  query: Query,
  sessionId: string,
  after: number,
  through: number,
  limit: number,
): Promise<ReadEventRow[]> {
  return query.all<ReadEventRow>(
    `${READ} WHERE session_id = $1 AND type = 'session.ended' AND sequence > $2 AND sequence <= $3
     ORDER BY sequence LIMIT $4`,
    sessionId,
    after,
    through,
    limit,
  );
}

/** The number of a session's last event up to this position of the whole log; 0 if there is none. */
export async function findSequenceAt(query: Query, sessionId: string, position: number): Promise<number> {
  const row = await query.get<{ sequence: number }>(
    'SELECT sequence FROM event WHERE session_id = $1 AND position <= $2 ORDER BY sequence DESC LIMIT 1',
    sessionId,
    position,
  );
  return row?.sequence ?? 0;
}

/** The position of the last event; 0 if there is none. */
export async function findLastPosition(query: Query): Promise<number> {
  const row = await query.get<{ position: number | null }>('SELECT MAX(position) AS position FROM event');
  return row?.position ?? 0;
}

/** The position of an event in the whole log, and its number in its session. */
export interface PositionRow {
  readonly position: number;
  readonly session_id: string;
  readonly sequence: number;
}

/** The whole log after a position. */
export function listPositionsAfter(query: Query, after: number, limit: number): Promise<PositionRow[]> {
  return query.all<PositionRow>(
    'SELECT position, session_id, sequence FROM event WHERE position > $1 ORDER BY position LIMIT $2',
    after,
    limit,
  );
}

/** The stream of a session after `after`. */
export function listPositionsIn(query: Query, sessionId: string, after: number, limit: number): Promise<PositionRow[]> {
  return query.all<PositionRow>(
    'SELECT position, session_id, sequence FROM event WHERE session_id = $1 AND sequence > $2 ORDER BY sequence LIMIT $3',
    sessionId,
    after,
    limit,
  );
}

/** When the last event of the whole log was created; undefined if there is none. */
export async function findNewestTime(query: Query): Promise<number | undefined> {
  const row = await query.get<{ created_at: number }>(
    'SELECT created_at FROM event WHERE position = (SELECT MAX(position) FROM event)',
  );
  return row?.created_at;
}

/** The events for an agent that has not joined: events about itself, of `ownTypes`, and each end after `endsAfter`. */
export function listEventsForOutsider(
  query: Query,
  sessionId: string,
  agentId: string,
  ownTypes: readonly [string, string],
  range: { readonly after: number; readonly endsAfter: number; readonly through: number },
  limit: number,
): Promise<ReadEventRow[]> {
  return query.all<ReadEventRow>(
    `SELECT * FROM (
       ${READ}
       WHERE session_id = $1 AND subject_agent_id = $2 AND sequence > $3 AND sequence <= $5 AND type IN ($6, $7)
       UNION ALL
       ${READ}
       WHERE session_id = $1 AND type = 'session.ended' AND sequence > $3 AND sequence > $4 AND sequence <= $5
     ) AS visible ORDER BY sequence LIMIT $8`,
    sessionId,
    agentId,
    range.after,
    range.endsAfter,
    range.through,
    ownTypes[0],
    ownTypes[1],
    limit,
  );
}

/** The last of these; 0 if there is none. */
export async function findLastForOutsider(
  query: Query,
  sessionId: string,
  agentId: string,
  ownTypes: readonly [string, string],
  range: { readonly endsAfter: number; readonly through: number },
): Promise<number> {
  const row = await query.get<{ sequence: number | null }>(
    `SELECT MAX(sequence) AS sequence FROM (
       SELECT sequence FROM event
       WHERE session_id = $1 AND subject_agent_id = $2 AND sequence <= $4 AND type IN ($5, $6)
       UNION ALL
       SELECT sequence FROM event WHERE session_id = $1 AND type = 'session.ended' AND sequence > $3 AND sequence <= $4
     ) AS visible`,
    sessionId,
    agentId,
    range.endsAfter,
    range.through,
    ownTypes[0],
    ownTypes[1],
  );
  return row?.sequence ?? 0;
}

/** The positions in the whole log of one event for each of these sessions. */
export async function listPositions(
  query: Query,
  events: readonly { readonly session_id: string; readonly sequence: number }[],
): Promise<ReadonlyMap<string, number>> {
  if (events.length === 0) return new Map();
  const rows = await query.all<{ session_id: string; position: number }>(
    `SELECT event.session_id, event.position
     FROM ${recordsIn(query.dialect, '$1', { session_id: 'TEXT', sequence: 'BIGINT' })} CROSS JOIN event
     WHERE event.session_id = asked.session_id AND event.sequence = asked.sequence`,
    JSON.stringify(events),
  );
  return new Map(rows.map((row) => [row.session_id, row.position]));
}

/** Larger events are not read for the preview of a message. */
const PREVIEWED_MAX_CHARACTERS = 64 * 1024;
/** How far the last message may be from the last event. */
const PREVIEWED_WITHIN = 64;

/** An event for a preview. */
export interface PreviewRow {
  readonly session_id: string;
  readonly sequence: number;
  readonly type: string;
  /** Null: it is too large. */
  readonly payload: string | null;
}

/** For each of these sessions, the last message up to `through`, unless it is long ago; or the event `at`. */
export function listPreviews(
  query: Query,
  wanted: readonly { readonly session_id: string; readonly through: number; readonly at: number }[],
): Promise<PreviewRow[]> {
  return query.all<PreviewRow>(
    `SELECT event.session_id, event.sequence, event.type,
       CASE WHEN LENGTH(event.payload) <= ${PREVIEWED_MAX_CHARACTERS} THEN event.payload END AS payload
     FROM (
       SELECT asked.session_id, CASE WHEN asked.at > 0 THEN asked.at ELSE (
         SELECT message.sequence FROM event AS message WHERE message.session_id = asked.session_id
           AND message.sequence <= asked.through AND message.sequence > asked.through - ${PREVIEWED_WITHIN}
           AND message.type = 'session.message' ORDER BY message.sequence DESC LIMIT 1) END AS sequence
       FROM ${recordsIn(query.dialect, '$1', { session_id: 'TEXT', through: 'BIGINT', at: 'BIGINT' })}
     ) AS found CROSS JOIN event WHERE event.session_id = found.session_id AND event.sequence = found.sequence`,
    JSON.stringify(wanted),
  );
}
