import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';

import { abortAfter, backoffMs, orAborted, within } from '../../src/kit/clock.js';
import { createTestClock } from '../support/clock.js';

const never = (): Promise<never> => new Promise(() => {});
const untilAborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
const late = (): Error => new Error('late');

describe('within', () => {
  it('returns the result of work that ends in time', async () => {
    await expect(within(createTestClock(), 10, Promise.resolve('done'), late)).resolves.toBe('done');
  });

  it('returns or throws what `late` does when the time is up', async () => {
    const clock = createTestClock();
    const returned = within(clock, 10, never(), () => 'late');
    const thrown = within(clock, 10, never(), () => {
      throw late();
    });
    const expected = [expect(returned).resolves.toBe('late'), expect(thrown).rejects.toThrow('late')];
    clock.advance(10);
    await Promise.all(expected);
  });

  it('passes on the error of the work', async () => {
    await expect(within(createTestClock(), 10, Promise.reject(new Error('work')), late)).rejects.toThrow('work');
  });
});

describe('abortAfter', () => {
  it('aborts the work with the late reason when the time is up, not before', async () => {
    const clock = createTestClock();
    let seen: AbortSignal | undefined;
    const running = abortAfter(clock, 10, late, (signal) => {
      seen = signal;
      return untilAborted(signal);
    });
    clock.advance(9);
    expect(seen?.aborted).toBe(false);
    const expected = expect(running).rejects.toThrow('late');
    clock.advance(1);
    await expected;
  });

  it('aborts the work with the caller’s reason, even if it was aborted before', async () => {
    const reason = new Error('stop');
    const stop = new AbortController();
    const running = abortAfter(createTestClock(), 10, late, untilAborted, stop.signal);
    const expected = expect(running).rejects.toBe(reason);
    stop.abort(reason);
    await expected;
    const aborted = await abortAfter(createTestClock(), 10, late, async (signal) => signal.reason, stop.signal);
    expect(aborted).toBe(reason);
  });

  it('leaves no timer behind', async () => {
    const clock = createTestClock();
    const signal = await abortAfter(clock, 10, late, async (own) => own);
    clock.advance(10);
    expect(signal.aborted).toBe(false);
  });
});

describe('backoffMs', () => {
  it('doubles with each failure, up to the longest pause', () => {
    expect([0, 1, 2, 3, 2_000].map((failures) => backoffMs(250, failures, 1_500))).toEqual([
      250, 500, 1_000, 1_500, 1_500,
    ]);
  });

  it('pauses for at most a minute by default', () => {
    expect([6, 19].map((failures) => backoffMs(1_000, failures))).toEqual([60_000, 60_000]);
  });
});

describe('orAborted', () => {
  it('returns or throws what the work does if the signal does not abort', async () => {
    const { signal } = new AbortController();
    await expect(orAborted(Promise.resolve('done'), signal)).resolves.toBe('done');
    await expect(orAborted(Promise.reject(new Error('work')), signal)).rejects.toThrow('work');
  });

  it('throws the reason of the signal, or does what `aborted` does, even if the signal is already aborted', async () => {
    const stop = new AbortController();
    const thrown = expect(orAborted(never(), stop.signal)).rejects.toThrow('late');
    stop.abort(late());
    await thrown;
    await expect(orAborted(never(), stop.signal, () => 'instead')).resolves.toBe('instead');
  });

  it('leaves no listener on the signal', async () => {
    const { signal } = new AbortController();
    await orAborted(Promise.resolve(), signal);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });
});
