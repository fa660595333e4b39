import { randomBytes } from 'node:crypto';

import { createRandom, type SeededRandom } from './seeded-random.js';

/** How large a test of a promise is: a short form on every change, the whole by `npm run test:long`. */
export const IS_LONG = process.env['ASP_TEST_LONG'] === '1';

/** What a run under faults has done: by which seed, how often each fault fired, and what was measured. */
export interface Tally {
  readonly seed: number;
  readonly random: SeededRandom;
  fired(fault: string): void;
  readonly faults: Readonly<Record<string, number>>;
  /** Prints the run in one line; throws when one of these faults never fired. */
  finish(expected: readonly string[], facts: Readonly<Record<string, unknown>>): void;
}

/** `ASP_TEST_SEED` repeats a run; otherwise it is the given one, or one by chance. */
export function createTally(title: string, usual = randomBytes(4).readUInt32LE()): Tally {
  const seed = Number(process.env['ASP_TEST_SEED'] ?? usual);
  const faults: Record<string, number> = {};
  return {
    seed,
    random: createRandom(seed),
    faults,
    fired(fault) {
      faults[fault] = (faults[fault] ?? 0) + 1;
    },
    finish(expected, facts) {
      process.stderr.write(`${title}: ${JSON.stringify({ seed, faults, ...facts })}\n`);
      const missing = expected.filter((fault) => faults[fault] === undefined);
      if (missing.length > 0) throw new Error(`${title}: never fired: ${missing.join(', ')}`);
    },
  };
}

/** The value below which a share of `values` lies. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
