import type { EventEnvelope } from '../../wire/event.js';
import type { Query } from '../store/database.js';
import { findLastForOutsider, listEvents, listEventsForOutsider, type ReadEventRow } from '../store/event-rows.js';
import type { ParticipantRow, ParticipationRow } from '../store/participant-rows.js';

/** A page may end before its limit. */
export const PAGE_MAX_CHARACTERS = 4 * 1024 * 1024;
const ROWS_PER_FIRST_QUERY = 16;
const LARGE_EVENT_CHARACTERS = 128 * 1024;
const ROWS_PER_QUERY = 64;

export type Viewer = Pick<
  ParticipantRow,
  'session_id' | 'agent_id' | 'status' | 'joined_at' | 'first_invited_sequence' | 'left_sequence'
>;

export interface Page<Event> {
  readonly events: readonly Event[];
  /** Whether more events that the viewer may see follow these. */
  readonly hasMore: boolean;
}

export type VisibleEvents = Page<EventEnvelope>;
export type VisibleRows = Page<ReadEventRow>;

export function toVisibleEvents({ events, hasMore }: Page<ReadEventRow>): VisibleEvents {
  return { events: events.map(toEnvelope), hasMore };
}

/** The events after `afterSequence` that a participant may see by its current status, in order: replay and live are this one read. */
export function readVisibleRows(
  query: Query,
  viewer: Viewer,
  afterSequence: number,
  limit: number,
  maxCharacters = PAGE_MAX_CHARACTERS,
): Promise<VisibleRows> {
  return readPage((after, wanted) => listVisible(query, viewer, after, wanted), afterSequence, limit, maxCharacters);
}

/** A page of a list of events, in small steps: it holds no more than a few large events at once. */
export async function readPage(
  list: (after: number, limit: number) => Promise<readonly ReadEventRow[]>,
  afterSequence: number,
  limit: number,
  maxCharacters = PAGE_MAX_CHARACTERS,
): Promise<VisibleRows> {
  const events: ReadEventRow[] = [];
  let after = afterSequence;
  let characters = 0;
  while (true) {
    const wanted = Math.min(rowsToRead(events.length, characters, maxCharacters), limit - events.length + 1);
    const rows = await list(after, wanted);
    for (const row of rows) {
      if (events.length === limit || characters >= maxCharacters) return { events, hasMore: true };
      events.push(row);
      characters += row.payload.length;
      after = row.sequence;
    }
    if (rows.length < wanted) return { events, hasMore: false };
  }
}

/** Few until it is known how large the events are: a page of large ones takes a few of them, and many would be read for nothing. */
function rowsToRead(count: number, characters: number, maxCharacters: number): number {
  if (count === 0) return Math.min(ROWS_PER_FIRST_QUERY, Math.ceil(maxCharacters / LARGE_EVENT_CHARACTERS));
  const fitting = Math.ceil(((maxCharacters - characters) * count) / (characters + 1));
  return Math.max(1, Math.min(ROWS_PER_QUERY, fitting + 1));
}

/**
 * The eligibility table (spec: GET …/events), by current status alone (D-10). One who was taken out before it ever
 * joined sees what an invited participant saw, up to its own leaving.
 */
function listVisible(query: Query, viewer: Viewer, after: number, limit: number): Promise<ReadEventRow[]> {
  const { session_id: sessionId, agent_id: agentId } = viewer;
  const through = lastAllowed(viewer);
  if (seesAll(viewer)) return listEvents(query, sessionId, after, through, limit);
  return listEventsForOutsider(query, sessionId, agentId, ownTypesOf(viewer), { ...rangeOf(viewer), after }, limit);
}

/** The number of the last event up to `upTo` that a participant may see; 0: there is none. */
export async function findLastVisible(
  query: Query,
  viewer: Viewer & Pick<ParticipationRow, 'last_sequence'>,
  upTo = Number.MAX_SAFE_INTEGER,
): Promise<number> {
  const through = Math.min(upTo, lastAllowed(viewer));
  if (seesAll(viewer)) return Math.min(through, viewer.last_sequence);
  const range = { ...rangeOf(viewer), through };
  return findLastForOutsider(query, viewer.session_id, viewer.agent_id, ownTypesOf(viewer), range);
}

function seesAll(viewer: Viewer): boolean {
  return viewer.status === 'joined' || (viewer.status === 'left' && viewer.joined_at !== null);
}

function lastAllowed(viewer: Viewer): number {
  return viewer.status === 'left' ? (viewer.left_sequence ?? 0) : Number.MAX_SAFE_INTEGER;
}

function ownTypesOf(viewer: Viewer): readonly [string, string] {
  return ['session.invited', viewer.status === 'left' ? 'session.left' : 'session.invited'];
}

function rangeOf(viewer: Viewer): { readonly endsAfter: number; readonly through: number } {
  return { endsAfter: viewer.first_invited_sequence ?? Number.MAX_SAFE_INTEGER, through: lastAllowed(viewer) };
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
