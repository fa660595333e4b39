import type { Query, Transaction } from './database.js';

export interface EventRow {
  readonly session_id: string;
  readonly sequence: number;
  readonly id: string;
  readonly type: string;
  /** The invitee of a `session.invited`, the leaver of a `session.left`; null elsewhere. */
  readonly subject_agent_id: string | null;
  readonly created_at: number;
  /** JSON. */
  readonly payload: string;
}

/** What a reader is told. */
export type ReadEventRow = Omit<EventRow, 'subject_agent_id'>;

const READ = 'SELECT session_id, sequence, id, type, created_at, payload FROM event';

export async function insertEvent(transaction: Transaction, row: EventRow): Promise<void> {
  await transaction.run(
    `INSERT INTO event (session_id, sequence, id, type, subject_agent_id, created_at, payload)
     VALUES ($1, $2, $3, $4, $5, $6, $7)`,
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

/** What concerns one who has not joined: the events about itself, of `ownTypes`, and each end after `endsAfter`. */
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
