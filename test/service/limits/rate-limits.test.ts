import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Database } from '../../../src/service/core/database.js';
import { ServiceError } from '../../../src/service/core/errors.js';
import type { Budget } from '../../../src/service/core/rate-limits.js';
import { createMemoryLimits } from '../../../src/service/core/rate-limits.js';
import { createStoredLimits } from '../../../src/service/store/stored-limits.js';
import { RATE_LIMIT, type RateLimitName } from '../../../src/wire/limit.js';
import { isShared, openTestStore, TEST_STORE } from '../../support/stores.js';
import { createHandClock } from '../sessions/stage.js';

const NAMES = Object.keys(RATE_LIMIT) as RateLimitName[];

let database: Database;
beforeAll(async () => {
  database = await openTestStore();
});
afterAll(() => database.close());

/** Sets up the limits of the store under test. Each test has separate subjects. */
function setUp() {
  const clock = createHandClock();
  const limits = isShared(database) ? createStoredLimits(database.aside, () => clock.now()) : createMemoryLimits(clock);
  const run = randomUUID();
  const subjectOf = (name: string): string => `${run} ${name}`;
  /** Returns undefined if the request was counted, else the Retry-After. */
  const tryTake = async (budgets: readonly Budget[]): Promise<number | undefined> => {
    try {
      await limits.takeAll(budgets.map((budget) => ({ ...budget, subjectId: subjectOf(budget.subjectId) })));
      return undefined;
    } catch (error) {
      if (error instanceof ServiceError && error.code === 'RATE_LIMITED') return error.options.retryAfterS;
      throw error;
    }
  };
  return { clock, limits, tryTake, subjectOf };
}

