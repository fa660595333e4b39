import { type Clock, wait } from './clock.js';

/** Announces changes without a flood. */
export interface Calm {
  /** Something changed: announced at once, or after the pause together with other changes until then. */
  note(what: string): void;
  /** Ends all announcements. */
  end(): void;
}

/** `announce` runs once at a time, with at least `pauseMs` in between. A failed announcement is not repeated. */
export function createCalm(
  clock: Clock,
  pauseMs: number,
  announce: (changed: readonly string[]) => Promise<void>,
): Calm {
  const changed = new Set<string>();
  const over = new AbortController();
  let isRunning = false;
  const run = async (): Promise<void> => {
    isRunning = true;
    // Changes of one moment go together.
    await Promise.resolve();
    while (changed.size > 0 && !over.signal.aborted) {
      const batch = [...changed];
      changed.clear();
      await announce(batch).catch(() => {});
      await wait(clock, pauseMs, over.signal).catch(() => {});
    }
    isRunning = false;
  };
  return {
    note(what) {
      changed.add(what);
      if (!isRunning) void run();
    },
    end: () => over.abort(),
  };
}
