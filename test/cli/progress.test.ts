import { beforeEach, describe, expect, it, vi } from 'vitest';

import { withProgress } from '../../src/cli/terminal/progress.js';
import { createTestClock } from '../support/clock.js';

const { started, stopped } = vi.hoisted(() => ({ started: vi.fn(), stopped: vi.fn() }));
vi.mock('ora', () => ({
  default: ({ text }: { text: string }) => ({
    start() {
      started(text);
      return { stop: stopped };
    },
  }),
}));

interface Deferred<Value> {
  readonly promise: Promise<Value>;
  readonly resolve: (value: Value) => void;
  readonly reject: (reason: Error) => void;
}

function deferred<Value>(): Deferred<Value> {
  let settle: Pick<Deferred<Value>, 'resolve' | 'reject'> | undefined;
  const promise = new Promise<Value>((resolve, reject) => {
    settle = { resolve, reject };
  });
  if (settle === undefined) throw new TypeError('a promise begins at once');
  return { promise, ...settle };
}

describe('a spinner', () => {
  beforeEach(() => {
    started.mockReset();
    stopped.mockReset();
  });

  it('shows after 400 ms and not before, and is gone when the work is done', async () => {
    const clock = createTestClock();
    const work = deferred<string>();
    const result = withProgress({ clock, isAllowed: true }, 'waiting', work.promise);
    clock.advance(399);
    await import('ora');
    expect(started).not.toHaveBeenCalled();
    clock.advance(1);
    await vi.waitFor(() => expect(started).toHaveBeenCalledExactlyOnceWith('waiting'));
    expect(stopped).not.toHaveBeenCalled();
    work.resolve('done');
    expect(await result).toBe('done');
    expect(stopped).toHaveBeenCalledTimes(1);
  });

  it('disappears when the work fails, too', async () => {
    const clock = createTestClock();
    const work = deferred<never>();
    const result = withProgress({ clock, isAllowed: true }, 'waiting', work.promise);
    clock.advance(400);
    await vi.waitFor(() => expect(started).toHaveBeenCalled());
    work.reject(new Error('no'));
    await expect(result).rejects.toThrow('no');
    expect(stopped).toHaveBeenCalledTimes(1);
  });

  it('never shows for work that is done before, even while the spinner loads', async () => {
    const clock = createTestClock();
    const work = deferred<void>();
    const result = withProgress({ clock, isAllowed: true }, 'waiting', work.promise);
    clock.advance(400);
    work.resolve();
    await result;
    clock.advance(10_000);
    await import('ora');
    expect(started).not.toHaveBeenCalled();
  });

  it('never shows if it is not allowed', async () => {
    const clock = createTestClock();
    const work = deferred<void>();
    const result = withProgress({ clock, isAllowed: false }, 'waiting', work.promise);
    clock.advance(10_000);
    await import('ora');
    work.resolve();
    await result;
    expect(started).not.toHaveBeenCalled();
  });
});
