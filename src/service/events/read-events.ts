import type { EventEnvelope } from '../../wire/event.js';
import type { Query } from '../store/database.js';
import { listEvents, listEventsForOutsider, type ReadEventRow } from '../store/event-rows.js';
import type { ParticipantRow } from '../store/participant-rows.js';

/** What is held in memory for one reader at a time; a page may end before its limit. */
const PAGE_MAX_CHARACTERS = 4 * 1024 * 1024;
const ROWS_PER_QUERY = 64;

export type Viewer = Pick<
  ParticipantRow,
  'session_id' | 'agent_id' | 'status' | 'joined_at' | 'first_invited_sequence' | 'left_sequence'
>;

interface Page<Event> {
  readonly events: readonly Event[];
  /** Whether more events that the viewer may see follow these. */
  readonly hasMore: boolean;
}

export type VisibleEvents = Page<EventEnvelope>;

/** The events after `afterSequence` that a participant may see by its current status, in order. */
export async function readVisibleEvents(
  query: Query,
  viewer: Viewer,
  afterSequence: number,
  limit: number,
): Promise<VisibleEvents> {
  const { events, hasMore } = await readVisibleRows(query, viewer, afterSequence, limit);
  return { events: events.map(toEnvelope), hasMore };
}

/** The same as they are stored, for whoever need not look into them: replay and live are this one read. */
export async function readVisibleRows(
  query: Query,
  viewer: Viewer,
  afterSequence: number,
  limit: number,
): Promise<Page<ReadEventRow>> {
  const events: ReadEventRow[] = [];
  let after = afterSequence;
  let characters = 0;
  while (true) {
    const wanted = Math.min(ROWS_PER_QUERY, limit - events.length + 1);
    const rows = await listVisible(query, viewer, after, wanted);
    for (const row of rows) {
      if (events.length === limit || characters >= PAGE_MAX_CHARACTERS) return { events, hasMore: true };
      events.push(row);
      characters += row.payload.length;
      after = row.sequence;
    }
    if (rows.length < wanted) return { events, hasMore: false };
  }
}

/**
 * The eligibility table (spec: GET …/events), by current status alone (D-10). One who was taken out before it ever
 * joined sees what an invited participant saw, up to its own leaving.
 */
function listVisible(query: Query, viewer: Viewer, after: number, limit: number): Promise<ReadEventRow[]> {
  const { session_id: sessionId, agent_id: agentId } = viewer;
  const through = viewer.status === 'left' ? (viewer.left_sequence ?? 0) : Number.MAX_SAFE_INTEGER;
  if (viewer.status === 'joined' || (viewer.status === 'left' && viewer.joined_at !== null))
    return listEvents(query, sessionId, after, through, limit);
  const range = { after, endsAfter: viewer.first_invited_sequence ?? Number.MAX_SAFE_INTEGER, through };
  const ownTypes = ['session.invited', viewer.status === 'left' ? 'session.left' : 'session.invited'] as const;
  return listEventsForOutsider(query, sessionId, agentId, ownTypes, range, limit);
}

export function toEnvelope(row: ReadEventRow): EventEnvelope {
  return { ...headOf(row), payload: JSON.parse(row.payload) };
}

/** The text of the envelope. What was said is not read again for everyone who hears it: a message of brackets takes its time. */
export function envelopeText(row: ReadEventRow): string {
  return `${JSON.stringify(headOf(row)).slice(0, -1)},"payload":${row.payload}}`;
}

function headOf({ type, session_id, id, sequence, created_at }: ReadEventRow) {
  return { type, session_id, event_id: id, sequence, created_at };
}
