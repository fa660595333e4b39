/**
 * Lets those who present the same token in one at a time, each once the answer of the one before was delivered or its
 * rotation undone: a retry after a cut must meet the old token, not an unfinished rotation.
 */
export interface Turnstile {
  enter(key: string): Promise<() => void>;
}

export function createTurnstile(): Turnstile {
  const last = new Map<string, Promise<void>>();
  return {
    async enter(key) {
      const before = last.get(key);
      let leave = (): void => {};
      const mine = new Promise<void>((resolve) => {
        leave = resolve;
      });
      last.set(key, mine);
      await before;
      return () => {
        if (last.get(key) === mine) last.delete(key);
        leave();
      };
    },
  };
}
