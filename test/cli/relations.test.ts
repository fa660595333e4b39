import { describe, expect, it } from 'vitest';

import type { Context } from '../../src/cli/context/context.js';
import { openRelations } from '../../src/cli/context/relations.js';
import { systemClock } from '../../src/kit/clock.js';

/** Relations of @bob.bot at a service whose allowlist is read by `call`. */
const relationsWith = (call: () => Promise<unknown>) =>
  openRelations({
    clock: systemClock,
    signal: new AbortController().signal,
    output: { note: async () => {} },
    client: async () => ({ call }),
    actingHandle: async () => '@bob.bot',
  } as unknown as Context);

const REPLY = { status: 200, reply: { entries: ['@alice.*'] } };

describe('The relation of a sender', () => {
  it('is that of a stranger while the allowlist cannot be read, and is found as soon as it can', async () => {
    let isDown = true;
    const relationOf = relationsWith(() => (isDown ? new Promise(() => {}) : Promise.resolve(REPLY)));
    expect(await relationOf('@alice.bot')).toBe('anyone');
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
