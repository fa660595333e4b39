import type { EventEnvelope } from '../../../wire/event.js';
import { readVisibleEvents } from '../../events/read-events.js';
import type { Query } from '../../store/database.js';
import type { ParticipationRow } from '../../store/participant-rows.js';

const WIDENING = 16;

/** The last visible events of a part of the log, made into something small one by one. */
export interface Latest<Shown> {
  readonly shown: readonly Shown[];
  /** Whether the viewer may see more before these. */
  readonly hasEarlier: boolean;
}

/**
 * The last `count` events before the number `before` that the viewer may see. The log is read by the one read that there is,
 * from so far back; who sees few of its events is read from farther back.
 */
export async function readLatest<Shown>(
  query: Query,
  viewer: ParticipationRow,
  { before, count }: { readonly before: number; readonly count: number },
  show: (event: EventEnvelope) => Shown,
): Promise<Latest<Shown>> {
  const end = Math.min(before, viewer.last_sequence + 1, (viewer.left_sequence ?? Number.MAX_SAFE_INTEGER) + 1);
  for (let span = count + 1; ; span *= WIDENING) {
    const start = Math.max(0, end - 1 - span);
    const shown = await readWindow(query, viewer, { start, end, count: count + 1 }, show);
    if (shown.length > count || start === 0) return { shown: shown.slice(-count), hasEarlier: shown.length > count };
  }
}

/** Never more than one page of the log and what is shown of it is held. */
async function readWindow<Shown>(
  query: Query,
  viewer: ParticipationRow,
  { start, end, count }: { readonly start: number; readonly end: number; readonly count: number },
  show: (event: EventEnvelope) => Shown,
): Promise<Shown[]> {
  let shown: Shown[] = [];
  let after = start;
  while (true) {
    const { events, hasMore } = await readVisibleEvents(query, viewer, after, count);
    const inside = events.filter(({ sequence }) => sequence < end);
    shown = [...shown, ...inside.map(show)].slice(-count);
    const last = events.at(-1);
    if (!hasMore || last === undefined || last.sequence + 1 >= end) return shown;
    after = last.sequence;
  }
}
