import type { Clock } from './clock.js';

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
