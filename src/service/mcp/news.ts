import type { ServiceContext } from '../core/context.js';

/** Calls that wait in any session look again at most this often. */
const GATHER_MS = 250;
const POLL_MS = 1_000;
/** Even if no notification is known to be lost. */
const POLL_ANYWAY_MS = 30_000;

/** Tells a call that waits when to look again. */
export interface Watch {
  /** Resolves once something may have happened since the last look, or `until` is aborted. */
  next(until: AbortSignal): Promise<void>;
  end(): void;
}

/** Wakes calls that wait for events. They look themselves: a notification is a hint. */
export interface News {
  /** Of one session, or of all. */
  watch(sessionId: string | undefined): Watch;
  stop(): void;
}

interface Watcher {
  isDue: boolean;
  wake: (() => void) | undefined;
}

/** What watches all sessions. */
const ALL = '';

export function createNews({ bus, clock }: Pick<ServiceContext, 'bus' | 'clock'>): News {
  const watchers = new Map<string, Set<Watcher>>();
  let cancelGathering: (() => void) | undefined;
  let cancelPoll: (() => void) | undefined;
  let polledAtMs = clock.monotonic();
  const mayHaveMissed = bus.watchLosses();

  const wake = (key: string): void => {
    for (const watcher of watchers.get(key) ?? []) {
      watcher.isDue = true;
      watcher.wake?.();
    }
  };
  const gather = (): void => {
    if (!watchers.has(ALL)) return;
    cancelGathering ??= clock.schedule(
      GATHER_MS,
      () => {
        cancelGathering = undefined;
        wake(ALL);
      },
      true,
    );
  };
  /** Finds out within a second that a notification was lost. */
  const poll = (): void => {
    if (bus.isReliable || watchers.size === 0) return;
    cancelPoll ??= clock.schedule(
      POLL_MS,
      () => {
        cancelPoll = undefined;
        if (mayHaveMissed() || clock.monotonic() - polledAtMs >= POLL_ANYWAY_MS) {
          polledAtMs = clock.monotonic();
          for (const key of watchers.keys()) wake(key);
        }
        poll();
      },
      true,
    );
  };
  const stopListening = bus.listen((signal) => {
    if (signal.kind !== 'events') return;
    wake(signal.sessionId);
    gather();
  });

  return {
    watch(sessionId = ALL) {
      const watcher: Watcher = { isDue: false, wake: undefined };
      const others = watchers.get(sessionId) ?? new Set();
      watchers.set(sessionId, others.add(watcher));
      poll();
      return {
        async next(until) {
          await new Promise<void>((resolve) => {
            const go = (): void => {
              until.removeEventListener('abort', go);
              watcher.wake = undefined;
              resolve();
            };
            watcher.wake = go;
            until.addEventListener('abort', go, { once: true });
            if (watcher.isDue || until.aborted) go();
          });
          watcher.isDue = false;
        },
        end() {
          others.delete(watcher);
          if (others.size === 0 && watchers.get(sessionId) === others) watchers.delete(sessionId);
        },
      };
    },
    stop() {
      stopListening();
      cancelGathering?.();
      cancelPoll?.();
    },
  };
}
