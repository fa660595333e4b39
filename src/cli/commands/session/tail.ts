import type { Context } from '../../context/context.js';
import type { Words } from '../../words/words.js';
import { followSessions } from './follow.js';
import { readTailOptions, type TailOptions } from './tail-options.js';

export function parse(words: Words, nowMs: number): TailOptions {
  return readTailOptions(words, nowMs);
}

export function run(context: Context, options: TailOptions): Promise<void> {
  return followSessions(context, options);
}
