import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { decodeCursor, encodeCursor } from '../../../src/service/store/cursor.js';

describe('cursors', () => {
  it('give back the place they were made of, in their own list alone', () => {
    const place = fc.array(fc.oneof(fc.string(), fc.integer()), { maxLength: 3 });
    fc.assert(
      fc.property(place, fc.string(), fc.string(), (values, scope, other) => {
        const cursor = encodeCursor([scope, undefined], values);
        expect(cursor).toMatch(/^[A-Za-z0-9_-]+$/);
        expect(decodeCursor([scope, undefined], cursor)).toEqual(values);
        if (other !== scope) expect(() => decodeCursor([other, undefined], cursor)).toThrow('not one of this list');
      }),
    );
  });

  it('whatever else is given is VALIDATION_ERROR', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(() => decodeCursor(['a'], text)).toThrow('not one of this list');
      }),
    );
  });
});
