import type { Clock } from '../../kit/clock.js';
import { ServiceError } from './errors.js';

const RETRY_AFTER_S = 5;

export interface SemaphoreOptions {
  /** How many slots one key may hold at once. */
  readonly max: number;
  /** How many callers of one key may wait; the next is refused. */
  readonly waitingMax: number;
  /** How long a caller may wait before it is refused; default: until its turn. */
  readonly patience?: { readonly clock: Clock; readonly maxMs: number };
  /** For people. */
  readonly refusal: string;
}

/** A counting semaphore per key, in this process. */
export interface Semaphore {
  /**
   * Resolves once the key holds fewer than `max`; the returned function releases it. Throws RATE_LIMITED if too many
   * are already waiting, or the wait is too long.
   */
  acquire(key: string): Promise<() => void>;
  /** Runs `work` in a slot of the key. Throws like `acquire`. */
  use<T>(key: string, work: () => Promise<T>): Promise<T>;
}

interface Holders {
  held: number;
  readonly waiting: (() => void)[];
}

export function createSemaphore({ max, waitingMax, patience, refusal }: SemaphoreOptions): Semaphore {
  const holdersByKey = new Map<string, Holders>();
  const release = (key: string, holders: Holders): void => {
    const next = holders.waiting.shift();
    if (next === undefined) holders.held -= 1;
    else next();
    if (holders.held === 0) holdersByKey.delete(key);
  };
  const refuse = (): ServiceError => new ServiceError('RATE_LIMITED', refusal, { retryAfterS: RETRY_AFTER_S });
  const waitIn = ({ waiting }: Holders): Promise<void> =>
    new Promise((resolve, reject) => {
      const enter = (): void => {
        cancel?.();
        resolve();
      };
      const cancel = patience?.clock.schedule(
        patience.maxMs,
        () => {
          waiting.splice(waiting.indexOf(enter), 1);
          reject(refuse());
        },
        true,
      );
      waiting.push(enter);
    });
  const acquire = async (key: string): Promise<() => void> => {
    const holders = holdersByKey.get(key) ?? { held: 0, waiting: [] };
    const isFull = holders.held >= max;
    if (isFull && holders.waiting.length >= waitingMax) throw refuse();
    holdersByKey.set(key, holders);
    if (isFull) await waitIn(holders);
    else holders.held += 1;
    let isReleased = false;
    return () => {
      if (!isReleased) release(key, holders);
      isReleased = true;
    };
  };
  return {
    acquire,
    async use(key, work) {
      const release = await acquire(key);
      try {
        return await work();
      } finally {
        release();
      }
    },
  };
}

/** Counts bytes that are held in memory for a while, across all holders. */
export interface HeldBytes {
  readonly total: number;
  /**
   * Counts these bytes until the returned function is called. Returns undefined, and counts nothing, if there is not
   * enough room.
   */
  hold(bytes: number): (() => void) | undefined;
}

export function createHeldBytes(max: number): HeldBytes {
  let total = 0;
  return {
    get total() {
      return total;
    },
    hold(bytes) {
      if (total + bytes > max) return undefined;
      total += bytes;
      let isHeld = true;
      return () => {
        if (isHeld) total -= bytes;
        isHeld = false;
      };
    },
  };
}

/** A queue of calls, each of which waits for its turn. */
export interface Line {
  /** How long the first in it has waited. */
  readonly firstWaitedMs: number;
  /** The turns that began or ended since the first one came. */
  readonly turnsSince: number;
  /** The turns before a call that comes now. */
  readonly turnsAhead: number;
}

/** A younger queue does not show how fast it moves: many calls may have arrived at once. */
const TELLS_AFTER_MS = 250;

/** How long a call that comes now will wait, if the queue keeps moving as fast as it did for the first call in it. */
export function estimateWaitMs({ firstWaitedMs, turnsSince, turnsAhead }: Line): number {
  if (firstWaitedMs < TELLS_AFTER_MS) return firstWaitedMs;
  return (turnsAhead * firstWaitedMs) / Math.max(1, turnsSince);
}
