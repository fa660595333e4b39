import { UsageError } from '../../terminal/cli-error.js';
import { handleOf, kindOfWord, readHandle, readId } from '../../words/values.js';
import type { Words } from '../../words/words.js';

export interface BlockOptions {
  readonly handles: readonly string[];
}

/** Handles that are to be blocked. */
export function readBlockOptions(words: Words): BlockOptions {
  const texts = words.arguments.flatMap((word) => word.split(',')).filter((word) => word !== '');
  return { handles: [...new Set(texts.map(readHandle))] };
}

/** What a block is named by: the handle, or the id of the agent. */
export function readBlocked(text: string): string {
  if (kindOfWord(text) === 'agent') return readId('agent', text);
  const handle = handleOf(text);
  if (handle !== undefined) return handle;
  throw new UsageError(`'${text}' is neither a handle nor the id of an agent.`, { next: ['asp', 'block', 'list'] });
}
