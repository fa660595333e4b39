import type { Clock } from './clock.js';

/**
 * Runs `beat` every `pauseMs`, in the background; the answer stops it. The next one is timed only after the event loop has
 * been round: what has arrived meanwhile is seen first, and a process that stood still beats once for all that time.
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
