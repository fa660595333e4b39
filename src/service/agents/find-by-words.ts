import { SEARCH_QUERY_MIN_LENGTH } from '../../wire/limit.js';
import type { Query } from '../store/database.js';
import { listTerms, type SearchKind, type TermPlace } from '../store/search-rows.js';
import { searchTermsOf } from '../store/search-text.js';

const WALK_STEP = 100;
const WALK_MAX = 1000;

export const WALK_START: TermPlace = { term: '', subject_id: '' };

export interface Found {
  readonly subjectIds: readonly string[];
  /** Where to go on; undefined: there are no more. */
  readonly next: TermPlace | undefined;
}

/**
 * Those who have a word beginning with each word of `text`, at most `limit`. Walks along the words that begin with the
 * longest of them, and not far: a page may hold fewer than `limit` and still be followed by others.
 */
export async function findByWords(
  query: Query,
  kind: SearchKind,
  text: string,
  after: TermPlace,
  limit: number,
): Promise<Found> {
  const terms = searchTermsOf(text);
  const [longest, ...others] = [...new Set(terms)].sort((one, other) => other.length - one.length);
  const subjectIds: string[] = [];
  // Signs do not count: else `a*` would list everybody whose name begins with an a.
  if (longest === undefined || terms.join('').length < SEARCH_QUERY_MIN_LENGTH) return { subjectIds, next: undefined };
  let place = after;
  for (let walked = 0; walked < WALK_MAX; walked += WALK_STEP) {
    const rows = await listTerms(query, kind, [longest, ...others], place, WALK_STEP);
    for (const row of rows) {
      if (row.is_match === 1 && subjectIds.length === limit) return { subjectIds, next: place };
      if (row.is_match === 1) subjectIds.push(row.subject_id);
      place = { term: row.term, subject_id: row.subject_id };
    }
    if (rows.length < WALK_STEP) return { subjectIds, next: undefined };
  }
  return { subjectIds, next: place };
}
