import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createRandom } from '../support/seeded-random.js';
import { createTally, IS_LONG } from '../support/tally.js';
import { type Origin, prepareOrigin } from './simulation/beginning.js';
import { type Cryptography, guardCryptography } from './simulation/cryptography.js';
import { Run } from './simulation/run.js';
import { FAULTS } from './simulation/world.js';

const SEEDS = IS_LONG ? 20_000 : 50;
/** On every change the same histories are gone through; at length, others each time. */
const USUAL_SEED = IS_LONG ? undefined : 1;
const OPERATIONS_MIN = 60;
const OPERATIONS_MORE = IS_LONG ? 141 : 21;
const REPLAYED_SEEDS = IS_LONG ? 5 : 3;
const REPLAYS = IS_LONG ? 3 : 2;
/** Each history in so many is followed by a look at the disk. */
const DISK_EVERY = 5;
const SEED_MAX = 2 ** 31;
const TRACE_SHOWN = process.env['ASP_TEST_SEED'] === undefined ? 60 : Number.MAX_SAFE_INTEGER;

/** What faults lead to, besides themselves. */
const CONSEQUENCES = ['answer lost', 'request lost', 'a day passes'];
/** What has to be seen happening, or the histories were too tame. */
const SEEN = ['ok', 'indeterminate', 'repeated', 'replayed', 'refreshed', 'authorized', 'families lost', 'revoked'];
const SEEN_TOO = ['keys rotated', 'with attachment', 'delivered', 'readers compared', 'paused or resumed'];

let cryptography: Cryptography;
let origin: Origin;
beforeAll(async () => {
  cryptography = await guardCryptography();
  origin = await prepareOrigin(cryptography);
});
afterAll(() => {
  origin.remove();
  cryptography.restore();
});

async function play(seed: number): Promise<Run> {
  const beginning = origin.copy();
  const run = new Run(seed, beginning, OPERATIONS_MIN + createRandom(seed).below(OPERATIONS_MORE));
  cryptography.use(run.world);
  try {
    await run.play();
    if (seed % DISK_EVERY === 0) await run.compareDisk();
    await run.close();
  } finally {
    beginning.remove();
  }
  return run;
}

/** What went wrong, how to see it again, and what came right before. */
function report(seed: number, { world }: Run): string {
  const last = world.recent.slice(-Math.min(TRACE_SHOWN, world.recent.length)).join('\n  ');
  return `seed ${seed} (ASP_TEST_SEED=${seed} begins with it): ${world.violations.join('; ')}\n  ${last}`;
}

describe('the whole service, decided by one seed', () => {
  it(
    `keeps its promises in ${SEEDS} histories of calls, faults, deaths and clocks`,
    async () => {
      const tally = createTally('simulation', USUAL_SEED);
      const totals: Record<string, number> = {};
      const before = process.cpuUsage();
      let steps = 0;
      for (let index = 0; index < SEEDS; index += 1) {
        const seed = (tally.seed + index) % SEED_MAX;
        const run = await play(seed);
        steps += run.world.steps;
        for (const [name, count] of Object.entries(run.world.counts)) totals[name] = (totals[name] ?? 0) + count;
        expect(run.world.violations.length === 0 ? '' : report(seed, run)).toBe('');
      }
      for (const name of [...Object.keys(FAULTS), ...CONSEQUENCES, ...SEEN, ...SEEN_TOO])
        for (let count = totals[name] ?? 0; count > 0; count -= 1) tally.fired(name);
      const { user, system } = process.cpuUsage(before);
      const { operations, starts, commits } = totals;
      const cpu_s = Math.round((user + system) / 1e6);
      tally.finish([...Object.keys(FAULTS), ...CONSEQUENCES, ...SEEN, ...SEEN_TOO], {
        seeds: SEEDS,
        operations,
        starts,
        commits,
        steps,
        refused: totals['refused 404'],
        cpu_s,
      });
    },
    IS_LONG ? 14_400_000 : 900_000,
  );

  it(`goes the same way again: ${REPLAYED_SEEDS} seeds, ${REPLAYS} times each`, async () => {
    const { seed: first } = createTally('replay', USUAL_SEED);
    const paths = new Set<string>();
    for (let index = 0; index < REPLAYED_SEEDS; index += 1) {
      const seed = (first + index) % SEED_MAX;
      const digests: string[] = [];
      for (let time = 0; time < REPLAYS; time += 1) digests.push((await play(seed)).world.digest());
      expect([seed, new Set(digests).size]).toEqual([seed, 1]);
      paths.add(digests[0] ?? '');
    }
    expect(paths.size).toBe(REPLAYED_SEEDS);
  }, 300_000);
});
