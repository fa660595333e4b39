import { createHash } from 'node:crypto';

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { decodeCursor, encodeCursor } from '../../../src/service/store/cursor.js';

const REFUSED = expect.objectContaining({ code: 'VALIDATION_ERROR' });

describe('cursors', () => {
  it('return their place, only in their own list', () => {
    const place = fc.array(fc.oneof(fc.string(), fc.integer()), { maxLength: 3 });
    fc.assert(
      fc.property(place, fc.string(), fc.string(), (values, scope, other) => {
        const cursor = encodeCursor([scope, undefined], values);
        expect(cursor).toMatch(/^[A-Za-z0-9_-]+$/);
        expect(decodeCursor([scope, undefined], cursor, values)).toEqual(values);
        if (other !== scope) expect(() => decodeCursor([other, undefined], cursor, values)).toThrow(REFUSED);
      }),
    );
  });

  it('are a VALIDATION_ERROR if they are anything else', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(() => decodeCursor(['a'], text, [0, ''])).toThrow(REFUSED);
      }),
    );
  });

  it('are a VALIDATION_ERROR if they were altered', () => {
    for (const place of [
      'no JSON',
      'null',
      '{}',
      '[]',
      '["1","a"]',
      '[1]',
      '[1,"a","b"]',
      '[1e300,"a"]',
      '[0.5,"a"]',
      '[1,{}]',
    ]) {
      const check = createHash('sha256')
        .update(JSON.stringify([['a'], place]))
        .digest('base64url')
        .slice(0, 12);
      const forged = Buffer.from(check + place).toString('base64url');
      expect(() => decodeCursor(['a'], forged, [0, '']), place).toThrow(REFUSED);
    }
  });
});
