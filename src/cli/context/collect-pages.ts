import type { PageOptions } from '../words/page-options.js';

/** Items of a list, and where it continues. */
export interface Page<Item> {
  readonly items: readonly Item[];
  readonly next_cursor: string | null;
}

/** As many pages as the options ask for, one after the other. */
export async function collectPages<Item>(
  { limit, isAll, cursor }: PageOptions,
  pageMax: number,
  readPage: (limit: number, cursor: string | undefined) => Promise<Page<Item>>,
): Promise<Page<Item>> {
  const items: Item[] = [];
  const wanted = isAll ? Number.POSITIVE_INFINITY : limit;
  let next: string | null = cursor ?? null;
  do {
    const page = await readPage(Math.min(pageMax, wanted - items.length), next ?? undefined);
    items.push(...page.items);
    next = page.next_cursor;
  } while (next !== null && items.length < wanted);
  return { items, next_cursor: next };
}
