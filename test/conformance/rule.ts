import { test } from 'vitest';

import type { RuleId } from './rules.js';

/**
 * Defines a test of one or more rules. The title names them, so that the list of titles reads like the specification
 * and `coverage.test.ts` can find rules without a test.
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
