/** The time, injected so that tests control it. */
export interface Clock {
  /** Milliseconds since the epoch, by this machine's clock. */
  now(): number;
  /** Monotonic milliseconds; the origin has no meaning. */
  monotonic(): number;
  /**
   * Runs `action` once after `delayMs`; the returned function cancels it. A pending timer does not keep the process
   * alive if `isBackground`.
   */
  schedule(delayMs: number, action: () => void, isBackground?: boolean): () => void;
  /**
   * Whether this is the machine's own time, which can be compared with other machines. Not a check by identity: the
   * build contains this module twice, once for the program and once for the service.
   */
  readonly isSystem?: boolean;
}

const LONGEST_TIMER_MS = 2_147_483_647;

/** The machine's clock. */
export const systemClock: Clock = {
  isSystem: true,
  now: () => Date.now(),
  // The global `performance` is loaded on first use, which would slow down a short run.
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

/**
 * The pause before a retry, in milliseconds: it doubles with each failure before this one, up to `longestMs` (default: a
 * minute).
 */
export function backoffMs(firstMs: number, failuresBefore: number, longestMs = 60_000): number {
  return Math.min(longestMs, firstMs * 2 ** failuresBefore);
}

/**
 * Runs `work` with a signal that aborts with `late()` after `limitMs`, or with the reason of `signal` when that aborts first. The
 * work itself decides how it ends; the timer does not outlive it.
 */
export async function abortAfter<T>(
  clock: Clock,
  limitMs: number,
  late: () => unknown,
  work: (signal: AbortSignal) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(signal?.reason);
  if (signal?.aborted === true) onAbort();
  signal?.addEventListener('abort', onAbort, { once: true });
  const cancel = clock.schedule(limitMs, () => controller.abort(late()));
  try {
    return await work(controller.signal);
  } finally {
    cancel();
    signal?.removeEventListener('abort', onAbort);
  }
}

/**
 * The result of `work`, or of `late` (which may throw) if `limitMs` pass first; the work then continues, and its result
 * is ignored.
 */
export async function within<T, L>(clock: Clock, limitMs: number, work: Promise<T>, late: () => L): Promise<T | L> {
  let cancel = (): void => {};
  const timedOut = new Promise<void>((resolve) => {
    cancel = clock.schedule(limitMs, resolve);
  });
  try {
    return await Promise.race([work, timedOut.then(late)]);
  } finally {
    cancel();
  }
}

/**
 * The result of `work`, or of `aborted` (default: throws the signal's reason) if the signal aborts first; the work then
 * continues, and its result is ignored.
 */
export async function orAborted<T, A = never>(
  work: Promise<T>,
  signal: AbortSignal,
  aborted?: () => A,
): Promise<T | A> {
  let onAbort = (): void => {};
  const over = new Promise<void>((resolve) => {
    onAbort = resolve;
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
  });
  const refuse = (): never => {
    throw signal.reason;
  };
  try {
    return await Promise.race([work, over.then(aborted ?? refuse)]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
