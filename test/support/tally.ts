import { randomBytes } from 'node:crypto';

import { createRandom, type SeededRandom } from './seeded-random.js';

/** Whether promise tests run at full size (`npm run test:long`) or in their short form, as on every change. */
export const IS_LONG = process.env['ASP_TEST_LONG'] === '1';

/** The record of a run under faults: its seed, how often each fault fired, and the measurements. */
export interface Tally {
  readonly seed: number;
  readonly random: SeededRandom;
  fired(fault: string): void;
  readonly faults: Readonly<Record<string, number>>;
  /** Prints the run on one line. Throws if one of these faults never fired. */
  finish(expected: readonly string[], facts: Readonly<Record<string, unknown>>): void;
}

/** Starts a tally. `ASP_TEST_SEED` repeats a run; otherwise the seed is `usual`, which is random by default. */
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

/** Returns the value below which this share of `values` lies. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
