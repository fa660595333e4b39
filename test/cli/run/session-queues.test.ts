import { describe, expect, it } from 'vitest';

import { SessionQueues } from '../../../src/agent/session-queues.js';

/** Returns work whose end the test controls. */
function gates() {
  const open = new Map<string, () => void>();
  const begun: string[] = [];
  const work = (name: string) => async (): Promise<void> => {
    begun.push(name);
    await new Promise<void>((resolve) => open.set(name, resolve));
  };
  const end = async (name: string): Promise<void> => {
    open.get(name)?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { begun, work, end };
}

const never = (): void => {
  throw new Error('nothing fails here');
};

describe('asp run › the order of work', () => {
  it('keeps the order within a session, and serves others at the same time, up to the limit', async () => {
    const { begun, work, end } = gates();
    const queues = new SessionQueues({ concurrency: 2, capacity: 100 }, never);
    for (const [session, name] of [
      ['a', 'a1'],
      ['a', 'a2'],
      ['b', 'b1'],
      ['c', 'c1'],
    ] as const)
      await queues.add(session, work(name));
    expect(begun).toEqual(['a1', 'b1']);
    await end('a1');
    expect(begun).toEqual(['a1', 'b1', 'c1']);
    await end('b1');
    expect(begun).toEqual(['a1', 'b1', 'c1', 'a2']);
    expect(queues.isBusy('b')).toBe(false);
    await end('a2');
    await end('c1');
    await queues.settled();
    expect(queues.isBusy('a')).toBe(false);
  });

  it('slows down a caller that adds more than fits', async () => {
    const { work, end } = gates();
    const queues = new SessionQueues({ concurrency: 1, capacity: 2 }, never);
    await queues.add('a', work('a1'));
    let isAdded = false;
    const adding = queues.add('a', work('a2')).then(() => {
      isAdded = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(isAdded).toBe(false);
    await end('a1');
    await adding;
    expect(isAdded).toBe(true);
    await end('a2');
    await queues.settled();
  });

  it('begins nothing once it is stopped, releases waiting callers, and finishes running work', async () => {
    const { begun, work, end } = gates();
    const queues = new SessionQueues({ concurrency: 1, capacity: 2 }, never);
    await queues.add('a', work('a1'));
    const adding = queues.add('a', work('a2'));
    queues.stop();
    await adding;
    const settled = queues.settled();
    await end('a1');
    await settled;
    expect(begun).toEqual(['a1']);
  });

  it('reports the first failure, and begins nothing after it', async () => {
    const failures: unknown[] = [];
    const begun: string[] = [];
    const queues = new SessionQueues({ concurrency: 1, capacity: 9 }, (error) => failures.push(error));
    await queues.add('a', async () => {
      throw new Error('first');
    });
    await queues.add('a', async () => {
      begun.push('a2');
    });
    await expect(queues.settled()).rejects.toThrow('first');
    expect(failures).toHaveLength(1);
    expect(begun).toEqual([]);
  });

  it('lets other sessions go ahead of work that has to wait, and asks again before that work begins', async () => {
    const { begun, work, end } = gates();
    const queues = new SessionQueues({ concurrency: 1, capacity: 100 }, never);
    let open = (): void => {};
    let asked = 0;
    await queues.add('a', work('a1'), async () => {
      asked += 1;
      if (asked > 1) return undefined;
      return { over: new Promise((resolve) => (open = resolve)) };
    });
    await queues.add('a', work('a2'));
    await queues.add('b', work('b1'));
    await new Promise((resolve) => setImmediate(resolve));
    expect(begun).toEqual(['b1']);
    open();
    await end('b1');
    expect(begun).toEqual(['b1', 'a1']);
    await end('a1');
    await end('a2');
    await queues.settled();
    expect({ begun, asked }).toEqual({ begun: ['b1', 'a1', 'a2'], asked: 2 });
  });
});
