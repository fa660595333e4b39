import axe from 'axe-core';
import type { Page } from 'playwright-core';

interface Results {
  readonly violations: readonly {
    readonly id: string;
    readonly nodes: readonly { readonly target: readonly string[] }[];
  }[];
  readonly passes: readonly unknown[];
}

/** Runs axe on a page and returns each broken rule with the element that breaks it. */
export async function findViolations(page: Page): Promise<string[]> {
  await page.evaluate(`${axe.source}; undefined`);
  // Otherwise, the answer also describes each element that breaks no rule.
  const { violations, passes } = await page.evaluate<Results>(`axe.run({ resultTypes: ['violations'] })`);
  if (passes.length === 0) throw new Error(`axe checked nothing on ${page.url()}`);
  return violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target.join(' ')}`));
}
