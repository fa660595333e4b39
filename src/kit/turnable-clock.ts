import type { Clock } from './clock.js';

/** A clock that follows another one and can jump ahead. */
export interface TurnableClock extends Clock {
  /**
   * Jumps, and then runs everything that became due, in order. Whatever those actions schedule counts from the new
   * time.
   */
  advance(ms: number): void;
  /** Cancels everything that is scheduled. */
  stop(): void;
}

interface Timer {
  readonly dueMs: number;
  readonly action: () => void;
  readonly cancel: () => void;
}

/** A clock that `base` moves on, from `aheadMs` ahead of it, or behind it. */
export function createTurnableClock(base: Clock, aheadMs = 0): TurnableClock {
  const timers = new Set<Timer>();
  const monotonic = (): number => base.monotonic() + aheadMs;
  return {
    now: () => base.now() + aheadMs,
    monotonic,
    schedule(delayMs, action, isBackground) {
      const timer: Timer = {
        dueMs: monotonic() + delayMs,
        action,
        cancel: base.schedule(
          delayMs,
          () => {
            timers.delete(timer);
            action();
          },
          isBackground,
        ),
      };
      timers.add(timer);
      return () => {
        timers.delete(timer);
        timer.cancel();
      };
    },
    advance(ms) {
      aheadMs += ms;
      const due = [...timers].filter(({ dueMs }) => dueMs <= monotonic()).sort((one, two) => one.dueMs - two.dueMs);
      for (const timer of due) {
        // An earlier action may have canceled it.
        if (!timers.delete(timer)) continue;
        timer.cancel();
        timer.action();
      }
    },
    stop() {
      for (const { cancel } of timers) cancel();
      timers.clear();
    },
  };
}