describe('Rate limits', () => {
  it.each(NAMES)('%s: exactly the limit in a window, separately for each subject', async (name) => {
    const { clock, tryTake } = setUp();
    const { count, window_ms } = RATE_LIMIT[name];
    for (let i = 0; i < count; i += 1) expect(await tryTake([{ name, subjectId: 'a' }])).toBeUndefined();
    for (let i = 0; i < 200; i += 1) expect(await tryTake([{ name, subjectId: 'a' }])).toBe(window_ms / 1000);
    expect(await tryTake([{ name, subjectId: 'b' }])).toBeUndefined();
    clock.advance(window_ms - 1);
    expect(await tryTake([{ name, subjectId: 'a' }])).toBe(1);
    clock.advance(1);
    for (let i = 0; i < count; i += 1) expect(await tryTake([{ name, subjectId: 'a' }])).toBeUndefined();
    expect(await tryTake([{ name, subjectId: 'a' }])).toBe(window_ms / 1000);
  });

  it('say how many calls of a subject are in the window', async () => {
    const { clock, limits, tryTake, subjectOf } = setUp();
    const used = () => limits.getUsed('search', subjectOf('a'));
    expect(await used()).toBe(0);
    for (let i = 0; i < 40; i += 1) {
      await tryTake([{ name: 'search', subjectId: 'a' }]);
      clock.advance(1_000);
    }
    expect(await used()).toBe(30);
    clock.advance(RATE_LIMIT.search.window_ms - 20_000);
    expect(await used()).toBe(9);
    clock.advance(20_000);
    expect([await used(), await limits.getUsed('search', subjectOf('b'))]).toEqual([0, 0]);
  });

  it('never allow more than the limit in any window; Retry-After is in whole seconds, enough, and not a second too long', async () => {
    const name = 'search';
    const { count, window_ms } = RATE_LIMIT[name];
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 6000 }), { minLength: 40, maxLength: 120 }), async (gaps) => {
        const { clock, tryTake } = setUp();
        const taken: number[] = [];
        for (const gap of gaps) {
          clock.advance(gap);
          const retryAfterS = await tryTake([{ name, subjectId: 'a' }]);
          if (retryAfterS === undefined) {
            taken.push(clock.now());
            const inWindow = taken.filter((time) => time > clock.now() - window_ms);
            expect(inWindow.length).toBeLessThanOrEqual(count);
            continue;
          }
          expect(Number.isInteger(retryAfterS) && retryAfterS >= 1).toBe(true);
          const isFreeAt = (moment: number) => taken.filter((time) => time > moment - window_ms).length < count;
          expect(isFreeAt(clock.now() + retryAfterS * 1000)).toBe(true);
          expect(isFreeAt(clock.now() + (retryAfterS - 1) * 1000)).toBe(false);
        }
      }),
      { numRuns: isShared(database) ? 10 : 200 },
    );
  });

  it('do not count a refused call: hammering does not lock out', async () => {
    const { clock, tryTake } = setUp();
    for (let i = 0; i < 60; i += 1) await tryTake([{ name: 'sendMessage', subjectId: 's' }]);
    for (let i = 0; i < 59; i += 1) {
      clock.advance(1000);
      expect(await tryTake([{ name: 'sendMessage', subjectId: 's' }])).toBe(59 - i);
    }
    clock.advance(1000);
    expect(await tryTake([{ name: 'sendMessage', subjectId: 's' }])).toBeUndefined();
  });

  it('charge several budgets together or not at all, and Retry-After suffices for all of them', async () => {
    const { clock, tryTake } = setUp();
    const open = { name: 'sendToOpenAgent', subjectId: 'o' } as const;
    for (let i = 0; i < 500; i += 1) await tryTake([open]);
    clock.advance(10_000);
    for (let i = 0; i < 100; i += 1) expect(await tryTake([{ name: 'sendMessage', subjectId: 's' }, open])).toBe(3590);
    for (let i = 0; i < 60; i += 1) expect(await tryTake([{ name: 'sendMessage', subjectId: 's' }])).toBeUndefined();
    expect(await tryTake([{ name: 'sendMessage', subjectId: 's' }])).toBe(60);
  });

  it('charge a weighted call completely or not at all, and Retry-After suffices for all of it', async () => {
    const { clock, limits, tryTake } = setUp();
    const heavy = (weight: number) => tryTake([{ name: 'search', subjectId: 'a', weight }]);
    expect(await heavy(10)).toBeUndefined();
    clock.advance(20_000);
    expect(await heavy(15)).toBeUndefined();
    expect(await heavy(6)).toBe(40);
    expect(await heavy(16)).toBe(60);
    expect(await heavy(5)).toBeUndefined();
    expect(await heavy(1)).toBe(40);
    clock.advance(40_000);
    expect(await heavy(11)).toBe(20);
    expect(await heavy(10)).toBeUndefined();
    const subjectId = randomUUID();
    await limits.takeAll([{ name: 'search', subjectId, weight: 30 }]);
    await expect(limits.check({ name: 'search', subjectId, weight: 30 })).rejects.toMatchObject({
      options: { retryAfterS: 60 },
    });
    clock.advance(60_000);
    await limits.check({ name: 'search', subjectId, weight: 30 });
  });

  it('refuse in a check as in a call, with the same wait, without counting', async () => {
    const { clock, limits, tryTake } = setUp();
    const subjectId = randomUUID();
    const tryCheck = async (): Promise<number | undefined> =>
      limits.check({ name: 'search', subjectId }).then(
        () => undefined,
        (error: unknown) => (error instanceof ServiceError ? error.options.retryAfterS : -1),
      );
    for (let i = 0; i < 30; i += 1) {
      expect(await tryCheck()).toBeUndefined();
      await limits.take('search', subjectId);
      clock.advance(100);
    }
    expect(await tryCheck()).toBe(57);
    await expect(limits.take('search', subjectId)).rejects.toMatchObject({ options: { retryAfterS: 57 } });
    expect(await tryTake([{ name: 'search', subjectId: 'another' }])).toBeUndefined();
    clock.advance(57_000);
    expect(await tryCheck()).toBeUndefined();
  });

  if (TEST_STORE !== 'postgres')
    it('neither lock out nor let through when the machine’s time is set', async () => {
      let wall = 0;
      const limits = createMemoryLimits({ now: () => wall, monotonic: () => 5, schedule: () => () => {} });
      for (let i = 0; i < 30; i += 1) await limits.take('createSession', 'a');
      wall = 1e12;
      await expect(limits.take('createSession', 'a')).rejects.toThrow('Too many requests');
    });
});

if (TEST_STORE !== 'postgres')
  describe('Rate limits in memory', () => {
    it('forget subjects whose window has passed, so that active subjects bound the memory', async () => {
      const clock = createHandClock();
      const limits = createMemoryLimits(clock);
      for (let i = 0; i < 50_000; i += 1) {
        await limits.take('sendMessage', `sess_${i}`);
        if (i % 100 === 99) clock.advance(1000);
      }
      expect(limits.subjectCount).toBeLessThanOrEqual(6100);
    });

    it('remember a bounded number of subjects, no matter how many are invented at once', async () => {
      const limits = createMemoryLimits(createHandClock());
      for (let i = 0; i < 150_000; i += 1) await limits.take('issueToken', `oac_${i}`);
      expect(limits.subjectCount).toBeLessThanOrEqual(100_001);
    });
  });
