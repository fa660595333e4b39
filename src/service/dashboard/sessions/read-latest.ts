import type { EventEnvelope } from '../../../wire/event.js';
import { type AccountView, lastVisibleTo, readAccountRows } from '../../events/account-view.js';
import { toEnvelope } from '../../events/read-events.js';
import type { Query } from '../../store/database.js';
import type { ReadEventRow } from '../../store/event-rows.js';

const WIDENING = 16;
/** Of one page: what is shown must be read first, and fifty large messages of brackets take seconds. */
const READ_MAX_CHARACTERS = 512 * 1024;

/** The last visible events of a part of the log. */
export interface Latest {
  readonly events: readonly EventEnvelope[];
  /** Whether the account may see more before these. */
  readonly hasEarlier: boolean;
}

/**
 * The last `count` events before the number `before` that the account may see, fewer where they are large. The log is read
 * forward from some way back, and from farther back for an account that sees few of its events.
 */
export async function readLatest(
  query: Query,
  view: AccountView,
  { before, count }: { readonly before: number; readonly count: number },
): Promise<Latest> {
  const end = Math.min(before, lastVisibleTo(view) + 1);
  for (let span = count + 1; ; span *= WIDENING) {
    const start = Math.max(0, end - 1 - span);
    const rows = await readWindow(query, view, { start, end, count: count + 1 });
    if (rows.length <= count && start > 0) continue;
    const last = lastOf(rows, count);
    return { events: last.map(toEnvelope), hasEarlier: last.length < rows.length };
  }
}

function lastOf(rows: readonly ReadEventRow[], count: number): ReadEventRow[] {
  const last: ReadEventRow[] = [];
  let characters = 0;
  for (const row of rows.slice(-count).reverse()) {
    if (characters >= READ_MAX_CHARACTERS) break;
    last.unshift(row);
    characters += row.payload.length;
  }
  return last;
}

/** Never more than a page of the log is held, and as much of what is before it. */
async function readWindow(
  query: Query,
  view: AccountView,
  { start, end, count }: { readonly start: number; readonly end: number; readonly count: number },
): Promise<ReadEventRow[]> {
  let latest: ReadEventRow[] = [];
  let after = start;
  while (true) {
    const { events, hasMore } = await readAccountRows(query, view, after, count);
    const inside = events.filter(({ sequence }) => sequence < end);
    latest = [...latest, ...inside].slice(-count);
    const last = events.at(-1);
    if (!hasMore || last === undefined || last.sequence + 1 >= end) return latest;
    after = last.sequence;
  }
}
