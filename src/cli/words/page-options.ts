import type { Words } from './words.js';

/** How much of a list is wanted. */
export interface PageOptions {
  readonly limit: number;
  readonly isAll: boolean;
  readonly cursor: string | undefined;
}

const MOST = 100_000;

/** What `--limit`, `--all` and `--cursor` say. */
export function readPageOptions(words: Words, standard: number): PageOptions {
  words.refuseBoth('limit', 'all');
  return {
    limit: words.count('limit', { min: 1, max: MOST }) ?? standard,
    isAll: words.flag('all'),
    cursor: words.text('cursor'),
  };
}
