import type { Participant, Session } from '../../wire/session.js';
import type { Query } from '../store/database.js';
import { listParticipants, type ParticipantRow } from '../store/participant-rows.js';
import type { SessionRow } from '../store/session-rows.js';

/** A session as every participant sees it (spec: Session). */
export async function viewSession(
  query: Query,
  row: Pick<SessionRow, 'id' | 'state' | 'topic' | 'created_at' | 'ended_at'>,
): Promise<Session> {
  const participants = await listParticipants(query, row.id);
  return {
    id: row.id,
    state: row.state,
    topic: row.topic,
    participants: participants.map(viewParticipant),
    created_at: row.created_at,
    ended_at: row.ended_at,
  };
}

function viewParticipant(row: ParticipantRow): Participant {
  return { handle: row.handle, status: row.status, joined_at: row.joined_at, left_at: row.left_at };
}
