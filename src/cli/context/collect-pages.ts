import { LIST_LIMIT_MAX } from '../../wire/limit.js';
import type { PageOptions } from '../options.js';
import type { Context } from './context.js';

/** Items of a list, and where the list continues. */
export interface Page<Item> {
  readonly items: readonly Item[];
  readonly next_cursor: string | null;
}

/** Reads as many pages as the options request, one after the other. */
export async function collectPages<Item>(
  { limit, isAll, cursor }: PageOptions,
  pageMax: number,
  readPage: (query: { limit: number; cursor?: string }) => Promise<Page<Item>>,
): Promise<Page<Item>> {
  const items: Item[] = [];
  const wanted = isAll ? Number.POSITIVE_INFINITY : limit;
  let next: string | null = cursor ?? null;
  do {
    const page = await readPage({
      limit: Math.min(pageMax, wanted - items.length),
      ...(next !== null && { cursor: next }),
    });
    items.push(...page.items);
    next = page.next_cursor;
  } while (next !== null && items.length < wanted);
  return { items, next_cursor: next };
}

/**
 * The same, for the items that match. If a page has more matches than requested, it is read again up to the last one,
 * so that the cursor is exactly after it.
 */
export async function collectMatching<Item>(
  { limit, isAll, cursor }: PageOptions,
  readPage: (query: { limit: number; cursor?: string }) => Promise<Page<Item>>,
  isMatch: (item: Item) => boolean,
): Promise<Page<Item>> {
  const items: Item[] = [];
  const wanted = isAll ? Number.POSITIVE_INFINITY : limit;
  let next: string | null = cursor ?? null;
  do {
    const from: { cursor?: string } = next === null ? {} : { cursor: next };
    let page = await readPage({ limit: LIST_LIMIT_MAX, ...from });
    const last = page.items.flatMap((item, at) => (isMatch(item) ? [at] : []))[wanted - items.length - 1];
    if (last !== undefined && last < page.items.length - 1) page = await readPage({ limit: last + 1, ...from });
    items.push(...page.items.filter(isMatch));
    next = page.next_cursor;
  } while (next !== null && items.length < wanted);
  return { items, next_cursor: next };
}

/** Says that a list is empty, or how to continue it. */
export async function notePage({ output }: Context, page: Page<unknown>, ifEmpty: string): Promise<void> {
  if (page.items.length === 0) await output.note(ifEmpty);
  else if (page.next_cursor !== null) await output.note(`Showing the first ${page.items.length}. For more, add --all.`);
}
