import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createRandom } from '../support/seeded-random.js';
import { createTally, IS_LONG } from '../support/tally.js';
import { type Origin, prepareOrigin } from './simulation/beginning.js';
import { type Cryptography, guardCryptography } from './simulation/cryptography.js';
import { Run } from './simulation/run.js';
import { FAULTS } from './simulation/world.js';

/** Each bug of this kind that was planted (docs/promises.md) was found within 40. */
const SEEDS = IS_LONG ? 20_000 : 40;
const SEEDS_OF_TWO = IS_LONG ? 10_000 : 25;
/** Every change runs the same histories; long runs use new ones each time. */
const USUAL_SEED = IS_LONG ? undefined : 1;
const OPERATIONS_MIN = 60;
const OPERATIONS_MORE = IS_LONG ? 141 : 21;
const REPLAYED_SEEDS = IS_LONG ? 5 : 3;
const REPLAYS = IS_LONG ? 3 : 2;
/** The disk is checked after one in this many histories. */
const DISK_EVERY = 5;
const SEED_MAX = 2 ** 31;
const TRACE_SHOWN = process.env['ASP_TEST_SEED'] === undefined ? 60 : Number.MAX_SAFE_INTEGER;

/** The consequences of faults. */
const CONSEQUENCES = ['answer lost', 'request lost', 'a day passes'];
/** Faults and events that a useful set of histories must include. */
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

async function play(seed: number, processes = 1): Promise<Run> {
  const beginning = origin.copy();
  const run = new Run(seed, beginning, OPERATIONS_MIN + createRandom(seed).below(OPERATIONS_MORE), processes);
  cryptography.use(run.world);
  try {
    await run.play();
    if (processes === 1 && seed % DISK_EVERY === 0) await run.compareDisk();
    await run.close();
  } finally {
    beginning.remove();
  }
  return run;
}

/** Reports the violations, how to repeat the run, and the last steps before them. */
function report(seed: number, { world }: Run): string {
  const last = world.recent.slice(-Math.min(TRACE_SHOWN, world.recent.length)).join('\n  ');
  return `seed ${seed} (ASP_TEST_SEED=${seed} begins with it): ${world.violations.join('; ')}\n  ${last}`;
}

describe('The whole service, simulated from one seed,', () => {
  it.each([
    ['one process', 'simulation', 1, SEEDS],
    ['two processes on one database', 'simulation-of-two', 2, SEEDS_OF_TWO],
  ])(
    'keeps its promises through calls, faults, crashes, and clock changes: %s',
    async (_, name, processes, seeds) => {
      const tally = createTally(name, USUAL_SEED);
      const totals: Record<string, number> = {};
      const before = process.cpuUsage();
      let steps = 0;
      for (let index = 0; index < seeds; index += 1) {
        const seed = (tally.seed + index) % SEED_MAX;
        const run = await play(seed, processes);
        steps += run.world.steps;
        for (const [what, count] of Object.entries(run.world.counts)) totals[what] = (totals[what] ?? 0) + count;
        expect(run.world.violations.length === 0 ? '' : report(seed, run)).toBe('');
      }
      const all = [...Object.keys(FAULTS), ...CONSEQUENCES, ...SEEN, ...SEEN_TOO];
      // A few histories do not contain everything.
      const expected = seeds < SEEDS ? ['bell lost', 'bell late', 'bell doubled', 'ok', ...SEEN_TOO.slice(2, 4)] : all;
      for (const what of expected) for (let count = totals[what] ?? 0; count > 0; count -= 1) tally.fired(what);
      const { user, system } = process.cpuUsage(before);
      const { operations, starts, commits } = totals;
      const cpu_s = Math.round((user + system) / 1e6);
      tally.finish(expected, {
        seeds,
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

  it(`repeats a run exactly: ${REPLAYED_SEEDS} seeds, ${REPLAYS} times each`, async () => {
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
