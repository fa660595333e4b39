import { formatQuantity } from '../../kit/format.js';
import { type Html, html } from './html.js';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** The formats of times: here in UTC, and in the script of the page in the reader's time zone. */
export const TIME_FORMS = {
  clock: { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' },
  date: { day: 'numeric', month: 'short', year: 'numeric' },
  day: { day: 'numeric', month: 'long', year: 'numeric' },
  moment: {
    day: 'numeric',
    month: 'short',
    year: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
    timeZoneName: 'short',
  },
} as const satisfies Record<string, Intl.DateTimeFormatOptions>;

const inUtc = new Map<keyof typeof TIME_FORMS, Intl.DateTimeFormat>();

/** Each format is created on first use, because creating all of them costs every start of a service milliseconds. */
function formatInUtc(epochMs: number, form: keyof typeof TIME_FORMS): string {
  const known = inUtc.get(form) ?? new Intl.DateTimeFormat('en-US', { ...TIME_FORMS[form], timeZone: 'UTC' });
  inUtc.set(form, known);
  return known.format(epochMs);
}

/** How long ago a moment was, for people; undefined if that is no longer meaningful. */
export function describeAge(epochMs: number, now: number): string | undefined {
  const age = now - epochMs;
  if (age < MINUTE_MS) return 'just now';
  if (age < HOUR_MS) return count(Math.floor(age / MINUTE_MS), 'minute');
  if (age < DAY_MS) return count(Math.floor(age / HOUR_MS), 'hour');
  if (age < 2 * DAY_MS) return 'yesterday';
  return age < 14 * DAY_MS ? count(Math.floor(age / DAY_MS), 'day') : undefined;
}

function count(number: number, unit: string): string {
  return `${formatQuantity(number, unit)} ago`;
}

/** How long ago, or on which date, with the exact moment for programs and on hover. */
export function renderTime(epochMs: number, now: number): Html {
  const age = describeAge(epochMs, now);
  return age === undefined ? renderInUtc(epochMs, 'date') : renderMoment(epochMs, 'age', age);
}

/** A moment to come. */
export function renderDeadline(epochMs: number): Html {
  return html`${renderInUtc(epochMs, 'date')}, ${renderInUtc(epochMs, 'clock')}`;
}

/** The time of day. */
export function renderClock(epochMs: number): Html {
  return renderInUtc(epochMs, 'clock');
}

/** The day in UTC, which it says; with a script it may be a different one. */
export function renderDay(epochMs: number): Html {
  return renderMoment(epochMs, 'day', `${toDay(epochMs)}, UTC`);
}

/** The same for all moments of one day in UTC. */
export function toDay(epochMs: number): string {
  return formatInUtc(epochMs, 'day');
}

function renderInUtc(epochMs: number, form: 'clock' | 'date'): Html {
  return renderMoment(epochMs, form, formatInUtc(epochMs, form));
}

function renderMoment(epochMs: number, form: 'clock' | 'date' | 'day' | 'age', text: string): Html {
  return html`<time datetime="${new Date(epochMs).toISOString()}" title="${formatInUtc(epochMs, 'moment')}" data-form="${form}">${text}</time>`;
}
