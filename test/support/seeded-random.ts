/** A reproducible source of randomness. */
export interface SeededRandom {
  /** A whole number from 0 to `bound` - 1. */
  below(bound: number): number;
  pick<T>(list: readonly T[]): T;
}

/** A small generator (mulberry32). The same seed gives the same run. */
export function createRandom(seed: number): SeededRandom {
  let state = seed | 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (bound: number): number => Math.floor(next() * bound);
  return {
    below,
    pick(list) {
      const item = list[below(list.length)];
      if (item === undefined && list.length === 0) throw new RangeError('nothing to pick from');
      return item as (typeof list)[number];
    },
  };
}
