import { ServiceError } from '../service-error.js';

const RETRY_AFTER_S = 5;

export interface SemaphoreOptions {
  /** How many one key may hold at once. */
  readonly max: number;
  /** How many may wait for one of the same key; the next is refused. */
  readonly waitingMax: number;
  /** For people. */
  readonly refusal: string;
}

/** A counting semaphore for each key, in this process. */
export interface Semaphore {
  /** Resolves once the key holds fewer than `max`; the answer releases it. Throws RATE_LIMITED when too many wait already. */
  acquire(key: string): Promise<() => void>;
}

interface Holders {
  held: number;
  readonly waiting: (() => void)[];
}

export function createSemaphore({ max, waitingMax, refusal }: SemaphoreOptions): Semaphore {
  const holdersOf = new Map<string, Holders>();
  const release = (key: string, holders: Holders): void => {
    const next = holders.waiting.shift();
    if (next === undefined) holders.held -= 1;
    else next();
    if (holders.held === 0) holdersOf.delete(key);
  };
  return {
    async acquire(key) {
      const holders = holdersOf.get(key) ?? { held: 0, waiting: [] };
      const isFull = holders.held >= max;
      if (isFull && holders.waiting.length >= waitingMax)
        throw new ServiceError('RATE_LIMITED', refusal, { retryAfterS: RETRY_AFTER_S });
      holdersOf.set(key, holders);
      if (isFull) await new Promise<void>((resolve) => holders.waiting.push(resolve));
      else holders.held += 1;
      let isReleased = false;
      return () => {
        if (!isReleased) release(key, holders);
        isReleased = true;
      };
    },
  };
}
