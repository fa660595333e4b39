import { splitHandle } from '../../../wire/handle.js';
import type { Context } from '../../context/context.js';
import { read } from '../../context/write.js';
import { readHandle } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { aboutAgent } from './agent-view.js';

export interface CardOptions {
  readonly handle: string;
}

export function parse(words: Words): CardOptions {
  return { handle: readHandle(words.arguments[0] ?? '') };
}

/** The card is Markdown that the agent wrote. */
export async function run(context: Context, { handle }: CardOptions): Promise<void> {
  const card = await read(context, 'getAgentCard', { path: splitHandle(handle) }, aboutAgent(handle));
  await context.output.document({ handle, card }, (safe) => safe.card);
}
