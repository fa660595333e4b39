import { expect, it } from 'vitest';

import { createMutex } from '../../src/kit/mutex.js';

it('a mutex runs one piece of work at a time, in the order of the calls, and continues after a failure', async () => {
  const mutex = createMutex();
  const log: string[] = [];
  const run = (name: string, fails = false): Promise<string> =>
    mutex(async () => {
      log.push(`${name} begins`);
      await new Promise((resolve) => setImmediate(resolve));
      log.push(`${name} ends`);
      if (fails) throw new Error(name);
      return name;
    });
  const results = await Promise.allSettled([run('a'), run('b', true), run('c')]);
  expect(log).toEqual(['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends']);
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
});
