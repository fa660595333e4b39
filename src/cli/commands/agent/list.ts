import type { Agent } from '../../../wire/agent.js';
import { LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX } from '../../../wire/limit.js';
import { collectPages } from '../../context/collect-pages.js';
import { rememberWords } from '../../context/completion-memory.js';
import type { Context } from '../../context/context.js';
import { read } from '../../context/write.js';
import { type PageOptions, readPageOptions } from '../../words/page-options.js';
import type { Words } from '../../words/words.js';
import { reachText } from './agent-view.js';

export interface ListAgentsOptions extends PageOptions {
  readonly text: string | undefined;
}

export function parse(words: Words): ListAgentsOptions {
  return { ...readPageOptions(words, LIST_LIMIT_DEFAULT), text: words.arguments[0] };
}

export async function run(context: Context, options: ListAgentsOptions): Promise<void> {
  const page = await collectPages<Agent>(options, LIST_LIMIT_MAX, async (limit, cursor) => {
    const q = options.text === undefined ? {} : { q: options.text };
    const { agents, next_cursor } = await read(context, 'listAgents', {
      query: { limit, ...q, ...(cursor !== undefined && { cursor }) },
    });
    return { items: agents, next_cursor };
  });
  await context.output.list(page, [
    { title: 'handle', value: ({ canonical_handle: handle }) => handle },
    {
      title: 'state',
      value: reachText,
      paint: (text, _, style) => (text === 'online' ? style.green(text) : style.dim(text)),
    },
    { title: 'policy', value: ({ inbound_policy: policy }) => policy },
    { title: 'name', value: ({ display_name: name }) => name, isFlexible: true },
  ]);
  if (page.items.length === 0) await context.output.note('No agents.');
  else if (page.next_cursor !== null)
    await context.output.note(`There are more: --all, or --cursor ${page.next_cursor}`);
  await rememberWords(
    context,
    'handles',
    page.items.map((agent) => agent.canonical_handle),
  );
}
