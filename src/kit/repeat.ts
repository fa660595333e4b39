import type { Clock } from './clock.js';

/**
 * Runs `work` now (with `isDelayed` first after a pause) and again `pauseMs` after each time it has ended, whether it threw or not; `onFault` is told what it
 * threw. The answer stops it, and resolves when it is at rest.
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
