import type { Bus, Signal } from './bus.js';

/** Rings within this process. A listener that throws does not keep the others from hearing; `onFault` is told. */
export function createLocalBus(onFault: (error: unknown) => void): Bus {
  const listeners = new Set<(signal: Signal) => void>();
  return {
    ring(signal) {
      for (const listener of [...listeners]) {
        try {
          listener(signal);
        } catch (error) {
          onFault(error);
        }
      }
    },
    listen(listener) {
      // Wrapped, so that listening twice with one function is two listeners.
      const entry = (signal: Signal): void => listener(signal);
      listeners.add(entry);
      return () => {
        listeners.delete(entry);
      };
    },
    async close() {
      listeners.clear();
    },
  };
}
