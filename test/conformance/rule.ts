import { test } from 'vitest';

import type { RuleId } from './rules.js';

/**
 * A test of one or more rules. Its title names them, so that a list of titles is the specification read back, and
 * `coverage.test.ts` can tell which rules nobody tests.
 */
export function rule(
  ids: RuleId | readonly RuleId[],
  title: string,
  body: () => Promise<void>,
  timeoutMs?: number,
): void {
  const list = typeof ids === 'string' ? [ids] : ids;
  test(`${list.join(', ')} › ${title}`, body, timeoutMs);
}
