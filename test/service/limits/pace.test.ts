import { describe, expect, it } from 'vitest';
import { ServiceError } from '../../../src/service/core/errors.js';
import { createSemaphore } from '../../../src/service/core/semaphore.js';
import { createPace } from '../../../src/service/http/work-bounds.js';
import { createTestClock } from '../../support/clock.js';

const settled = () => new Promise((resolve) => setImmediate(resolve));

describe('The pace of one caller', () => {
  const setUp = () => {
    const clock = createTestClock();
    const pace = createPace(clock, { perSecond: 10, burst: 30, longestWaitMs: 2_000 });
    const begun: string[] = [];
    const begin = (key: string, cost: number): Promise<void> => pace.admit(key, cost).then(() => void begun.push(key));
    return { clock, pace, begun, begin };
  };

  it('lets a burst begin at once, and later calls at the rate, in order', async () => {
    const { clock, begun, begin } = setUp();
    for (const name of ['a', 'a', 'a']) void begin(name, 10);
    void begin('a', 1);
    void begin('a', 10);
    await settled();
    expect(begun).toHaveLength(4);
    clock.advance(99);
    await settled();
    expect(begun).toHaveLength(4);
    clock.advance(1);
    await settled();
    expect(begun).toHaveLength(5);
  });

  it('does not delay anyone else', async () => {
    const { begun, begin } = setUp();
    for (let index = 0; index < 5; index += 1) void begin('a', 10);
    void begin('b', 30);
    await settled();
    expect(begun).toContain('b');
  });

  it('lets a new burst begin after a pause, but not a larger one after a longer pause', async () => {
    const { clock, begun, begin } = setUp();
    void begin('a', 30);
    clock.advance(3_600_000);
    for (let index = 0; index < 5; index += 1) void begin('a', 10);
    await settled();
    expect(begun).toHaveLength(1 + 4);
  });

  it('refuses calls that would wait too long, says when to retry, and does not count them', async () => {
    const { clock, begun, begin } = setUp();
    for (let index = 0; index < 6; index += 1) void begin('a', 10);
    const refused = await begin('a', 10).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ServiceError);
    expect(refused).toMatchObject({ code: 'RATE_LIMITED', options: { retryAfterS: 1 } });
    for (let index = 0; index < 100; index += 1) await begin('a', 10).catch(() => {});
    clock.advance(1_000);
    void begin('a', 10);
    clock.advance(3_000);
    await settled();
    expect(begun).toHaveLength(7);
  });

  it('charges work that has already begun to later calls', async () => {
    const { clock, pace, begun, begin } = setUp();
    pace.charge('a', 40);
    void begin('a', 1);
    await settled();
    expect(begun).toEqual([]);
    clock.advance(1_000);
    await settled();
    expect(begun).toEqual(['a']);
  });
});

describe('A semaphore for each key', () => {
  it('admits up to its limit, then others in order as those leave, and refuses when too many wait', async () => {
    const semaphore = createSemaphore({ max: 2, waitingMax: 2, refusal: 'Too many.' });
    const order: number[] = [];
    const releases = await Promise.all([semaphore.acquire('a'), semaphore.acquire('a')]);
    const waiting = [1, 2].map((index) =>
      semaphore.acquire('a').then((release) => {
        order.push(index);
        return release;
      }),
    );
    await expect(semaphore.acquire('a')).rejects.toThrow('Too many.');
    (await semaphore.acquire('b'))();
    for (const release of releases) {
      release();
      release();
      await settled();
    }
    expect(order).toEqual([1, 2]);
    for (const release of await Promise.all(waiting)) release();
    (await semaphore.acquire('a'))();
  });
});
