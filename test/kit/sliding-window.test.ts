import { expect, it } from 'vitest';

import { createWindow } from '../../src/kit/sliding-window.js';
import { createTestClock } from '../support/clock.js';

it('a window accepts another call exactly when it ends, and a weighted call needs that many free places', () => {
  const clock = createTestClock();
  const window = createWindow(clock, 100, 10);
  window.add('a', 2);
  clock.advance(40);
  window.add('a', 2);
  expect([window.waitMs('a', 2), window.waitMs('a', 2, 2), window.waitMs('b', 2, 2)]).toEqual([60, 100, 0]);
  clock.advance(60);
  expect([window.waitMs('a', 2), window.waitMs('a', 2, 2), window.has('a')]).toEqual([0, 40, true]);
  clock.advance(40);
  expect(window.has('a')).toBe(false);
});

it('a window keeps only the latest calls, and forgets a subject on request', () => {
  const clock = createTestClock();
  const window = createWindow(clock, 100, 10);
  for (let call = 0; call < 5; call += 1) {
    window.add('a', 2);
    clock.advance(10);
  }
  expect(window.waitMs('a', 2)).toBe(80);
  window.forget('a');
  expect(window.waitMs('a', 2)).toBe(0);
});

it('a window remembers a limited number of subjects, the busiest ones first', () => {
  const clock = createTestClock();
  const window = createWindow(clock, 1000, 10);
  for (let subject = 0; subject < 100; subject += 1) {
    window.add(`s${subject}`, 1);
    window.waitMs('s0', 1);
  }
  expect(window.subjectCount).toBeLessThanOrEqual(11);
  expect(window.has('s0')).toBe(true);
});
