/** Lets so many run at once; the others wait in line, up to a bound. */
export interface Slots {
  use<T>(work: () => Promise<T>): Promise<T>;
  /** Takes nothing new, and resolves when all that was taken has ended. */
  close(): Promise<void>;
}

export function createSlots(count: number, waitingMax: number): Slots {
  const waiting: (() => void)[] = [];
  let free = count;
  let isClosed = false;
  let onIdle: (() => void) | undefined;

  const leave = (): void => {
    const next = waiting.shift();
    if (next === undefined) free += 1;
    else next();
    if (free === count) onIdle?.();
  };

  return {
    async use(work) {
      if (isClosed) throw new Error('The database is closed.');
      if (waiting.length >= waitingMax) throw new Error('Too many writes are waiting.');
      if (free > 0) free -= 1;
      else await new Promise<void>((resolve) => waiting.push(resolve));
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
