import type { Context } from '../../context/context.js';
import { printRequest, write } from '../../context/write.js';
import { type BlockOptions, readBlockOptions } from './blocked.js';

export { readBlockOptions as parse };

/** Blocks take effect in every active session the two share. */
export async function run(context: Context, { handles }: BlockOptions): Promise<void> {
  const items = [];
  for (const [index, handle] of handles.entries()) {
    const body = { handle };
    const suffix = handles.length > 1 ? `/${index}` : '';
    if (context.globals.isDryRun) await printRequest(context, 'blockAgent', { body });
    else items.push((await write(context, 'blockAgent', { body }, { subject: handle }, suffix)).reply);
  }
  if (context.globals.isDryRun) return;
  await context.output.list({ items, next_cursor: null }, [
    { title: 'handle', value: ({ blocked_handle: handle }) => handle },
  ]);
}
