/** The milliseconds of each unit, shortest first. */
export const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};
const DURATION = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;
const LONGEST_MS = 366 * 86_400_000;

/** `500ms 30s 10m 2h 7d` in milliseconds, or undefined. */
export function durationMs(text: string, longestMs = LONGEST_MS): number | undefined {
  const match = DURATION.exec(text);
  const unit = UNIT_MS[match?.[2] ?? ''];
  if (match === null || unit === undefined) return undefined;
  const value = Math.round(Number(match[1]) * unit);
  return value <= longestMs ? value : undefined;
}

/** A duration that a program passes, in milliseconds. @throws TypeError */
export function readMs(name: string, duration: string | number): number {
  const ms = typeof duration === 'number' ? duration : durationMs(duration);
  if (ms !== undefined && Number.isFinite(ms) && ms >= 0) return ms;
  throw new TypeError(`${name} '${duration}' is not a duration: write 500ms, 30s, 10m, 2h, 7d or milliseconds.`);
}
