/** Lets the holders of one key in one at a time, in the order in which they came. */
export interface KeyedMutex {
  /** Resolves with the function that unlocks the key again. */
  lock(key: string): Promise<() => void>;
}

export function createKeyedMutex(): KeyedMutex {
  const last = new Map<string, Promise<void>>();
  return {
    async lock(key) {
      const before = last.get(key);
      let unlock = (): void => {};
      const mine = new Promise<void>((resolve) => {
        unlock = resolve;
      });
      last.set(key, mine);
      await before;
      return () => {
        if (last.get(key) === mine) last.delete(key);
        unlock();
      };
    },
  };
}
