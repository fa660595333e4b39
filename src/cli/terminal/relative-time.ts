import type { Column } from './output.js';

const STEPS: readonly (readonly [limitS: number, unitS: number, unit: string])[] = [
  [60, 1, 's'],
  [3600, 60, 'm'],
  [86_400, 3600, 'h'],
  [14 * 86_400, 86_400, 'd'],
];

/** `just now`, `5m ago`, `in 2h`, or a date if it is long ago. */
export function relativeTime(epochMs: number, nowMs: number): string {
  const apartS = Math.abs(nowMs - epochMs) / 1000;
  if (!Number.isFinite(apartS)) return '-';
  if (apartS < 5) return 'just now';
  for (const [limit, unitS, unit] of STEPS)
    if (apartS < limit) {
      const text = `${Math.floor(apartS / unitS)}${unit}`;
      return epochMs <= nowMs ? `${text} ago` : `in ${text}`;
    }
  return isoTime(epochMs).slice(0, 10);
}

/** How long to wait, rounded up to the unit a person would use: `7 s`, `35 min`, `11 h`, `3 days`. */
export function waitText(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  if (seconds <= 120) return `${seconds} s`;
  if (seconds <= 2 * 3600) return `${Math.ceil(seconds / 60)} min`;
  if (seconds <= 48 * 3600) return `${Math.ceil(seconds / 3600)} h`;
  return `${Math.ceil(seconds / 86_400)} days`;
}

/** A column of times: how long ago for people, RFC 3339 in a pipe; `never` where there is none. */
export function timeColumn<Item>(
  title: string,
  read: (item: Item) => number | null,
  nowMs: number,
  never = '',
): Column<Item> {
  const text = (item: Item, format: (at: number) => string): string => {
    const at = read(item);
    return at === null ? never : format(at);
  };
  return {
    title,
    value: (item) => text(item, (at) => relativeTime(at, nowMs)),
    piped: (item) => text(item, isoTime),
    paint: (painted, _, style) => style.dim(painted),
  };
}

/** RFC 3339 in UTC, in whole seconds. */
export const isoSeconds = (epochMs: number): string => isoTime(epochMs).replace(/\.\d+/, '');

/** RFC 3339 in UTC; `-` for an invalid time. */
export function isoTime(epochMs: number | null): string {
  if (epochMs === null || !Number.isFinite(epochMs) || Math.abs(epochMs) > 8.64e15) return '-';
  return new Date(epochMs).toISOString();
}

/** The time of day where the user is, with the date unless it is today: `14:03`, `2026-11-22 14:03`. */
export function localTime(epochMs: number, nowMs: number): string {
  if (isoTime(epochMs) === '-') return '-';
  const [time, now] = [new Date(epochMs), new Date(nowMs)];
  const two = (value: number): string => String(value).padStart(2, '0');
  const clock = `${two(time.getHours())}:${two(time.getMinutes())}`;
  if (time.toDateString() === now.toDateString()) return clock;
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${clock}`;
}
