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

type FormName = keyof typeof TIME_FORMS;

/** Replaces the hours of these formats for readers who prefer AM and PM. The script does the same. */
export const TWELVE_HOURS = { hour: 'numeric', hourCycle: 'h12' } as const;

const inUtc = new Map<string, Intl.DateTimeFormat>();

/** Each format is created on first use, because creating all of them costs every start of a service milliseconds. */
function formatInUtc(epochMs: number, form: FormName, hours: '12' | '24' = '24'): string {
  const name = `${form} ${hours}`;
  const options = { ...TIME_FORMS[form], ...('hour' in TIME_FORMS[form] && hours === '12' && TWELVE_HOURS) };
  const known = inUtc.get(name) ?? new Intl.DateTimeFormat('en-US', { ...options, timeZone: 'UTC' });
  inUtc.set(name, known);
  return known.format(epochMs);
}

const MOMENT = /<time datetime="([^"]*)" title="[^"]*" data-form="(clock|date|day|age)">([^<]*)<\/time>/g;

/**
 * The same page with AM and PM. It changes the finished markup, so that nothing that shows a time has to know its reader.
 * Text of others is escaped there, so only the elements of this file match.
 */
export function useTwelveHours(markup: string): string {
  return markup.replaceAll(MOMENT, (_, iso: string, form: string, text: string) => {
    const shown = form === 'clock' ? formatInUtc(Date.parse(iso), 'clock', '12') : text;
    return `<time datetime="${iso}" title="${formatInUtc(Date.parse(iso), 'moment', '12')}" data-form="${form}">${shown}</time>`;
  });
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

/** The day and the time of day. */
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
