import type { Clock } from '../../kit/clock.js';
import { DatabaseLostError } from './database.js';

/** Lets so many run at once; the others wait in line, up to a bound. */
export interface Slots {
  /** Throws a `DatabaseLostError` after a wait in which nobody got anywhere. */
  use<T>(work: () => Promise<T>): Promise<T>;
  /** Takes nothing new, and resolves when all that was taken has ended. */
  close(): Promise<void>;
}

export interface SlotsOptions {
  readonly clock: Clock;
  readonly patienceMs: number;
  /** Whether those who run get nowhere. */
  readonly isStuck: () => boolean;
}

export function createSlots(count: number, waitingMax: number, options: SlotsOptions): Slots {
  const waiting = new Set<() => void>();
  let free = count;
  let isClosed = false;
  let onIdle: (() => void) | undefined;

  const leave = (): void => {
    const [next] = waiting;
    if (next === undefined) free += 1;
    else next();
    if (free === count) onIdle?.();
  };

  return {
    async use(work) {
      if (isClosed) throw new Error('The database is closed.');
      if (waiting.size >= waitingMax) throw new DatabaseLostError('Too many calls wait for the database.');
      if (free > 0) free -= 1;
      else await waitForTurn(waiting, options);
      try {
        return await work();
      } finally {
        leave();
      }
    },
    close() {
      isClosed = true;
      if (free === count) return Promise.resolve();
      return new Promise((resolve) => {
        onIdle = resolve;
      });
    },
  };
}

function waitForTurn(waiting: Set<() => void>, { clock, patienceMs, isStuck }: SlotsOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    let cancel = (): void => {};
    const go = (): void => {
      cancel();
      waiting.delete(go);
      resolve();
    };
    const look = (): void => {
      if (!isStuck()) {
        cancel = clock.schedule(patienceMs, look);
        return;
      }
      waiting.delete(go);
      reject(new DatabaseLostError('The database does not answer.'));
    };
    waiting.add(go);
    cancel = clock.schedule(patienceMs, look);
  });
}
