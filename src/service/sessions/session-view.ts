import { LISTED_PARTICIPANTS_MAX } from '../../wire/limit.js';
import type { Participant, Session } from '../../wire/session.js';
import type { Query } from '../store/database.js';
import { listParticipantsOf, type ParticipantRow } from '../store/participant-rows.js';
import type { SessionRow } from '../store/session-rows.js';

/** A session as every participant sees it, with its participants in order of arrival (spec: Session). */
export function viewSession(
  row: Pick<SessionRow, 'id' | 'state' | 'topic' | 'created_at' | 'ended_at'>,
  participants: readonly ParticipantRow[] = [],
): Session {
  return {
    id: row.id,
    state: row.state,
    topic: row.topic,
    participants: participants.map(viewParticipant),
    created_at: row.created_at,
    ended_at: row.ended_at,
  };
}

const SESSIONS_PER_FIRST_QUERY = 8;

/**
 * The sessions of a page, with their participants: the first of `rows`, so many that they do not hold too many participants
 * together, but at least one.
 */
export async function viewSessions(
  query: Query,
  rows: readonly Pick<SessionRow, 'id' | 'state' | 'topic' | 'created_at' | 'ended_at'>[],
): Promise<Session[]> {
  const sessions: Session[] = [];
  let count = 0;
  let next = SESSIONS_PER_FIRST_QUERY;
  while (sessions.length < rows.length) {
    const some = rows.slice(sessions.length, sessions.length + next);
    const participants = await listParticipantsOf(
      query,
      some.map((row) => row.id),
    );
    for (const row of some) {
      const session = viewSession(row, participants.get(row.id));
      count += session.participants.length;
      if (sessions.length > 0 && count > LISTED_PARTICIPANTS_MAX) return sessions;
      sessions.push(session);
    }
    const fitting = ((LISTED_PARTICIPANTS_MAX - count) * sessions.length) / count;
    next = Math.max(1, Math.ceil(fitting));
  }
  return sessions;
}

function viewParticipant(row: ParticipantRow): Participant {
  return { handle: row.handle, status: row.status, joined_at: row.joined_at, left_at: row.left_at };
}
