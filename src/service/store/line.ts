/** A queue of calls, each of which waits for its turn. */
export interface Line {
  /** How long the first in it has waited. */
  readonly firstWaitedMs: number;
  /** The turns that began or ended since the first one came. */
  readonly turnsSince: number;
  /** The turns before a call that comes now. */
  readonly turnsAhead: number;
}

/** A younger queue does not show how fast it moves: many calls may have come at once. */
const TELLS_AFTER_MS = 250;

/** How long a call that comes now will wait, if the queue keeps moving as fast as it did for the first call in it. */
export function estimateWaitMs({ firstWaitedMs, turnsSince, turnsAhead }: Line): number {
  if (firstWaitedMs < TELLS_AFTER_MS) return firstWaitedMs;
  return (turnsAhead * firstWaitedMs) / Math.max(1, turnsSince);
}
