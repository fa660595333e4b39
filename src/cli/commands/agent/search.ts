import { SEARCH_LIMIT_DEFAULT, SEARCH_LIMIT_MAX } from '../../../wire/limit.js';
import { collectPages } from '../../context/collect-pages.js';
import { rememberWords } from '../../context/completion-memory.js';
import type { Context } from '../../context/context.js';
import { read } from '../../context/write.js';
import { type PageOptions, readPageOptions } from '../../words/page-options.js';
import { readSearchText } from '../../words/values.js';
import type { Words } from '../../words/words.js';

export interface SearchAgentsOptions extends PageOptions {
  readonly text: string;
}

export function parse(words: Words): SearchAgentsOptions {
  return { ...readPageOptions(words, SEARCH_LIMIT_DEFAULT), text: readSearchText(words.arguments.join(' ')) };
}

export async function run(context: Context, options: SearchAgentsOptions): Promise<void> {
  const { text: q } = options;
  const page = await collectPages(options, SEARCH_LIMIT_MAX, async (limit, cursor) => {
    const query = { q, limit, ...(cursor !== undefined && { cursor }) };
    const { agents, next_cursor } = await read(context, 'searchAgents', { query });
    return { items: agents, next_cursor };
  });
  await context.output.list(page, [
    { title: 'handle', value: ({ canonical_handle: handle }) => handle },
    { title: 'name', value: ({ display_name: name }) => name, isFlexible: true },
  ]);
  if (page.items.length === 0) await context.output.note(`No agent matches '${q}'.`);
  else if (page.next_cursor !== null)
    await context.output.note(`There are more: --all, or --cursor ${page.next_cursor}`);
  await rememberWords(
    context,
    'handles',
    page.items.map((agent) => agent.canonical_handle),
  );
}
