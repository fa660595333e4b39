import { LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX } from '../../../wire/limit.js';
import { collectPages } from '../../context/collect-pages.js';
import type { Context } from '../../context/context.js';
import { read } from '../../context/write.js';
import { isoTime, relativeTime } from '../../terminal/relative-time.js';
import { type PageOptions, readPageOptions } from '../../words/page-options.js';
import type { Words } from '../../words/words.js';

export function parse(words: Words): PageOptions {
  return readPageOptions(words, LIST_LIMIT_DEFAULT);
}

export async function run(context: Context, options: PageOptions): Promise<void> {
  const page = await collectPages(options, LIST_LIMIT_MAX, async (limit, cursor) => {
    const query = { limit, ...(cursor !== undefined && { cursor }) };
    const { blocks, next_cursor } = await read(context, 'listBlocks', { query });
    return { items: blocks, next_cursor };
  });
  const now = context.clock.now();
  await context.output.list(page, [
    { title: 'handle', value: ({ blocked_handle: handle }) => handle },
    { title: 'agent', value: ({ blocked_agent_id: id }) => id },
    {
      title: 'since',
      value: ({ created_at: at }) => relativeTime(at, now),
      piped: ({ created_at: at }) => isoTime(at),
      paint: (text, _, style) => style.dim(text),
    },
  ]);
  if (page.items.length === 0) await context.output.note('Nobody is blocked.');
  else if (page.next_cursor !== null)
    await context.output.note(`There are more: --all, or --cursor ${page.next_cursor}`);
}
