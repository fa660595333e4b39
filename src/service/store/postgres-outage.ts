import type { Clock } from '../../kit/clock.js';
import { DatabaseLostError } from './database.js';

/** How long a call waits for a database that is away, so that a restart or a failover fails nobody. */
export const PATIENCE_MS = 5_000;
const NOTICED_AFTER_MS = 1_000;
/** How often one of the calls is let through to a database that has been away for longer. */
const PROBE_EVERY_MS = 250;

/** Whether the database does what is asked of it. */
export interface Outage {
  /** Throws at once while the database has been away for long, but for a call now and then that finds out. */
  admit(): void;
  succeeded(): void;
  failed(error: unknown): void;
  /** Whether it is worth trying again: not once every caller has waited enough. */
  readonly isLong: boolean;
  /** Nothing has succeeded for so long, whatever the reason. */
  readonly isStuck: boolean;
  /** What failed, if nothing has succeeded for a while: a single lost connection is replaced by the next call. */
  readonly fault: unknown;
}

export interface OutageOptions {
  readonly clock: Clock;
  /** Told once, when the database is away for longer than callers wait, and once when it is back. */
  readonly onChange: (fault: unknown) => void;
}

export function createOutage({ clock, onChange }: OutageOptions): Outage {
  let fault: unknown;
  let sinceMs = 0;
  let probedAtMs = 0;
  let succeededAtMs = clock.monotonic();
  let isTold = false;
  const isLong = (): boolean => fault !== undefined && clock.monotonic() - sinceMs >= PATIENCE_MS;
  return {
    admit() {
      if (!isLong()) return;
      const now = clock.monotonic();
      if (now - probedAtMs < PROBE_EVERY_MS) throw new DatabaseLostError('The database is away.', { cause: fault });
      probedAtMs = now;
    },
    succeeded() {
      succeededAtMs = clock.monotonic();
      fault = undefined;
      if (isTold) onChange(undefined);
      isTold = false;
    },
    failed(error) {
      if (fault === undefined) sinceMs = clock.monotonic();
      fault = error;
      if (!isLong() || isTold) return;
      isTold = true;
      onChange(error);
    },
    get isLong() {
      return isLong();
    },
    get isStuck() {
      return clock.monotonic() - succeededAtMs >= PATIENCE_MS;
    },
    get fault() {
      return clock.monotonic() - sinceMs >= NOTICED_AFTER_MS ? fault : undefined;
    },
  };
}
