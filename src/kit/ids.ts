import { monotonicFactory } from 'ulid';

import type { Clock } from './clock.js';
import type { Random } from './random.js';

/** Generates ids that sort by creation time. */
export interface Ids {
  /** 26 characters of uppercase Crockford base 32: time, then randomness; each id is greater than the one before. */
  ulid(): string;
}

/** Ids from a clock and a source of randomness. */
export function createIds(clock: Clock, random: Random): Ids {
  const next = monotonicFactory(() => (random.bytes(1)[0] ?? 0) / 256);
  return { ulid: () => next(clock.now()) };
}
