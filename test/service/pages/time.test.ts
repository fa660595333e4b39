import { describe, expect, it } from 'vitest';

import { describeAge, renderTime } from '../../../src/service/web/time.js';

const NOW = Date.UTC(2026, 4, 20, 12);
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

describe('The age of a moment', () => {
  it.each([
    [-5 * MINUTE, 'just now'],
    [0, 'just now'],
    [MINUTE - 1, 'just now'],
    [MINUTE, '1 minute ago'],
    [HOUR - 1, '59 minutes ago'],
    [HOUR, '1 hour ago'],
    [DAY - 1, '23 hours ago'],
    [DAY, 'yesterday'],
    [2 * DAY, '2 days ago'],
    [14 * DAY - 1, '13 days ago'],
    [14 * DAY, undefined],
  ])('%d ms: %s', (age, words) => {
    expect(describeAge(NOW - age, NOW)).toBe(words);
  });

  it('shows the exact moment too, in UTC', () => {
    expect(renderTime(NOW - HOUR, NOW).markup).toBe(
      '<time datetime="2026-05-20T11:00:00.000Z" title="May 20, 2026, 11:00:00 UTC" data-form="age">1 hour ago</time>',
    );
  });

  it('is a date if it is long ago', () => {
    expect(renderTime(NOW - 14 * DAY, NOW).markup).toBe(
      '<time datetime="2026-05-06T12:00:00.000Z" title="May 6, 2026, 12:00:00 UTC" data-form="date">May 6, 2026</time>',
    );
  });
});
