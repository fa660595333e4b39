import { describe, expect, it } from 'vitest';

import { createThrottle } from '../../src/kit/repeat.js';
import { createTestClock } from '../support/clock.js';

const PAUSE_MS = 1_000;
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A throttle whose work ends when the test says so. */
function stage() {
  const clock = createTestClock();
  const faults: unknown[] = [];
  const ends: ((error?: Error) => void)[] = [];
  let isIdle = false;
  let looks = 0;
  const work = (): Promise<void> | undefined => {
    looks += 1;
    if (isIdle) return undefined;
    return new Promise((resolve, reject) => {
      ends.push((error) => (error === undefined ? resolve() : reject(error)));
    });
  };
  const throttle = createThrottle(clock, PAUSE_MS, work, (error) => faults.push(error));
  return {
    ...{ clock, faults, throttle },
    looks: () => looks,
    setIdle: (value: boolean) => {
      isIdle = value;
    },
    end: async (error?: Error) => {
      ends.pop()?.(error);
      await turn();
    },
  };
}

describe('A throttle', () => {
  it('runs at once, and once more for all calls while it ran and paused', async () => {
    const { clock, throttle, looks, end } = stage();
    throttle.call();
    throttle.call();
    expect(looks()).toBe(1);
    clock.advance(10 * PAUSE_MS);
    expect(looks()).toBe(1);
    await end();
    throttle.call();
    clock.advance(PAUSE_MS - 1);
    expect(looks()).toBe(1);
    clock.advance(1);
    expect(looks()).toBe(2);
    await end();
    clock.advance(10 * PAUSE_MS);
    expect(looks()).toBe(2);
  });

  it('does not pause after there was nothing to do', () => {
    const { throttle, looks, setIdle } = stage();
    setIdle(true);
    throttle.call();
    throttle.call();
    expect(looks()).toBe(2);
    setIdle(false);
    throttle.call();
    throttle.call();
    expect(looks()).toBe(3);
  });

  it('continues after a failure, which it reports', async () => {
    const { clock, faults, throttle, looks, end } = stage();
    const error = new Error('failed');
    throttle.call();
    throttle.call();
    await end(error);
    expect(faults).toEqual([error]);
    clock.advance(PAUSE_MS);
    expect(looks()).toBe(2);
  });

  it('runs nothing after it was stopped, in a pause or while it ran', async () => {
    for (const isPausing of [true, false]) {
      const { clock, throttle, looks, end } = stage();
      throttle.call();
      throttle.call();
      if (isPausing) await end();
      throttle.stop();
      await end();
      throttle.call();
      clock.advance(10 * PAUSE_MS);
      expect(looks()).toBe(1);
    }
  });
});
