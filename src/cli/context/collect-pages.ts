import type { PageOptions } from '../options.js';
import type { Context } from './context.js';

/** Items of a list, and where it continues. */
export interface Page<Item> {
  readonly items: readonly Item[];
  readonly next_cursor: string | null;
}

/** Reads as many pages as the options ask for, one after the other. */
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

/** Tells people that a list is empty, or how to read on. */
export async function notePage({ output }: Context, page: Page<unknown>, ifEmpty: string): Promise<void> {
  if (page.items.length === 0) await output.note(ifEmpty);
  else if (page.next_cursor !== null) await output.note(`Showing ${page.items.length}, and there are more: add --all.`);
}
