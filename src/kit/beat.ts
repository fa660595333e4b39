import type { Clock } from './clock.js';

/**
 * Runs `beat` every `pauseMs` in the background; the returned function stops it. The next beat is scheduled only after
 * the event loop has gone around, so events that arrived meanwhile come first, and a process that was frozen beats once
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
