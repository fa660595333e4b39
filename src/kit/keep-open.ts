import { backoffMs, type Clock, wait } from './clock.js';

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
