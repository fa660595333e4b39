import type { Clock } from '../../kit/clock.js';
import type { Log, LogFields } from './context.js';

/** A warning about the same thing is logged at most this often. */
const LOG_EVERY_MS = 60_000;

/** Logs the first warning of a minute, with the number of those that were not logged since the last one. */
export function rareWarning(
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  event: string,
): (error: unknown, fields?: LogFields) => void {
  let quietUntil = 0;
  let failures = 0;
  return (error, fields) => {
    failures += 1;
    if (clock.monotonic() < quietUntil) return;
    log.warn(event, error, { ...fields, failures });
    failures = 0;
    quietUntil = clock.monotonic() + LOG_EVERY_MS;
  };
}
