import type { Participant, Session } from '../../wire/session.js';
import type { ParticipantRow } from '../store/participant-rows.js';
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

function viewParticipant(row: ParticipantRow): Participant {
  return { handle: row.handle, status: row.status, joined_at: row.joined_at, left_at: row.left_at };
}
