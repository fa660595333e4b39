import { beatEvery } from './beat.js';
import type { Clock } from './clock.js';

/** Often enough for clients that give up after a minute of silence, and not more work than the wait itself. */
const PAUSE_MS = 5_000;

/** A request of the Model Context Protocol. */
interface Asked {
  readonly _meta?: { readonly progressToken?: string | number | undefined } | undefined;
  notify(notification: { method: string; params: Record<string, unknown> }): Promise<void>;
}

/** Waits with `work` for up to `totalS` seconds. A client that asked for it hears how long the wait has lasted. */
export async function waitWithProgress<Result>(
  clock: Clock,
  asked: Asked,
  totalS: number,
  work: () => Promise<Result>,
): Promise<Result> {
  const progressToken = asked._meta?.progressToken;
  if (progressToken === undefined || totalS * 1000 <= PAUSE_MS) return work();
  let progress = 0;
  const stop = beatEvery(clock, PAUSE_MS, () => {
    progress += PAUSE_MS / 1000;
    const params = { progressToken, progress, total: totalS, message: 'Still waiting.' };
    // A client that is gone cancels the call itself.
    asked.notify({ method: 'notifications/progress', params }).catch(() => {});
  });
  try {
    return await work();
  } finally {
    stop();
  }
}
