import { describe, expect, it } from 'vitest';

import { createSlots } from '../../../src/service/store/postgres.js';
import { createTestClock } from '../../support/clock.js';

const BOUND_MS = 1_000;

interface Outcome {
  readonly refused: number;
  readonly waitsMs: readonly number[];
}

/** Makes calls at these times. Each occupies a slot for `serviceMs`. Calls that would wait too long are refused. */
async function run(arrivalsMs: readonly number[], slotCount: number, serviceMs: number): Promise<Outcome> {
  const clock = createTestClock();
  const slots = createSlots(slotCount, 1_000_000, { clock, patienceMs: 1e9, isStuck: () => false });
  let refused = 0;
  const waitsMs: number[] = [];
  const calls: Promise<void>[] = [];
  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
  };
  const comeAt = new Map<number, number>();
  for (const at of arrivalsMs) comeAt.set(at, (comeAt.get(at) ?? 0) + 1);
  for (let now = 0; now <= Math.max(...arrivalsMs) || calls.length > waitsMs.length; now += 1) {
    for (let count = comeAt.get(now) ?? 0; count > 0; count -= 1) {
      if (slots.waitMs() > BOUND_MS) {
        refused += 1;
        continue;
      }
      const since = clock.monotonic();
      calls.push(
        slots.use(async () => {
          waitsMs.push(clock.monotonic() - since);
          await new Promise<void>((resolve) => clock.schedule(serviceMs, resolve));
        }),
      );
    }
    await settle();
    clock.advance(1);
    await settle();
  }
  clock.advance(serviceMs);
  await Promise.all(calls);
  return { refused, waitsMs };
}

/** Returns the times of evenly spaced calls. */
const steady = (perSecond: number, seconds: number): number[] =>
  Array.from({ length: perSecond * seconds }, (_, index) => Math.floor((index * 1_000) / perSecond));

describe('The line for the database', () => {
  it.each([
    [1, 20, 300],
    [1, 20, 3_000],
    [4, 20, 2_000],
    [8, 100, 400],
  ])(
    'with %i slots of %i ms and %i calls a second refuses early, and keeps the slots busy',
    async (slots, ms, calls) => {
      const { refused, waitsMs } = await run(steady(calls, 5), slots, ms);
      expect(refused).toBeGreaterThan(0);
      // Calls are admitted until the line has measured its speed.
      const unknown = (calls / 4) * (ms / slots);
      expect(Math.max(...waitsMs)).toBeLessThan(BOUND_MS + 250 + unknown);
      expect(waitsMs.length).toBeGreaterThan((4.5 * 1_000 * slots) / ms);
      const later = waitsMs.slice(Math.floor(waitsMs.length / 2));
      if (calls < 1_000) expect(Math.max(...later)).toBeLessThan(1.5 * BOUND_MS);
    },
  );

  it('admits a sudden burst, and later calls as soon as the burst is done', async () => {
    const burst = Array.from({ length: 300 }, () => 0);
    expect((await run(burst, 2, 10)).refused).toBe(0);
    const { refused, waitsMs } = await run([...burst, 100, 600, 1_400, 2_000], 2, 10);
    expect(refused).toBe(0);
    expect(Math.max(...waitsMs)).toBeLessThan(1_500);
  });

  it('admits every call while the slots keep up', async () => {
    const { refused, waitsMs } = await run(steady(95, 5), 2, 20);
    expect([refused, Math.max(...waitsMs)]).toEqual([0, 0]);
  });

  it('refuses calls while nothing moves for a second', async () => {
    expect((await run([0, 0, 500, 1_002, 1_500], 1, 5_000)).refused).toBe(2);
  });
});
