import type { Listed } from '../pages/dashboard/list.js';
import { type Alike, type CursorScope, decodeCursor, encodeCursor, type Place } from '../store/cursor.js';
import type { Visit } from './visit.js';

const ROWS_PER_PAGE = 25;

/** What the address of a page says about the part of a list that it shows. */
export function askedOf({ query }: Visit): { readonly limit: number; readonly cursor?: string } {
  const cursor = query.one('after');
  return { limit: ROWS_PER_PAGE, ...(cursor !== undefined && { cursor }) };
}

/** A part of a list as a function of the domain gives it. */
export function listedOf<Item>(visit: Visit, items: readonly Item[], next: string | null): Listed<Item> {
  return { items, next, isFirst: visit.query.one('after') === undefined };
}

/** A list that is the dashboard's own. */
interface OwnList<Row, Start extends Place> {
  readonly scope: CursorScope;
  /** Before its first row. */
  readonly start: Start;
  placeOf(row: Row): Alike<Start>;
  /** The rows after a place, in the order of the list. */
  read(after: Alike<Start>, limit: number): Promise<readonly Row[]>;
}

/** The part of a list that the address asks for, and the way to the next one. */
export async function readListed<Row, const Start extends Place>(
  visit: Visit,
  { scope, start, placeOf, read }: OwnList<Row, Start>,
): Promise<Listed<Row>> {
  const { limit, cursor } = askedOf(visit);
  const rows = await read(decodeCursor(scope, cursor, start), limit + 1);
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  const hasMore = rows.length > limit && last !== undefined;
  return listedOf(visit, items, hasMore ? encodeCursor(scope, placeOf(last)) : null);
}
