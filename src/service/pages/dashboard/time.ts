import { type Html, html } from '../html.js';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const DATE = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' });
const MOMENT = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' });

/** How long ago a moment was, in the words of a person; long ago it is a date. */
export function describeAge(epochMs: number, now: number): string {
  const age = now - epochMs;
  if (age < MINUTE_MS) return 'just now';
  if (age < HOUR_MS) return count(Math.floor(age / MINUTE_MS), 'minute');
  if (age < DAY_MS) return count(Math.floor(age / HOUR_MS), 'hour');
  if (age < 2 * DAY_MS) return 'yesterday';
  if (age < 14 * DAY_MS) return count(Math.floor(age / DAY_MS), 'day');
  return DATE.format(epochMs);
}

function count(number: number, unit: string): string {
  return `${number} ${unit}${number === 1 ? '' : 's'} ago`;
}

/** The same, with the exact moment for programs and for whoever points at it. */
export function renderTime(epochMs: number, now: number): Html {
  return html`<time datetime="${new Date(epochMs).toISOString()}" title="${MOMENT.format(epochMs)} UTC">${describeAge(epochMs, now)}</time>`;
}
