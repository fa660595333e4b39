import { describe, expect, it } from 'vitest';

import type { Context } from '../../src/cli/context/context.js';
import { openRelations } from '../../src/cli/context/relations.js';
import { type Clock, systemClock } from '../../src/kit/clock.js';

/** Relations of @bob.bot at a service whose allowlist is read by `call`. */
const relationsWith = (call: () => Promise<unknown>, clock: Clock = systemClock) =>
  openRelations({
    clock,
    signal: new AbortController().signal,
    output: { note: async () => {} },
    client: async () => ({ call }),
    actingHandle: async () => '@bob.bot',
  } as unknown as Context);

const REPLY = { status: 200, reply: { entries: ['@alice.*'] } };

describe('The relation of a sender', () => {
  it('is that of a stranger while the allowlist cannot be read, and is found as soon as it can', async () => {
    let isDown = true;
    const due: (() => void)[] = [];
    const schedule: Clock['schedule'] = (_delayMs, run) => {
      due.push(run);
      return () => {};
    };
    const answer = () => (isDown ? new Promise(() => {}) : Promise.resolve(REPLY));
    const relationOf = relationsWith(answer, { ...systemClock, schedule });
    const relation = relationOf('@alice.bot');
    await expect.poll(() => due).toHaveLength(1);
    due[0]?.();
    expect(await relation).toBe('anyone');
    isDown = false;
    expect(await relationOf('@alice.bot')).toBe('on your allowlist');
  });

  it('is that of a stranger if reading the allowlist fails', async () => {
    const relationOf = relationsWith(() => Promise.reject(new Error('broken')));
    expect(await relationOf('@alice.bot')).toBe('anyone');
  });

  it('of an agent of the same owner needs no allowlist', async () => {
    const relationOf = relationsWith(() => Promise.reject(new Error('broken')));
    expect(await relationOf('@bob.other')).toBe('same owner');
  });
});
