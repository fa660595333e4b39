import { expect, it } from 'vitest';

import { createWindow } from '../../src/kit/sliding-window.js';
import { createTestClock } from '../support/clock.js';

it('a window takes a call back exactly when it is over, and a weight needs as many free', () => {
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

it('a window keeps the latest calls only, and forgets a subject that is asked to be forgotten', () => {
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

it('a window remembers no more subjects than it may, the busiest ones first', () => {
  const clock = createTestClock();
  const window = createWindow(clock, 1000, 10);
  for (let subject = 0; subject < 100; subject += 1) {
    window.add(`s${subject}`, 1);
    window.waitMs('s0', 1);
  }
  expect(window.subjectCount).toBeLessThanOrEqual(11);
  expect(window.has('s0')).toBe(true);
});
