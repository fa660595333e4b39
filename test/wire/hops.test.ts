import { describe, expect, it } from 'vitest';

import { HOPS, readHops } from '../../src/wire/message.js';

describe('The number of automatic replies before a message', () => {
  it.each([Number.MAX_SAFE_INTEGER, 999_999, '999999'])('is still a count after %j and one more', (claimed) => {
    const next = readHops({ metadata: { [HOPS]: claimed } }) + 1;
    expect(readHops({ metadata: { [HOPS]: next } })).toBeGreaterThan(1_000);
    expect(readHops({ metadata: { [HOPS]: String(next) } })).toBeGreaterThan(1_000);
  });

  it.each([-1, 0, 1.5, '1e9', 'many', null, {}, undefined])('is none for %j', (claimed) => {
    expect(readHops({ metadata: { [HOPS]: claimed } as never })).toBe(0);
  });
});
