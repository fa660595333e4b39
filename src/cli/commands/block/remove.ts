import type { Context } from '../../context/context.js';
import { printRequest, write } from '../../context/write.js';
import type { Words } from '../../words/words.js';
import { readBlocked } from './blocked.js';

export interface UnblockOptions {
  /** Handles and ids of agents. */
  readonly blocked: readonly string[];
}

export function parse(words: Words): UnblockOptions {
  const texts = words.arguments.flatMap((word) => word.split(',')).filter((word) => word !== '');
  return { blocked: [...new Set(texts.map(readBlocked))] };
}

export async function run(context: Context, options: UnblockOptions): Promise<void> {
  const items = [];
  for (const blocked of options.blocked) {
    const path = { blocked };
    if (context.globals.isDryRun) await printRequest(context, 'unblockAgent', { path });
    else {
      const { reply } = await write(context, 'unblockAgent', { path }, aboutBlock(blocked));
      items.push({ blocked, ...reply });
    }
  }
  if (context.globals.isDryRun) return;
  await context.output.list({ items, next_cursor: null }, [{ title: 'unblocked', value: ({ blocked }) => blocked }]);
}

function aboutBlock(blocked: string) {
  return {
    subject: blocked,
    messages: { NOT_FOUND: `${blocked} is not blocked by this agent.` },
    reasons: {},
    next: { NOT_FOUND: ['asp', 'block', 'list'] },
  };
}
