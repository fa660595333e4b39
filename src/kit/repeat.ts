import { backoffMs, type Clock, wait } from './clock.js';

/**
 * Runs `work` now (or with `isDelayed`, after a pause) and again `pauseMs` after each time it has ended, even if it
 * threw; `onFault` gets what it threw. The returned function stops it, and resolves once `work` is no longer running.
 */
export function repeat(
  clock: Clock,
  pauseMs: number,
  work: () => Promise<void>,
  onFault: (error: unknown) => void,
  isDelayed = false,
): () => Promise<void> {
  let isStopped = false;
  let cancel = (): void => {};
  let running: Promise<void> = Promise.resolve();
  const run = (): void => {
    running = work()
      .catch(onFault)
      .then(() => {
        if (!isStopped) cancel = clock.schedule(pauseMs, run, true);
      });
  };
  if (isDelayed) cancel = clock.schedule(pauseMs, run, true);
  else run();
  return async () => {
    isStopped = true;
    cancel();
    await running;
  };
}

/**
 * Runs `beat` every `pauseMs` in the background; the returned function stops it. The next beat is scheduled only in
 * the next turn of the event loop, so events that arrived in the meantime come first, and a process that was frozen beats once
 * for all that time.
 */
export function beatEvery(clock: Clock, pauseMs: number, beat: () => void): () => void {
  let isOver = false;
  let cancel = (): void => {};
  const arm = (): void => {
    if (isOver) return;
    cancel = clock.schedule(
      pauseMs,
      () => {
        beat();
        setImmediate(arm);
      },
      true,
    );
  };
  arm();
  return () => {
    isOver = true;
    cancel();
  };
}

/** Limits how often work runs. */
export interface Throttle {
  /** Runs the work now, or once when it may run again. */
  call(): void;
  /** Nothing runs from now on, except work that has begun. */
  stop(): void;
}

/**
 * Runs `work` at once, and then not until `pauseMs` after it has ended: any number of calls in the meantime lead to one more
 * run. There is no pause if `work` returns undefined because there was nothing to do. `onFault` gets what it throws.
 */
export function createThrottle(
  clock: Clock,
  pauseMs: number,
  work: () => Promise<void> | undefined,
  onFault: (error: unknown) => void,
): Throttle {
  let isDue = false;
  let isBusy = false;
  let isStopped = false;
  let cancelPause = (): void => {};
  const endPause = (): void => {
    isBusy = false;
    if (isDue) call();
  };
  const call = (): void => {
    isDue = isBusy;
    if (isBusy || isStopped) return;
    isBusy = true;
    const running = work();
    isBusy = running !== undefined;
    void running?.catch(onFault).then(() => {
      if (!isStopped) cancelPause = clock.schedule(pauseMs, endPause, true);
    });
  };
  return {
    call,
    stop() {
      isStopped = true;
      cancelPause();
    },
  };
}

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5_000;

/**
 * Reopens a connection whenever it is lost: `stayOpen` resolves or throws when that happens. Pauses grow from a quarter
 * of a second to five seconds, and start over after a connection that lasted. Resolves once `signal` is aborted.
 */
export async function keepOpen(
  clock: Clock,
  stayOpen: () => Promise<void>,
  onFault: (error: unknown) => void,
  signal: AbortSignal,
): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    const startedAt = clock.monotonic();
    await stayOpen().catch(onFault);
    if (signal.aborted) return;
    const wasLong = clock.monotonic() - startedAt > LONGEST_PAUSE_MS;
    failures = wasLong ? 0 : failures + 1;
    await wait(clock, backoffMs(FIRST_PAUSE_MS, failures, LONGEST_PAUSE_MS), signal).catch(() => {});
  }
}
