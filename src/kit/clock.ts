/** The time, injected, so that tests decide it. */
export interface Clock {
  /** Milliseconds since the epoch, as the machine believes them. */
  now(): number;
  /** Milliseconds that only ever grow; their origin means nothing. */
  monotonic(): number;
  /** Runs `action` once after `delayMs`; the answer cancels it. A pending timer does not keep the process alive when `isBackground`. */
  schedule(delayMs: number, action: () => void, isBackground?: boolean): () => void;
  /**
   * Whether it tells the machine's own time, which other machines can be asked about. Not by identity: the build holds this
   * module twice, once for the program and once for the service.
   */
  readonly isSystem?: boolean;
}

const LONGEST_TIMER_MS = 2_147_483_647;

/** The machine's clock. */
export const systemClock: Clock = {
  isSystem: true,
  now: () => Date.now(),
  // The global `performance` is loaded when it is first touched, which a short run would notice.
  monotonic: () => Number(process.hrtime.bigint()) / 1e6,
  schedule(delayMs, action, isBackground = false) {
    const timer = setTimeout(action, Math.min(Math.max(0, delayMs), LONGEST_TIMER_MS));
    if (isBackground) timer.unref();
    return () => clearTimeout(timer);
  },
};

/** Waits `delayMs`; rejects with the signal's reason as soon as it is aborted. */
export function wait(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(signal.reason);
    const onAbort = (): void => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = clock.schedule(delayMs, () => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    });
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}
